"""The interface that leads to the other workers."""

from __future__ import annotations

import os

import pytest

from halowire.errors import InputError
from halowire.launch import interface_to
from halowire.launch.interface import INTERFACE, address_of, address_to_listen_at, choose_interface


def test_the_way_to_this_machine_is_loopback():
    assert interface_to("127.0.0.1") == ("lo", "127.0.0.1")
    assert interface_to("localhost")[0] == "lo"


def test_what_the_user_chose_stays(monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo,lo")
    assert "lo,lo" in choose_interface("localhost")
    assert os.environ["GLOO_SOCKET_IFNAME"] == "lo,lo"


@pytest.mark.parametrize("chosen", ["nosuch0", "lo,nosuch0", "lo,"])
def test_an_interface_that_this_machine_lacks_is_refused(monkeypatch, chosen):
    monkeypatch.setenv(INTERFACE, chosen)
    with pytest.raises(InputError, match="which this machine does not have; it has lo"):
        choose_interface("localhost")


def test_the_first_machine_listens_where_it_is_looked_for(monkeypatch):
    monkeypatch.delenv(INTERFACE, raising=False)
    assert address_to_listen_at("127.0.0.1") == "127.0.0.1"
    assert address_to_listen_at("127.0.0.2") == "127.0.0.2"


def test_a_first_machine_that_is_told_localhost_listens_on_the_chosen_interface(monkeypatch):
    monkeypatch.setenv(INTERFACE, "eth7")
    monkeypatch.setattr("halowire.launch.interface.address_of", {"eth7": "10.0.0.7"}.get)
    assert address_to_listen_at("localhost") == "10.0.0.7"


def test_an_address_that_only_leads_here_is_not_listened_at(monkeypatch):
    monkeypatch.setattr("halowire.launch.interface.interface_to", lambda host: ("eth0", "10.1.2.3"))
    assert address_to_listen_at("192.0.2.1") == "10.1.2.3"


def test_an_interface_that_does_not_exist_has_no_address():
    assert address_of("nothing7") == ""
