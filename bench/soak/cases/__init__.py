"""All cases of the soak, by family; a case injects one fault or several into runs of one recipe."""

from __future__ import annotations

import itertools

from bench.soak.cases import damage, disagreement, disk, folder, kill, link, number, rename, signals, stop
from bench.soak.ground import Case

FAMILIES = (link, kill, rename, stop, signals, damage, disk, disagreement, folder, number)


def all_cases() -> list[Case]:
    """Every case, one of each family by turns: where time runs out, no family is missing."""
    turns = itertools.zip_longest(*(family.cases() for family in FAMILIES))
    return [case for turn in turns for case in turn if case is not None]
