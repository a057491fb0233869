"""Rates over time: schedules of the compression ratio, a budget of bytes, and the base bit that follows the loss."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from halowire.errors import InputError

TOLERANCE = 0.02
"""The share of a budget that may be left over."""
OLD = 0.9
"""The weight of earlier losses in the running average that the base bit follows."""
WINDOW = 5
"""Number of speeds of the loss that the base bit looks at."""
LEAST, MOST = 1, 8
# A clock that stands still must not divide by zero.
SHORTEST = 1e-9


def linear(epoch: int, epochs: int, largest: float, smallest: float, slope: float) -> float:
    """VARCO: ``c(t) = max(c_max - a t (c_max - c_min) / (K - 2), c_min)``; runs of one or two epochs divide by 1."""
    return max(largest - slope * epoch * (largest - smallest) / max(1, epochs - 2), smallest)


def exponential(epoch: int, epochs: int, largest: float, smallest: float) -> float:
    """``c(t) = c_max (c_max / c_min)^(-t / (K - 2))``, never below ``c_min``."""
    return max(largest * math.pow(largest / smallest, -epoch / max(1, epochs - 2)), smallest)


def parse_steps(text: str) -> list[tuple[int, float]]:
    """Parse a text such as ``"0:64,50:8,100:1"`` into [(first epoch, ratio)]; the first step starts at epoch 0."""
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
    """The ratio of the last step that has begun at ``epoch``."""
    return [ratio for start, ratio in steps if start <= epoch][-1]


@dataclass(frozen=True)
class Budget:
    """The share of the columns that travels in every epoch: it never falls, and all epochs spend a total of bytes.

    Wanted shares grow geometrically from about 1/128 to at most 1, so that the error falls all along, as VARCO's
    analysis requires. Bisection finds the largest growth that the total allows. As only whole columns travel, some
    bytes are left over; they are spent from the last epoch backwards, and at most 2% remain.
    """

    shares: tuple[float, ...]

    @staticmethod
    def plan(total: float, epochs: int, cost: Callable[[float], int], grid: int = 512) -> Budget:
        """Spend ``total`` bytes over ``epochs``; a total that whole columns cannot spend within 2% is refused.

        ``cost(s)`` gives the bytes of an epoch in which a share ``s`` of the columns travels.
        """
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
    """Raise the epochs' ``levels``, keeping them in ascending order, while the sum of their prices fits ``total``.

    Returns the sum of the prices.
    """
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


class BaseBit:
    """Sylvie's time-adaptive bits, decided from the loss of the whole graph, which all workers know.

    ``a(t) = 0.9 a(t-1) + 0.1 loss(t)``, and ``v(t) = (a(t-1) - a(t)) / s(t)`` is the speed at which the loss falls;
    ``s(t)`` is 1, or the seconds of the epoch on rank 0. If the last 5 speeds never increase, the bits of the next
    epoch are doubled (at most 8); else, if the speeds never decrease, the bits are halved (at least 1).

    Attributes:
        history: bits of every epoch so far and of the next one.
        synchronous: whether the last change of the bits was a rise; with adaptive freshness, epochs are synchronous
            while it is true.
    """

    def __init__(self, start: int, per_second: bool) -> None:
        self._per_second = per_second
        self.history = [start]
        self.synchronous = False
        self._average: float | None = None
        self._speeds: list[float] = []

    def bits(self, epoch: int) -> int:
        """The base bit of ``epoch``, which is at most the next epoch."""
        return self.history[epoch]

    def observe(self, loss: float, seconds: float) -> None:
        """Decide the bits of the next epoch, from this epoch's loss and its seconds on rank 0."""
        before, bits = self._average, self.history[-1]
        self._average = loss if before is None else OLD * before + (1 - OLD) * loss
        if before is not None:
            speed = (before - self._average) / (max(seconds, SHORTEST) if self._per_second else 1.0)
            self._speeds = [*self._speeds, speed][-WINDOW:]
        self.history.append(self._next(bits))
        if self.history[-1] != bits:
            self.synchronous = self.history[-1] > bits

    def keep_up(self, epoch: int) -> None:
        """Give every epoch up to ``epoch`` without a decision the bits of the last decided epoch."""
        self.history += [self.history[-1]] * (epoch + 1 - len(self.history))

    def state(self) -> dict[str, Tensor]:
        """Everything that the next decision depends on."""
        average = [] if self._average is None else [self._average]
        return {
            "base.history": torch.tensor(self.history),
            "base.average": torch.tensor(average, dtype=torch.float64),
            "base.speeds": torch.tensor(self._speeds, dtype=torch.float64),
            "base.synchronous": torch.tensor(int(self.synchronous)),
        }

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Go on from ``state``, which :meth:`state` gave."""
        self.history = state["base.history"].tolist()
        self._average = next(iter(state["base.average"].tolist()), None)
        self._speeds = state["base.speeds"].tolist()
        self.synchronous = bool(state["base.synchronous"])

    def _next(self, bits: int) -> int:
        if len(self._speeds) < WINDOW:
            return bits
        pairs = list(itertools.pairwise(self._speeds))
        if all(later <= earlier for earlier, later in pairs):
            return min(2 * bits, MOST)
        if all(later >= earlier for earlier, later in pairs):
            return max(bits // 2, LEAST)
        return bits
