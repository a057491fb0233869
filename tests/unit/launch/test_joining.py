"""Joining ends in time whatever it waits for, and says who is missing."""

from __future__ import annotations

import threading
import time

import pytest

from halowire.errors import InputError, LateError
from halowire.launch.joining import MARGIN, Joining
from halowire.launch.place import Place

SECOND = Place(rank=1, size=4, local_rank=0, local_size=1, restarts=0)


def test_a_call_that_hangs_is_left_behind_at_the_deadline():
    begun = time.monotonic()
    with pytest.raises(LateError, match="the way to the other workers took longer than"):
        Joining(SECOND, 0.2).run(lambda: time.sleep(60))
    assert time.monotonic() - begun < 0.2 + MARGIN + 2


def test_the_missing_ranks_are_named_once_at_a_quarter_of_the_deadline(capfd):
    joining = Joining(SECOND, 2.0)
    joining.where = "there"

    def wait() -> str:
        joining.miss([2, 3])
        time.sleep(1.2)
        return "met"

    assert joining.run(wait) == "met"
    said = capfd.readouterr().err
    assert said.count("\n") == 1 and said.startswith("warning: rank 1 waits 0.")
    assert said.endswith(" s for rank 2, 3 to join at there; gives up after 2 s\n")


def test_errors_come_through_and_later_time_is_no_longer_announced(capfd):
    joining = Joining(SECOND, 0.1)

    def refuse() -> None:
        raise InputError("other tokens")

    with pytest.raises(InputError, match="other tokens"):
        joining.run(refuse)
    time.sleep(0.1)
    joining.look()
    assert capfd.readouterr().err == ""


def test_a_thread_that_nobody_waits_for_ends_when_it_asks_again():
    joining = Joining(SECOND, 0.1)
    go_on = threading.Event()
    ended = threading.Event()

    def poll() -> None:
        go_on.wait(20)
        try:
            joining.miss([0])
        except LateError:
            ended.set()

    with pytest.raises(LateError):
        joining.run(poll)
    go_on.set()
    assert ended.wait(5)
