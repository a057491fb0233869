"""Finding the link rate at which exact training waits for the wire a given share of its epoch."""

from __future__ import annotations

import math
from collections.abc import Callable

from bench.timing.measured import Measured

PAYLOAD = 1448 / 1514
"""Share of a full Ethernet frame that is payload."""
MOST_STEPS = 3


def transfer_seconds(nbytes: float, workers: int, rate: float) -> float:
    """How long the links take for ``nbytes`` of all workers, which send and receive at the same time."""
    return 8 * nbytes / workers / (PAYLOAD * rate)


def rounded(rate: float) -> int:
    """Three digits, so that a rate can be written down."""
    step = 10 ** (math.floor(math.log10(rate)) - 2)
    return round(rate / step) * step


def wire_share(found: Measured, null: Measured) -> float:
    """The share of an epoch that is due to the wire: what it takes beyond the null transport's epoch."""
    return 1 - null.seconds / found.seconds


def wanted_rate(rate: float, found: Measured, null: Measured, share: float) -> int:
    """The rate at which the share is right, if the wire's time is inversely proportional to the rate."""
    return rounded(rate * (found.seconds - null.seconds) / (null.seconds * share / (1 - share)))


def find_rate(
    measure: Callable[[int], Measured],
    null: Measured,
    bytes_of_exact: float,
    workers: int,
    share: float,
    tolerance: float,
) -> tuple[int, Measured]:
    """The rate in bits per second at which the wire is ``share`` of exact training, and what that took at it.

    The first guess comes from the bytes and the epoch of the null transport; every step corrects the last until the
    share is met; where noise prevents that, the closest counts. A probe at a higher rate, which would be quicker,
    misleads: there the packets themselves take much of the core.
    """
    rate = rounded(transfer_seconds(bytes_of_exact, workers, 1.0) / (null.seconds * share / (1 - share)))
    tried: list[tuple[int, Measured]] = []
    while not tried or (abs(wire_share(tried[-1][1], null) - share) > tolerance and len(tried) < MOST_STEPS):
        tried.append((rate, measure(rate)))
        rate = wanted_rate(*tried[-1], null, share)
    return min(tried, key=lambda step: abs(wire_share(step[1], null) - share))
