"""Synthetic graphs from a seed: R-MAT, whose degrees follow a power law, and a stochastic block model.

A one-line description names them as well: ``rmat:nodes=200000,edges=10000000,features=128,seed=0``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from halowire.errors import InputError, size_text
from halowire.graph.checks import MOST_CLASSES
from halowire.graph.graph import NODE_BYTES, Graph
from halowire.graph.seeded import Ints, checked_seed, distinct_pairs, random_bits, random_split, uniform_below
from halowire.inputs import memory_bytes

EDGE_BYTES = 16
"""The least memory that an edge takes while it is drawn: its two ends."""
EXAMPLES = {"rmat": "rmat:nodes=200000,edges=10000000", "sbm": "sbm:nodes=10000,edges=200000"}
QUADRANTS = (0.5, 0.17, 0.17, 0.16)
LEVELS_AT_ONCE = 3
Cells = np.ndarray[Any, np.dtype[np.uint32]]
Keys = dict[str, tuple[str, Callable[[str], Any]]]


def rmat(num_nodes: int, num_edges: int, num_features: int = 128, num_classes: int = 47, seed: int = 0) -> Graph:
    """Draw an undirected power-law graph of any size, for speed and partitioning; features and labels are random.

    An edge is found by halving the adjacency matrix again and again; each time it falls into the quadrants
    (low, low), (low, high), (high, low), (high, high) with probabilities 0.5, 0.17, 0.17, 0.16. Nodes are renumbered
    at random, so that an id tells nothing about a degree.

    Example:
        >>> graph = halowire.rmat(100_000, 1_000_000, num_features=16, num_classes=4)

    Args:
        num_nodes: N, any number.
        num_edges: E, directed entries: both directions of an edge count; an odd number is rounded down. No duplicates,
            no self loops.
        num_features: F, standard normal.
        num_classes: C, uniform at random; masks are 50/25/25.
        seed: 0..2**63-1; the same seed gives the same graph.
    """
    _require_sizes(num_nodes, num_edges, num_features, num_classes)
    rng = np.random.default_rng(checked_seed(seed))
    table = _quadrant_table()
    rounds = -(-max(num_nodes - 1, 1).bit_length() // LEVELS_AT_ONCE)
    name = rng.permutation(num_nodes).astype(np.int32 if num_nodes < 2**31 else np.int64)

    def draw(count: int) -> tuple[Ints, Ints]:
        row: Cells = np.zeros(count, dtype=np.uint32)
        col: Cells = np.zeros(count, dtype=np.uint32)
        shift, mask = np.uint32(LEVELS_AT_ONCE), np.uint32(2**LEVELS_AT_ONCE - 1)
        for _ in range(rounds):
            cell = table[rng.integers(0, 2**16, count, dtype=np.uint16)]
            row = (row << shift) | (cell >> shift)
            col = (col << shift) | (cell & mask)
        return _fit(row, num_nodes, rounds), _fit(col, num_nodes, rounds)

    low, high = distinct_pairs(draw, num_nodes, num_edges // 2, rng)
    x = torch.from_numpy(rng.standard_normal((num_nodes, num_features), dtype=np.float32)) if num_features else None
    y = torch.from_numpy(rng.integers(0, num_classes, num_nodes))
    edge_index, called = _mirrored(name[low], name[high], num_nodes), f"rmat-{num_nodes}"
    graph = Graph.from_edge_index(edge_index, num_nodes, x, y, name=called, num_classes=num_classes)
    return graph.with_split(*random_split(num_nodes, rng))


def _quadrant_table() -> Cells:
    """A table from 16 random bits to (row bits, column bits) of several levels: one lookup for many comparisons.

    The probability of a cell is the product of its levels' quadrant probabilities, rounded to 1/65536.
    """
    probability = np.ones((1, 1))
    for _ in range(LEVELS_AT_ONCE):
        probability = np.kron(probability, np.array(QUADRANTS).reshape(2, 2))
    bounds = np.rint(np.cumsum(probability.ravel()) * 2**16).astype(np.int64)
    counts = np.diff(bounds, prepend=0)
    return np.repeat(np.arange(counts.size, dtype=np.uint32), counts)


def _fit(cell: Cells, num_nodes: int, rounds: int) -> Ints:
    """Squeeze ids 0..8^rounds-1 into 0..num_nodes-1, in order, so that N need not be a power of two."""
    return (cell.astype(np.int64) * num_nodes) >> (LEVELS_AT_ONCE * rounds)


def block_model(
    num_nodes: int,
    num_edges: int,
    num_features: int = 64,
    num_classes: int = 8,
    seed: int = 0,
    *,
    homophily: float = 0.8,
    feature_noise: float = 4.0,
    multi_label: bool = False,
) -> Graph:
    """Draw an undirected graph of equally likely blocks, which show only in neighbourhoods.

    Features are ``x_i = c(block_i) + feature_noise * n_i``, where ``c`` is a random unit vector per block and ``n_i``
    is standard normal: one node's features say next to nothing, the mean over many neighbours says nearly all.
    A GNN learns the blocks, an MLP cannot.

    Example:
        >>> graph = halowire.block_model(1000, 10_000, num_features=16, num_classes=4)

    Args:
        num_nodes: N.
        num_edges: E, directed entries: both directions of an edge count; an odd number is rounded down. No duplicates,
            no self loops.
        num_features: F.
        num_classes: number of blocks, and of labels.
        seed: 0..2**63-1; the same seed gives the same graph.
        homophily: probability that an edge stays in its block; else its other end is any node.
        feature_noise: how much louder the noise is than the block's vector.
        multi_label: instead of the block itself, a node's labels are a random set of labels that belongs to its block.
    """
    _require_sizes(num_nodes, num_edges, num_features, num_classes)
    if not 0 <= homophily <= 1 or not feature_noise >= 0:
        raise InputError(
            f"got homophily {homophily} and feature_noise {feature_noise}, expected 0..1 and a number >= 0"
        )
    rng = np.random.default_rng(checked_seed(seed))
    block = rng.integers(0, num_classes, num_nodes)
    members = np.argsort(block, kind="stable")
    size = np.bincount(block, minlength=num_classes)
    start = np.cumsum(size) - size

    def draw(count: int) -> tuple[Ints, Ints]:
        source = uniform_below(random_bits(rng, count), num_nodes)
        home = block[source]
        stays = random_bits(rng, count) < homophily * 2**32
        bits = random_bits(rng, count)
        inside = members[start[home] + uniform_below(bits, size[home])]
        return source, np.where(stays, inside, uniform_below(bits, num_nodes))

    low, high = distinct_pairs(draw, num_nodes, num_edges // 2, rng)
    masks = random_split(num_nodes, rng)
    x = torch.from_numpy(_features(block, num_features, num_classes, feature_noise, rng)) if num_features else None
    y = torch.from_numpy(_label_sets(num_classes, rng)[block] if multi_label else block)
    edge_index, called = _mirrored(low, high, num_nodes), f"sbm-{num_nodes}"
    return Graph.from_edge_index(edge_index, num_nodes, x, y, name=called, num_classes=num_classes).with_split(*masks)


def _features(block: Ints, width: int, num_classes: int, noise: float, rng: np.random.Generator) -> np.ndarray:
    centre = rng.standard_normal((num_classes, width), dtype=np.float32)
    centre /= np.linalg.norm(centre, axis=1, keepdims=True)
    x = rng.standard_normal((block.size, width), dtype=np.float32)
    x *= np.float32(noise)
    x += centre[block]
    return x


def _label_sets(num_classes: int, rng: np.random.Generator) -> np.ndarray:
    """One 0/1 row of labels per block; every label is on in its own block and off in the next one."""
    labels = (rng.random((num_classes, num_classes)) < 0.3).astype(np.float32)
    own = np.arange(num_classes)
    labels[own, own] = 1
    labels[(own + 1) % num_classes, own] = 0
    return labels


def _mirrored(low: np.ndarray[Any, Any], high: np.ndarray[Any, Any], num_nodes: int) -> np.ndarray[Any, Any]:
    """Both directions of every pair as ``edge_index`` ``[2, 2 * pairs]``, int32 where that fits: half the memory."""
    count = low.size
    edge_index = np.empty((2, 2 * count), dtype=np.int32 if num_nodes < 2**31 else np.int64)
    edge_index[0, :count] = edge_index[1, count:] = low
    edge_index[0, count:] = edge_index[1, :count] = high
    return edge_index


def _require_sizes(num_nodes: int, num_edges: int, num_features: int, num_classes: int) -> None:
    """Refuse sizes from which no graph can be made, or none that fits into memory."""
    if num_nodes < 4:
        raise InputError(f"a synthetic graph of {num_nodes} nodes was asked for, expected at least 4")
    if num_edges < 0 or num_features < 0:
        raise InputError(f"got {num_edges} edges and {num_features} features, expected numbers >= 0")
    if num_classes < 2:
        raise InputError(f"a synthetic graph with {num_classes} classes was asked for, expected at least 2")
    if num_classes > max(MOST_CLASSES, num_nodes):
        raise InputError(
            f"a synthetic graph of {num_nodes} nodes with {num_classes} classes was asked for, expected at most "
            f"{max(MOST_CLASSES, num_nodes)}"
        )
    width = np.dtype(np.float32).itemsize * num_features
    needed, most = (NODE_BYTES + width) * num_nodes + EDGE_BYTES * num_edges + width * num_classes, memory_bytes()
    if needed > most:
        raise InputError(
            f"a synthetic graph of {num_nodes} nodes, {num_edges} edges and {num_features} features takes at least "
            f"{size_text(needed)}, expected at most the {size_text(most)} of memory that there are"
        )


def is_synthetic(spec: str) -> bool:
    """Whether ``spec`` describes a synthetic graph."""
    return spec.partition(":")[0] in EXAMPLES


def synthetic(spec: str) -> Graph:
    """Make the graph that ``spec`` describes: ``rmat:`` or ``sbm:``, then ``key=value`` pairs.

    Keys: nodes, edges (both required), features, classes, seed; for sbm also homophily, noise and multi_label (0 or 1).
    """
    kind, _, text = spec.partition(":")
    maker, keys = _makers()[kind]
    arguments: dict[str, Any] = {}
    for pair in filter(None, text.split(",")):
        key, equals, value = (part.strip() for part in pair.partition("="))
        if key not in keys or not equals:
            raise InputError(f"{pair!r} in {spec!r} is not known, expected key=value with a key of {', '.join(keys)}")
        name, convert = keys[key]
        try:
            arguments[name] = convert(value)
        except (KeyError, ValueError):
            raise InputError(f"{pair!r} in {spec!r} is not a number, expected for example {EXAMPLES['rmat']}") from None
    if "num_nodes" not in arguments or "num_edges" not in arguments:
        raise InputError(f"{spec!r} does not say how many nodes and edges, expected for example {EXAMPLES[kind]}")
    return maker(**arguments)


def _makers() -> dict[str, tuple[Callable[..., Graph], Keys]]:
    """The function that makes each kind of graph, and for every key the argument's name and how its text is read."""
    common: Keys = {
        "nodes": ("num_nodes", int), "edges": ("num_edges", int), "features": ("num_features", int),
        "classes": ("num_classes", int), "seed": ("seed", int),
    }  # fmt: skip
    block: Keys = {
        "homophily": ("homophily", float),
        "noise": ("feature_noise", float),
        "multi_label": ("multi_label", {"0": False, "1": True}.__getitem__),
    }
    return {"rmat": (rmat, common), "sbm": (block_model, common | block)}
