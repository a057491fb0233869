"""The interface that leads to the master."""

from __future__ import annotations

import os

from halowire.launch import interface_to
from halowire.launch.network import choose_interface


def test_the_way_to_this_machine_is_loopback():
    assert interface_to("127.0.0.1") == ("lo", "127.0.0.1")
    assert interface_to("localhost")[0] == "lo"


def test_what_the_user_chose_stays(monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth7")
    assert "eth7" in choose_interface("localhost")
    assert os.environ["GLOO_SOCKET_IFNAME"] == "eth7"
