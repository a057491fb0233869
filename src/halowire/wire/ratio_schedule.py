"""Schedules of the compression ratio: VARCO's linear one, and others, as pure functions of the epoch."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from halowire.errors import InputError

TOLERANCE = 0.02
"""Of a budget that may be left over."""
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
    if not all(1 <= ratio < math.inf for _, ratio in steps):
        raise InputError(f"--rate.steps is {text!r}; a ratio is at least 1, where all columns travel, and finite")
    return steps


def stepped(epoch: int, steps: Sequence[tuple[int, float]]) -> float:
    """The ratio of the last step that has begun."""
    return [ratio for start, ratio in steps if start <= epoch][-1]


@dataclass(frozen=True)
class Budget:
    """A share of the columns for every epoch that never falls and spends ``total`` bytes in all, within 2%.

    With ``cost(s)`` the bytes of an epoch in which a share ``s`` of the columns travels, the wanted shares grow
    geometrically from about 1/128 to at most 1, so that the error falls all along, as VARCO's analysis wants. The
    growth is found by bisection, from below; what whole columns leave over is spent from the last epoch backwards.
    """

    shares: tuple[float, ...]

    @staticmethod
    def plan(total: float, epochs: int, cost: Callable[[float], int], grid: int = 512) -> Budget:
        """Spend ``total`` bytes over ``epochs``; refused where whole columns cannot come within 2% of it."""
        least, most = epochs * cost(0.0), epochs * cost(1.0)
        if not least <= total <= most:
            raise InputError(
                f"--rate.budget is {total:.0f} bytes, but {epochs} epochs take from {least} (one column) to {most} "
                "(all); give a number between them, or other bits"
            )
        low, high = -20.0, 20.0
        for _ in range(100):
            middle = (low + high) / 2
            low, high = (middle, high) if _spent(middle, epochs, cost) <= total else (low, middle)
        shares = {cost(share / grid): share / grid for share in reversed(range(grid + 1))}
        prices = sorted(shares)
        levels = [bisect.bisect_right(prices, cost(_share(low, epoch))) - 1 for epoch in range(epochs)]
        spent = _spend_rest(levels, prices, total)
        if spent < (1 - TOLERANCE) * total:
            raise InputError(
                f"--rate.budget is {total:.0f} bytes, of which {epochs} epochs of whole columns can spend {spent}; "
                f"give --rate.budget {spent}, more epochs, or other bits"
            )
        return Budget(tuple(shares[prices[level]] for level in levels))


def _spend_rest(levels: list[int], prices: Sequence[int], total: float) -> int:
    """Raise ``levels`` of epochs, which stay in ascending order, while the sum of their prices fits; that sum."""
    spent, before = sum(prices[level] for level in levels), None
    while before != spent:
        before, above = spent, len(prices) - 1
        for epoch in reversed(range(len(levels))):
            level = levels[epoch]
            step = prices[level + 1] - prices[level] if level < above else math.inf
            if spent + step <= total:
                levels[epoch] = level + 1
                spent += int(step)
            above = levels[epoch]
    return spent


def _share(growth: float, epoch: int) -> float:
    """``min(1, e^(g (t + 1)) / 128)``; where ``g < 0``, for budgets below 1/128, the constant ``e^g / 128``."""
    steps = epoch + 1 if growth > 0 else 1
    return math.exp(min(0.0, growth * steps - math.log(128)))


def _spent(growth: float, epochs: int, cost: Callable[[float], int]) -> float:
    return float(sum(cost(_share(growth, epoch)) for epoch in range(epochs)))
