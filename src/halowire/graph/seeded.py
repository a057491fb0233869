"""Random draws from a seed: the rule for seeds, pairs of nodes for synthetic graphs, and splits of nodes."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from halowire.errors import InputError

Ints = np.ndarray[Any, np.dtype[np.int64]]
Draw = Callable[[int], tuple[Ints, Ints]]

SEED_LIMIT = 2**63
MAX_ROUNDS = 30


def checked_seed(seed: Any) -> int:
    """``seed`` as an int in ``0..2**63-1``, which NumPy, torch and METIS all take; anything else is refused."""
    try:
        value = operator.index(seed)
    except TypeError:
        raise InputError(f"the seed is {seed!r}, expected a whole number from 0 to 2**63 - 1") from None
    if not 0 <= value < SEED_LIMIT:
        raise InputError(f"the seed is {value}, expected 0 to 2**63 - 1; choose another seed")
    return value


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


def uniform_below(bits: np.ndarray[Any, np.dtype[np.uint32]], limit: Ints | int) -> Ints:
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


def random_split(
    num_nodes: int, rng: np.random.Generator, train: float = 0.5, val: float = 0.25
) -> tuple[Tensor, Tensor, Tensor]:
    """Masks (train, val, test), bool ``[num_nodes]``; nodes that are in neither ``train`` nor ``val`` are for test."""
    order = rng.permutation(num_nodes)
    first, second = round(train * num_nodes), round((train + val) * num_nodes)
    masks = []
    for chosen in (order[:first], order[first:second], order[second:]):
        mask = torch.zeros(num_nodes, dtype=torch.bool)
        mask[torch.from_numpy(chosen)] = True
        masks.append(mask)
    return masks[0], masks[1], masks[2]
