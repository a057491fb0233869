"""The split of a model: contiguous blocks for every stage, so that the most expensive stage is as cheap as possible."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from halowire.errors import InputError


def split(costs: Sequence[float], stages: int) -> list[int]:
    """Number of blocks of every stage, at least one each, for blocks with ``costs`` in their order.

    Dynamic programming on ``best(s, b) = min over a < b of max(best(s - 1, a), costs[a] + ... + costs[b - 1])``. Among
    equally good splits, later stages get more blocks, because the first stage also holds the features.
    """
    blocks = len(costs)
    if not 1 <= stages <= blocks:
        raise InputError(f"{blocks} blocks cannot be split over {stages} stages; every stage needs a block")
    sums = [0.0]
    for cost in costs:
        sums.append(sums[-1] + cost)
    best = [[0.0 if b == 0 else float("inf") for b in range(blocks + 1)]]
    choice: list[list[int]] = []
    for stage in range(1, stages + 1):
        row, picks = [float("inf")] * (blocks + 1), [0] * (blocks + 1)
        for b in range(stage, blocks + 1):
            for a in range(stage - 1, b):
                worst = max(best[-1][a], sums[b] - sums[a])
                if worst < row[b]:
                    row[b], picks[b] = worst, a
        best.append(row)
        choice.append(picks)
    ends = [blocks]
    for picks in reversed(choice):
        ends.append(picks[ends[-1]])
    ends.reverse()
    return [b - a for a, b in itertools.pairwise(ends)]


def parse_split(text: str, stages: int, blocks: int) -> list[int]:
    """Parse the user's text ``"8,8,16"`` into the number of blocks of every stage."""
    parts = text.split(",")
    if not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
        raise InputError(f"--mesh.split is {text!r}; give the number of blocks of every stage, such as 8,8,16")
    sizes = [int(part) for part in parts]
    if len(sizes) != stages or sum(sizes) != blocks:
        raise InputError(
            f"--mesh.split {text} has {len(sizes)} stages and {sum(sizes)} blocks in all, but there are {stages} "
            f"stages and {blocks} blocks"
        )
    return sizes
