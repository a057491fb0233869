"""The base bit over time: doubled when the loss falls ever more slowly, halved when ever faster."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

OLD, WINDOW = 0.9, 5
LEAST, MOST = 1, 8
# A clock that stands still must not divide by zero.
SHORTEST = 1e-9


class BaseBit:
    """Sylvie's time-adaptive bits, from the loss of the whole graph, which all workers know.

    With ``a(t) = 0.9 a(t-1) + 0.1 loss(t)`` and ``v(t) = (a(t-1) - a(t)) / s(t)``, the speed at which the loss falls:
    where the last 5 speeds never increase, the bits of the next epoch are doubled (at most 8); else, where they never
    decrease, halved (at least 1). ``s(t)`` is 1, or the seconds of the epoch on rank 0.

    Attributes:
        history: bits of every epoch so far and of the next one.
        synchronous: whether the bits' last change was a rise; execution follows it where freshness is adaptive.
    """

    def __init__(self, start: int, per_second: bool) -> None:
        self._per_second = per_second
        self.history = [start]
        self.synchronous = False
        self._average: float | None = None
        self._speeds: list[float] = []

    def bits(self, epoch: int) -> int:
        """The base bit of ``epoch``, which must not be further ahead than the next one."""
        return self.history[epoch]

    def observe(self, loss: float, seconds: float) -> None:
        """Decide on the bits of the next epoch, from the loss of this one and the seconds that it took on rank 0."""
        before, bits = self._average, self.history[-1]
        self._average = loss if before is None else OLD * before + (1 - OLD) * loss
        if before is not None:
            speed = (before - self._average) / (max(seconds, SHORTEST) if self._per_second else 1.0)
            self._speeds = [*self._speeds, speed][-WINDOW:]
        self.history.append(self._next(bits))
        if self.history[-1] != bits:
            self.synchronous = self.history[-1] > bits

    def keep_up(self, epoch: int) -> None:
        """Epochs up to ``epoch`` that no loss decided on have the bits of the last one."""
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
        """Go on from :meth:`state`."""
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
