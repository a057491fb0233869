"""Collects distinct undirected node pairs from any random source of pairs, for the synthetic graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from halowire.errors import InputError

Ints = np.ndarray[Any, np.dtype[np.int64]]
Draw = Callable[[int], tuple[Ints, Ints]]

MAX_ROUNDS = 30


def distinct_pairs(draw: Draw, num_nodes: int, num_pairs: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """``num_pairs`` different pairs (low, high) with low < high, sorted; ``draw(n)`` gives n candidate pairs.

    Duplicates and self loops are thrown away and drawn again; the surplus of the last round is dropped at random.
    """
    possible = num_nodes * (num_nodes - 1) // 2
    if num_pairs > possible // 2:
        raise InputError(
            f"{2 * num_pairs} edges among {num_nodes} nodes were asked for, expected at most "
            f"{2 * (possible // 2)} (half of all pairs); ask for fewer edges or more nodes"
        )
    keys = np.empty(0, dtype=np.int64)
    for attempt in range(MAX_ROUNDS):
        missing = num_pairs - keys.size
        if missing <= 0:
            break
        a, b = draw(int(missing * (1.15 + 0.5 * attempt)) + 16)
        key = np.minimum(a, b) * num_nodes + np.maximum(a, b)
        keys = sorted_distinct(np.concatenate([keys, key[a != b]]))
    if keys.size < num_pairs:
        raise InputError(
            f"only {2 * keys.size} of {2 * num_pairs} distinct edges could be drawn among {num_nodes} nodes; "
            "ask for fewer edges or more nodes"
        )
    keep = np.ones(keys.size, dtype=bool)
    keep[rng.choice(keys.size, keys.size - num_pairs, replace=False, shuffle=False)] = False
    low, high = np.divmod(keys[keep], num_nodes)
    return low, high


def mirrored(low: np.ndarray[Any, Any], high: np.ndarray[Any, Any], num_nodes: int) -> np.ndarray[Any, Any]:
    """Both directions of every pair as ``edge_index`` ``[2, 2 * pairs]``, int32 where that fits: half the memory."""
    count = low.size
    edge_index = np.empty((2, 2 * count), dtype=np.int32 if num_nodes < 2**31 else np.int64)
    edge_index[0, :count] = edge_index[1, count:] = low
    edge_index[0, count:] = edge_index[1, :count] = high
    return edge_index


def scaled(bits: np.ndarray[Any, np.dtype[np.uint32]], limit: Ints | int) -> Ints:
    """Map uniform 32-bit numbers to uniform integers in 0..limit-1 by a multiplication instead of a division."""
    return ((bits.astype(np.uint64) * np.asarray(limit, dtype=np.uint64)) >> np.uint64(32)).astype(np.int64)


def random_bits(rng: np.random.Generator, count: int) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """Uniform 32-bit numbers ``[count]``."""
    return rng.integers(0, 2**32, count, dtype=np.uint32)


def sorted_distinct(keys: Ints) -> Ints:
    """Every key once, ascending; several times as fast as ``np.unique`` on large arrays."""
    keys = np.sort(keys)
    first = np.ones(keys.size, dtype=bool)
    np.not_equal(keys[1:], keys[:-1], out=first[1:])
    return keys[first]
