"""A stage link: what waits for the wire is booked as waiting, on both sides."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from halowire.events import HostClock, Ledger
from halowire.training import Config, policy_of
from halowire.wire import HEADER_BYTES, Pending, StageLink

SLOW = 0.25
"""Seconds that every message takes, on a clock of its own."""


class SlowLine:
    """A line to the next stage on which every wait takes :data:`SLOW` seconds."""

    size = 2
    run = 0

    def __init__(self) -> None:
        self.now = 0.0
        self.ledger = Ledger(HostClock(lambda: self.now))
        self.told: list[str] = []
        self.sent: set[int] = set()

    def all_to_all(self, send, send_bytes, received, recv_bytes, where, tag, envelope) -> Pending:
        self.told.append(where)
        if send.numel():
            self.sent.add(send.data_ptr())
        return Pending((), received, send, where, tag)

    def count(self, sizes, layer, direction) -> None:
        self.ledger.sent(sum(sizes), layer, direction)

    def wait(self, pending: Pending) -> Tensor:
        self.now += SLOW
        return pending.received

    def settle(self, send: Tensor) -> None:
        if send.data_ptr() in self.sent:
            self.sent.remove(send.data_ptr())
            self.now += SLOW


def test_both_sides_book_their_waiting():
    line = SlowLine()
    policy = policy_of(Config().replace({"mesh.stages": 2}), [4] * 4, 0)
    link = StageLink(line, 1, 3, 0, torch.arange(6), policy)
    places = [slice(0, 2), slice(2, 6)]
    rows = torch.ones(6, 4)
    with line.ledger.phase("backward"):
        for number, at in enumerate(places):
            link.send(rows[at], number, at, "forward", 7)
        link.settle()
        for number, at in enumerate(places):
            link.expect(number, at, torch.ones(6, 4), "backward", 7)
        for number in range(2):
            link.take(number)
        link.settle()
    entry = line.ledger.take()
    assert entry.phases == {"backward": 0.0, "wait": pytest.approx(4 * SLOW)}
    assert entry.exchanges == {
        (3, "stage forward"): [6 * 4 * 4 + 2 * HEADER_BYTES, pytest.approx(2 * SLOW)],
        (3, "stage backward"): [0.0, pytest.approx(2 * SLOW)],
    }
    assert set(line.told) == {f"epoch 7, stage link into layer 3, {way}" for way in ("forward", "backward")}
