"""Weightings of nodes and edges: a partitioner cuts by one after another until no part is much larger than the mean.

The first such cut is kept. Where there is none, nodes are moved out of the largest parts of every cut, see
``levelling.py``; of the cuts that are then good enough the one with the fewest halo rows is kept.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from torch import Tensor

from halowire.graph import Graph
from halowire.partitioning.levelling import LARGEST_PART, goal, least_largest, levelled
from halowire.partitioning.part_load import PartLoad

BALANCES = {"auto": (1.0, 0.5), "both": (1.0,), "nodes": (0.0,)}
"""By the setting's name, the weights that all edges may have, where all nodes together have the weight 1."""
SLOW = 5.0
"""Seconds from which on the user is told how long a cut took."""
TICK = 10.0
"""Seconds from one line on a cut that goes on to the next."""
Teller = Callable[[str], None]


def best_weighting(
    graph: Graph,
    parts: int,
    weightings: Sequence[float],
    widths: Sequence[int],
    cut: Callable[[float], Tensor],
    tell: Teller,
) -> tuple[Tensor, tuple[str, ...]]:
    """The owners under the first weighting that leaves no part above 1.15 of the mean.

    If there is none, every cut is levelled; the one with the fewest halo rows of those that are now good enough is
    kept, else the one with the smallest largest part. ``cut`` makes owners, int64 ``[N]``, from the weight of all
    edges. The second result says, if several weightings were tried, how large the largest part was under each.
    """
    tried: list[tuple[float, float, Tensor]] = []
    for place, edges in enumerate(weightings):
        start = time.monotonic()
        with ticking(f"weighting {place + 1} of up to {len(weightings)}", tell):
            owner = cut(edges)
        seconds = time.monotonic() - start
        largest = PartLoad.of(graph, owner, parts, widths).largest()
        tried.append((largest, edges, owner))
        if seconds > SLOW:
            tell(f"weighting {place + 1} of up to {len(weightings)} took {seconds:.0f} s: largest part {largest:.2f}")
        if largest <= LARGEST_PART:
            break
    found = ", ".join(f"{one:.2f} (edges weigh {weight:g})" for one, weight, _ in tried)
    found = f"the largest part over the mean was {found}: "
    if largest <= LARGEST_PART:
        words = f"{found}{largest:.2f} with edges that weigh {edges:g} is kept"
        return owner, (words,) if len(tried) > 1 else ()
    if len(tried) == 1:
        return owner, ()
    choices = [_level(graph, before, parts, widths, weight) for _, weight, before in tried]
    kept = min(choices, key=lambda one: (not one.good, one.halo_rows if one.good else one.largest))
    return kept.owner, (found + kept.words,)


@contextmanager
def ticking(what: str, tell: Teller) -> Iterator[None]:
    """Tell every ten seconds that ``what`` goes on inside the block, from a thread of its own."""
    done, start = threading.Event(), time.monotonic()

    def tick() -> None:
        while not done.wait(TICK):
            tell(f"{what}: {time.monotonic() - start:.0f} s so far")

    thread = threading.Thread(target=tick, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@dataclass(frozen=True, eq=False)
class _Choice:
    """A cut after levelling: its largest part over the mean, whether that is good, its halo rows, what was done."""

    owner: Tensor
    largest: float
    good: bool
    halo_rows: int
    words: str


def _level(graph: Graph, before: Tensor, parts: int, widths: Sequence[int], edges: float) -> _Choice:
    owner = levelled(graph, before, parts, widths)
    load = PartLoad.of(graph, owner, parts, widths)
    largest, least, bound = load.largest(), least_largest(graph, load), goal(graph, load)
    words = (
        f"{largest:.2f} with edges that weigh {edges:g} is kept, after {int((owner != before).sum()):,} nodes moved "
        "out of the largest parts"
    )
    if least > LARGEST_PART:
        words += f"; the part that owns the node with the most in-edges has at least {least:.2f}"
    if largest > bound:
        words += f"; it should be at most {bound:.2f}, but no other node that could be moved made it smaller"
    return _Choice(owner, largest, largest <= bound, sum(load.halo_rows), words)
