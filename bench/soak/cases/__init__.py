"""All cases of the soak, by family; a case injects one fault or several into runs of one recipe."""

from __future__ import annotations

from bench.soak.cases import damage, disagreement, disk, folder, kill, link, number, rename, signals, stop
from bench.soak.ground import Case

FAMILIES = (link, kill, rename, stop, signals, damage, disk, disagreement, folder, number)


def all_cases() -> list[Case]:
    """Every case, the longest families first: what they wait for leaves the cores to the others."""
    return [case for family in FAMILIES for case in family.cases()]
