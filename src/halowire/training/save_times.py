"""When a run is saved: every so many epochs, every so many minutes, and at the end; all workers decide alike."""

from __future__ import annotations

import time
from collections.abc import Callable

from halowire.training.config import CheckpointConfig

AHEAD = 3
"""A checkpoint is complete two epochs after it was begun, and the next moment to begin one is an epoch away."""


class SaveTimes:
    """Tells whether a checkpoint is due after an epoch.

    The minutes are counted by rank 0's clock and reach the other workers with the sums of an epoch. They run from the
    beginning of the last checkpoint, and a new one is begun ``AHEAD`` epochs early, so that a run which is killed does
    not lose more than these minutes (or than three epochs, if those take longer).
    """

    def __init__(self, config: CheckpointConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self._every = config.every
        self._seconds = 60 * config.minutes
        self._clock = clock
        self._begun = clock()
        self._epoch_began = self._begun

    def start(self) -> None:
        """Count the minutes from now."""
        self._begun = self._epoch_began = self._clock()

    def minutes_over(self) -> bool:
        """Whether the minutes are over by this worker's clock; asked once in every epoch."""
        now = self._clock()
        epoch, self._epoch_began = now - self._epoch_began, now
        return 0 < self._seconds <= now - self._begun + AHEAD * epoch

    def due(self, epoch: int, minutes_over: bool) -> bool:
        """Whether to begin a checkpoint after ``epoch`` epochs."""
        found = minutes_over or (self._every > 0 and epoch % self._every == 0)
        if found:
            self._begun = self._clock()
        return found
