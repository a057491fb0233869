"""A seeded power-law graph (R-MAT) of any size, for speed and partitioning; its features and labels are random."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from halowire.graph.graph import Graph
from halowire.graph.seeded import Ints, checked_seed, distinct_pairs, mirrored, random_split, require_sizes

QUADRANTS = (0.5, 0.17, 0.17, 0.16)
LEVELS_AT_ONCE = 3
Cells = np.ndarray[Any, np.dtype[np.uint32]]


def rmat(num_nodes: int, num_edges: int, num_features: int = 128, num_classes: int = 47, seed: int = 0) -> Graph:
    """Draw an undirected power-law graph.

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
    require_sizes(num_nodes, num_edges, num_features, num_classes)
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
    train, val, test = random_split(num_nodes, rng)
    return Graph.from_edge_index(
        mirrored(name[low], name[high], num_nodes),
        num_nodes,
        x,
        y,
        train_mask=train,
        val_mask=val,
        test_mask=test,
        name=f"rmat-{num_nodes}",
        num_classes=num_classes,
    )


def _quadrant_table() -> Cells:
    """Uniform 16 random bits to (row bits, column bits) of several levels at once: one lookup instead of many compares.

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
