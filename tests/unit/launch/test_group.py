"""Joining the other workers, from the environment of a launcher or alone, on the interface that leads to them."""

from __future__ import annotations

import os

import pytest
import torch

from halowire.errors import InputError
from halowire.launch import interface_to, joined
from halowire.launch.group import choose_interface


@pytest.fixture(autouse=True)
def bare(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)


def test_a_single_worker_needs_no_network():
    with joined(torch.device("cpu"), 5.0) as (transport, network):
        assert transport.size == 1 and network == "one worker, no network"


def join() -> None:
    with joined(torch.device("cpu"), 5.0):
        pass


def test_a_missing_or_unknown_master_is_named(monkeypatch):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match="not MASTER_ADDR"):
        join()
    monkeypatch.setenv("MASTER_ADDR", "no host at all")
    monkeypatch.setenv("MASTER_PORT", "1")
    with pytest.raises(InputError, match="check MASTER_ADDR"):
        join()


def test_the_way_to_this_machine_is_loopback():
    assert interface_to("127.0.0.1") == ("lo", "127.0.0.1")
    assert interface_to("localhost")[0] == "lo"


def test_what_the_user_chose_stays(monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth7")
    assert "eth7" in choose_interface("localhost")
    assert os.environ["GLOO_SOCKET_IFNAME"] == "eth7"
