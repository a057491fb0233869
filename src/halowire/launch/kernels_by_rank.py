"""Why torch's operations stand in for the kernels: each worker may have another GPU, and so another reason, or none."""

from __future__ import annotations

from collections.abc import Sequence


def twins_by_rank(reasons: Sequence[str]) -> list[str]:
    """Every one of the workers' ``reasons`` once, with the ranks that have it; empty ones are of those without twins.

    A reason that all workers have stands alone.
    """
    found = {why: [rank for rank, other in enumerate(reasons) if other == why] for why in dict.fromkeys(reasons) if why}
    return [
        why if len(ranks) == len(reasons) else f"on rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}: {why}"
        for why, ranks in found.items()
    ]
