"""Schedules of the compression ratio: VARCO's linear one, and others, as pure functions of the epoch."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from halowire.kernels import InputError

SCHEDULES = ("constant", "linear", "exponential", "steps", "budget")


def linear(epoch: int, epochs: int, largest: float, smallest: float, slope: float) -> float:
    """VARCO: ``c(t) = max(c_max - a t (c_max - c_min) / (K - 2), c_min)``; runs of one or two epochs divide by 1."""
    return max(largest - slope * epoch * (largest - smallest) / max(1, epochs - 2), smallest)


def exponential(epoch: int, epochs: int, largest: float, smallest: float) -> float:
    """``c(t) = c_max (c_max / c_min)^(-t / (K - 2))``, never below ``c_min``."""
    return max(largest * math.pow(largest / smallest, -epoch / max(1, epochs - 2)), smallest)


def parse_steps(text: str) -> list[tuple[int, float]]:
    """``"0:64,50:8,100:1"`` as [(from epoch, ratio)]; the first must start at epoch 0."""
    try:
        steps = [(int(a), float(b)) for a, _, b in (part.partition(":") for part in text.split(","))]
    except ValueError:
        raise InputError(f"--rate.steps is {text!r}; give EPOCH:RATIO pairs such as 0:64,50:8,100:1") from None
    if steps[0][0] != 0 or any(a >= b for (a, _), (b, _) in itertools.pairwise(steps)):
        raise InputError(f"--rate.steps is {text!r}; its epochs must start at 0 and ascend, as in 0:64,50:8,100:1")
    return steps


def stepped(epoch: int, steps: Sequence[tuple[int, float]]) -> float:
    """The ratio of the last step that has begun."""
    return [ratio for start, ratio in steps if start <= epoch][-1]


@dataclass(frozen=True)
class Budget:
    """A share of the columns for every epoch that rises and spends ``total`` bytes in all.

    With ``cost(s)`` the bytes of an epoch in which a share ``s`` of the columns travels, the wanted shares grow
    geometrically from about 1/128 to at most 1, so that the error falls all along, as VARCO's analysis wants. The
    growth is found by bisection; then every epoch takes the share that brings the sum so far closest to the plan, so
    that rounding to whole columns does not add up.
    """

    shares: tuple[float, ...]

    @staticmethod
    def plan(total: float, epochs: int, cost: Callable[[float], int], grid: int = 512) -> Budget:
        """Spend ``total`` bytes over ``epochs``; refused where even the least, or not even the most, fits."""
        least, most = epochs * cost(0.0), epochs * cost(1.0)
        if not least <= total <= most:
            raise InputError(
                f"--rate.budget is {total:.0f} bytes; {epochs} epochs take from {least} (one column) to {most} (all)"
            )
        steps = [share / grid for share in range(grid + 1)]
        prices = [cost(share) for share in steps]
        low, high = -20.0, 20.0
        for _ in range(100):
            middle = (low + high) / 2
            low, high = (middle, high) if _spent(middle, epochs, cost) < total else (low, middle)
        shares, spent, wanted = [], 0, 0.0
        for epoch in range(epochs):
            wanted += cost(_share(high, epoch))
            rest = total - spent if epoch == epochs - 1 else min(wanted, total) - spent
            pick = min(range(len(steps)), key=lambda i: abs(prices[i] - rest))
            shares.append(steps[pick])
            spent += prices[pick]
        return Budget(tuple(shares))


def _share(growth: float, epoch: int) -> float:
    """``min(1, e^(g (t + 1)) / 128)``; where ``g < 0``, for budgets below 1/128, the constant ``e^g / 128``."""
    steps = epoch + 1 if growth > 0 else 1
    return math.exp(min(0.0, growth * steps - math.log(128)))


def _spent(growth: float, epochs: int, cost: Callable[[float], int]) -> float:
    return float(sum(cost(_share(growth, epoch)) for epoch in range(epochs)))
