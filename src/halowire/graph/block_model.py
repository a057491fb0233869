"""A seeded stochastic block model whose classes show only in neighbourhoods: a GNN learns them, an MLP cannot."""

from __future__ import annotations

import numpy as np
import torch

from halowire.errors import InputError
from halowire.graph.graph import Graph
from halowire.graph.seeded import (
    Ints,
    checked_seed,
    distinct_pairs,
    mirrored,
    random_bits,
    random_split,
    require_sizes,
    uniform_below,
)


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
    """Draw an undirected graph of equally likely blocks.

    Features are ``x_i = c(block_i) + feature_noise * n_i``, where ``c`` is a random unit vector per block and ``n_i``
    is standard normal: one node's features say next to nothing, the mean over many neighbours says nearly all.

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
    require_sizes(num_nodes, num_edges, num_features, num_classes)
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
    train, val, test = random_split(num_nodes, rng)
    return Graph.from_edge_index(
        mirrored(low, high, num_nodes),
        num_nodes,
        torch.from_numpy(_features(block, num_features, num_classes, feature_noise, rng)) if num_features else None,
        torch.from_numpy(_label_sets(num_classes, rng)[block] if multi_label else block),
        train_mask=train,
        val_mask=val,
        test_mask=test,
        name=f"sbm-{num_nodes}",
        num_classes=num_classes,
    )


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
