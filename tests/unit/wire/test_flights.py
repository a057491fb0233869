"""Messages on a device: only one that waits for others is late; the first one of its lane is named, and raised."""

from __future__ import annotations

import pytest

from halowire.errors import LateError
from halowire.wire import flights as flights_module
from halowire.wire.deadline import Watch
from halowire.wire.flights import Flight, Flights


class Point:
    """A mark that a test passes."""

    def __init__(self, passed: bool = True) -> None:
        self.passed = passed

    def query(self) -> bool:
        return self.passed


class Done:
    """A work that a test ends."""

    def __init__(self, over: bool = False) -> None:
        self.over = over

    def is_completed(self) -> bool:
        return self.over


@pytest.fixture
def watched(monkeypatch):
    """Flights with a deadline of 100 seconds of a clock that the test moves, what was announced, and the aborts."""
    clock, said, aborts = [0.0], [], []
    monkeypatch.setattr("halowire.wire.deadline.time.monotonic", lambda: clock[0])
    monkeypatch.setattr(flights_module, "who_is_late", lambda wait, error: f"late at {wait.where}: {error}")
    monkeypatch.setattr(flights_module.threading, "Thread", lambda **_: Silent())
    monkeypatch.setattr(Watch, "_look", lambda self: None)
    found = Flights(100.0, Watch(said.append), [], lambda: aborts.append(clock[0]))
    return found, clock, said, aborts


class Silent:
    """A thread that is not needed."""

    def start(self) -> None:
        pass


def launched(flights: Flights, lane: str, where: str, point: Point, work: Done | None) -> Flight:
    flight = Flight(where, point)
    flights.add(lane, flight)
    flight.works = None if work is None else (work,)
    return flight


def test_time_counts_from_when_the_device_has_come_to_the_message(watched):
    flights, clock, said, aborts = watched
    point = Point(passed=False)
    launched(flights, "halos", "epoch 1, layer 2, forward", point, Done())
    clock[0] = 1000.0
    flights.look()
    assert not said and not aborts  # the device still computes what is sent
    point.passed = True
    flights.look()
    clock[0] = 1030.0
    flights.look()
    assert said == ["rank 0 waits 30 s for the other workers at epoch 1, layer 2, forward; gives up after 100 s"]
    clock[0] = 1101.0
    flights.look()
    assert aborts == [1101.0]
    with pytest.raises(LateError, match="late at epoch 1, layer 2, forward: a message on the device was not finished"):
        flights.check()
    with pytest.raises(LateError):
        launched(flights, "halos", "the next one", point, Done())


def test_a_message_waits_only_when_those_before_it_are_over(watched):
    flights, clock, _, aborts = watched
    first, second, other = Done(), Done(), Done()
    launched(flights, "halos", "first", Point(), first)
    launched(flights, "halos", "second", Point(), second)
    launched(flights, "sums", "other", Point(), other)
    flights.look()
    clock[0] = 90.0
    first.over = other.over = True
    flights.look()
    clock[0] = 180.0
    flights.look()
    assert not aborts
    clock[0] = 191.0
    flights.look()
    assert aborts
    with pytest.raises(LateError, match="late at second"):
        flights.check()


def test_a_launch_that_does_not_return_is_late_too(watched):
    flights, clock, _, aborts = watched
    launched(flights, "pair", "first message of a pair", Point(), None)
    flights.look()
    clock[0] = 100.5
    flights.look()
    assert aborts


def test_what_has_arrived_is_not_kept(watched):
    flights, *_ = watched
    for number in range(50):
        launched(flights, "halos", f"message {number}", Point(), Done(over=True))
    assert len(flights._lanes["halos"]) == 1
