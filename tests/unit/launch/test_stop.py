"""Signals become a wish to stop."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from halowire.interruption import ECHO
from halowire.launch import SIGNALS, StopWish, stop_wish


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_is_a_wish_and_handlers_come_back(number):
    before = signal.getsignal(number)
    with stop_wish() as wish:
        assert not wish()
        os.kill(os.getpid(), number)
        os.kill(os.getpid(), number)
        assert wish(), "an echo of the signal is no second wish"
    assert signal.getsignal(number) == before


def test_a_second_wish_ends_at_once(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("halowire.launch.stop.time.monotonic", lambda: now[0])
    wish = StopWish()
    wish.ask(signal.SIGINT)
    now[0] += ECHO + 1
    wish.ask(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt):
        wish.ask(signal.SIGINT)


def test_other_threads_catch_nothing():
    caught = []

    def work() -> None:
        with stop_wish() as wish:
            caught.append(wish())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert caught == [False]


def test_nohup_is_respected():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_wish() as wish:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not wish()
    finally:
        signal.signal(signal.SIGHUP, before)
