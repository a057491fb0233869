"""The ledger: exclusive phases, bytes per account, what a take returns."""

from __future__ import annotations

import pytest

from halowire.events import EVAL, GRADIENT, TRAIN, HostClock, Ledger


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_an_inner_phase_stops_the_outer_one():
    clock = Clock()
    ledger = Ledger(HostClock(clock))
    with ledger.phase("forward"):
        clock.now += 1
        with ledger.waiting(1, "forward"):
            clock.now += 4
        clock.now += 2
    clock.now += 8
    with ledger.phase("backward"):
        clock.now += 16
    entry = ledger.take()
    assert dict(entry.phases) == {"forward": 3, "wait": 4, "backward": 16}
    assert entry.exchange_list() == [{"layer": 1, "direction": "forward", "bytes": 0, "wait": 4}]
    assert not ledger.take().phases


def test_a_phase_ends_where_its_block_fails():
    clock = Clock()
    ledger = Ledger(HostClock(clock))
    with pytest.raises(KeyError), ledger.phase("forward"):
        clock.now += 1
        raise KeyError
    clock.now += 5
    assert dict(ledger.take().phases) == {"forward": 1}


def test_bytes_go_to_the_open_account():
    ledger = Ledger()
    ledger.sent(1)
    with ledger.account(TRAIN):
        ledger.sent(10, layer=2, direction="forward")
        with ledger.account(GRADIENT):
            ledger.sent(100)
        ledger.sent(1000, layer=2, direction="backward", local=3)
    with ledger.account(EVAL):
        ledger.sent(10000, local=5)
    network = {"setup": 1, "train": 1010, "stage": 0, "eval": 10000, "gradient": 100}
    assert ledger.totals == network | {"local": 3, "local rest": 5}
    assert [e["bytes"] for e in ledger.take().exchange_list()] == [1000, 10]
    assert ledger.totals["train"] == 1010, "a take does not touch the totals"


def test_unknown_accounts_are_errors():
    with pytest.raises(ValueError, match="unknown account"), Ledger().account("trian"):
        pass
