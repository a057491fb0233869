"""Checkpoints by epochs, by minutes and both."""

from __future__ import annotations

from halowire.training.config import CheckpointConfig
from halowire.training.save_times import SaveTimes


class Clock:
    """A clock that a test moves."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def times_of(epochs: int, seconds: float, **settings: float) -> list[int]:
    """The epochs after which a run of epochs of so many ``seconds`` is saved."""
    clock = Clock()
    times = SaveTimes(CheckpointConfig(**settings), clock)
    times.start()
    found = []
    for epoch in range(1, epochs + 1):
        clock.now += seconds
        if times.due(epoch, times.minutes_over()):
            found.append(epoch)
    return found


def test_by_epochs():
    assert times_of(10, 1, every=3, minutes=0) == [3, 6, 9]
    assert times_of(10, 1, every=0, minutes=0) == []


def test_by_minutes_three_epochs_ahead():
    """With epochs of a minute and at most 10 minutes: begun after 7, complete after 9, again before 10 are over."""
    assert times_of(30, 60, every=0, minutes=10) == [7, 14, 21, 28]
    assert times_of(5, 600, every=0, minutes=10) == [1, 2, 3, 4, 5]
    assert times_of(1000, 0.5, every=0, minutes=10) == []


def test_either_of_both_is_enough_and_both_count_from_the_last():
    assert times_of(20, 60, every=6, minutes=10) == [6, 12, 18]
    assert times_of(20, 60, every=12, minutes=10) == [7, 12, 19]
