"""Deadlines: a stuck call is left behind, a long wait is announced once, a short one is not."""

from __future__ import annotations

import re
import threading
import time

import pytest
import torch

from halowire.errors import LateError
from halowire.launch import torch_kept
from halowire.wire.deadline import Wait, Watch, bounded, seconds_text


def test_a_bounded_call_gives_its_result_its_error_or_up():
    assert bounded(lambda: 3, 5.0, "a call") == 3
    with pytest.raises(KeyError):
        bounded(lambda: {}["x"], 5.0, "a call")
    never, start = threading.Event(), time.monotonic()
    with pytest.raises(LateError, match=r"^a call took longer than 0\.2 s"):
        bounded(lambda: never.wait(30), 0.2, "a call")
    assert time.monotonic() - start < 5
    never.set()


def test_a_long_wait_is_announced_once_and_a_short_one_never():
    said: list[str] = []
    watch = Watch(said.append)
    watch.look_often(0.4)
    with watch.over(Wait("epoch 3, layer 2, forward", 60.0, 0)), watch.over(Wait("elsewhere", 0.4)) as wait:
        end = time.monotonic() + 20  # the thread that looks may get its turn late
        while not said and time.monotonic() < end:
            time.sleep(0.05)
        time.sleep(0.5)  # in which a second announcement would come
        assert wait.left == pytest.approx(0.001), "the deadline has passed"
    assert len(said) == 1
    assert re.fullmatch(r"rank 0 waits \d+(\.\d)? s for the other workers at elsewhere; gives up after 0.4 s", said[0])
    assert not watch.waits


def test_seconds_are_readable():
    assert [seconds_text(value) for value in (600.0, 149.96, 3.0, 0.25)] == ["600 s", "150 s", "3 s", "0.2 s"]


def test_a_process_that_uses_no_gpu_does_not_begin_to(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    for name in ("current_device", "set_device", "get_rng_state"):
        monkeypatch.setattr(torch.cuda, name, lambda *_: pytest.fail("a GPU is asked for something"))
    assert bounded(lambda: 7, 5.0, "nothing") == 7
    with torch_kept():
        pass
