"""Joining the other workers, from the environment of a launcher or alone."""

from __future__ import annotations

import pytest
import torch

from halowire.errors import InputError
from halowire.launch import joined


@pytest.fixture(autouse=True)
def bare(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "HALOWIRE_STORE"):
        monkeypatch.delenv(name, raising=False)


def test_a_single_worker_needs_no_network():
    with joined(torch.device("cpu"), 5.0) as (transport, network, _):
        assert transport.size == 1 and network == "one worker, no network"


def join() -> None:
    with joined(torch.device("cpu"), 5.0):
        pass


def test_a_missing_or_unknown_master_is_named(monkeypatch):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("HALOWIRE_TOKEN", "0123456789abcdef")
    with pytest.raises(InputError, match="not MASTER_ADDR"):
        join()
    monkeypatch.setenv("MASTER_ADDR", "no host at all")
    monkeypatch.setenv("MASTER_PORT", "1")
    with pytest.raises(InputError, match="check MASTER_ADDR"):
        join()


@pytest.mark.parametrize("port", ["0", "99999"])
def test_a_port_that_cannot_be_is_refused(monkeypatch, port):
    place = {"RANK": "0", "WORLD_SIZE": "2", "HALOWIRE_TOKEN": "0123456789abcdef", "MASTER_ADDR": "127.0.0.1"}
    for name, value in (place | {"MASTER_PORT": port}).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match=f"MASTER_PORT is {port}; expected a port from 1 to 65535"):
        join()
