"""Why torch's operations stand in for the kernels: each worker may have another GPU, and so another reason, or none."""

from __future__ import annotations

from collections.abc import Sequence


def twins_by_rank(reasons: Sequence[str]) -> dict[str, str]:
    """Where each of the workers' ``reasons`` holds: ``on rank 1``, or nothing for one that all workers have.

    Empty reasons are of workers whose kernels run.
    """
    found = {why: [rank for rank, other in enumerate(reasons) if other == why] for why in dict.fromkeys(reasons) if why}
    return {why: "" if len(ranks) == len(reasons) else _words(ranks) for why, ranks in found.items()}


def _words(ranks: list[int]) -> str:
    return f"on rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"
