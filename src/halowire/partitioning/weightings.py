"""Weightings of nodes and edges: a partitioner cuts by one after another until no part is much larger than the mean."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from torch import Tensor

from halowire.graph import Graph
from halowire.partitioning.part_load import PartLoad

BALANCES = {"auto": (1.0, 0.5, 2.0), "both": (1.0,), "nodes": (0.0,)}
"""By the setting's name, the weights that all edges may have, where all nodes together have the weight 1."""
LARGEST_PART = 1.15
"""No part should have more than this times the mean, in predicted work or memory."""
SLOW = 5.0
"""Seconds from which on the user is told how long a cut took."""
Teller = Callable[[str], None]


def best_weighting(
    graph: Graph,
    parts: int,
    weightings: Sequence[float],
    widths: Sequence[int],
    cut: Callable[[float], Tensor],
    tell: Teller,
) -> tuple[Tensor, tuple[str, ...]]:
    """The owners under the first weighting that leaves no part above 1.15 of the mean, else under the best of them.

    ``cut`` makes owners, int64 ``[N]``, from the weight of all edges. The second result says, if several weightings
    were tried, how large the largest part was under each.
    """
    tried: list[tuple[float, float, Tensor]] = []
    for place, edges in enumerate(weightings):
        start = time.monotonic()
        owner = cut(edges)
        seconds = time.monotonic() - start
        largest = PartLoad.of(graph, owner, parts, widths).largest()
        tried.append((largest, edges, owner))
        if seconds > SLOW:
            tell(f"weighting {place + 1} of up to {len(weightings)} took {seconds:.0f} s: largest part {largest:.2f}")
        if largest <= LARGEST_PART:
            break
    largest, edges, owner = min(tried, key=lambda one: one[0])
    if len(tried) == 1:
        return owner, ()
    found = ", ".join(f"{one:.2f} (edges weigh {weight:g})" for one, weight, _ in tried)
    return owner, (
        f"the largest part over the mean was {found}: {largest:.2f} with edges that weigh {edges:g} is kept",
    )
