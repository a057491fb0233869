"""Freshness: how old the halo rows of an epoch are, and when the workers synchronise."""

from __future__ import annotations

from dataclasses import dataclass

from halowire.errors import InputError


@dataclass(frozen=True)
class Freshness:
    """``fresh`` uses the rows of this epoch; ``delayed`` uses last epoch's while this epoch's are under way.

    Attributes:
        delayed: use the messages of the previous epoch (zeros at first), forward and backward.
        sync_every: Sylvie's bound: epoch ``t`` (from 0) is synchronous if ``(t + 1) mod sync_every == 0``; 0: never.
        smoothing: PipeGCN's momentum ``m``: ``avg = m avg + (1 - m) received`` is used instead of ``received``; 0: off.
        threshold: synchronise the next epoch when layer 1's halo rows, before dropout, changed by more than this
            share of their norm; 0: off.
        adaptive: Sylvie's adaptive execution: synchronous from a rise of the base bit to its next fall.
    """

    delayed: bool = False
    sync_every: int = 0
    smoothing: float = 0.0
    threshold: float = 0.0
    adaptive: bool = False

    def __post_init__(self) -> None:
        if self.sync_every < 0:
            raise InputError(f"--freshness.sync-every is {self.sync_every}; it must be at least 1, or 0 for never")
        if not 0 <= self.smoothing < 1:
            raise InputError(f"--freshness.smoothing is {self.smoothing}; it must lie in 0 <= m < 1")
        if not self.threshold >= 0:
            raise InputError(f"--freshness.threshold is {self.threshold}; it must be at least 0")
        for name in ("sync_every", "smoothing", "threshold"):
            if getattr(self, name) and not self.delayed:
                flag = f"--freshness.{name.replace('_', '-')}"
                raise InputError(f"{flag} has no effect on fresh rows; add --freshness.mode delayed or leave it out")

    def synchronous(self, epoch: int) -> bool:
        """Whether ``epoch`` uses its own rows, whatever was measured in training."""
        return not self.delayed or (self.sync_every > 0 and (epoch + 1) % self.sync_every == 0)
