"""What is sent once is deflated where the user says so, or says that the network is slow."""

from __future__ import annotations

from typing import Any

import pytest

from halowire.training import Config, refuse
from halowire.training.squeeze_choice import FASTEST, squeezes


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ({}, False),
        ({"wire.squeeze": "on"}, True),
        ({"wire.link": FASTEST}, True),
        ({"wire.link": FASTEST + 1}, False),
        ({"wire.link": FASTEST, "wire.squeeze": "off"}, False),
        ({"wire.first_layer": "local", "wire.link": 10.0}, True),
    ],
)
def test_only_slow_links_and_the_user_ask_for_it(settings: dict[str, Any], found: bool) -> None:
    config = Config().replace(settings)
    refuse(config)
    assert squeezes(config) == found


def test_plain_wires_send_what_they_have() -> None:
    assert not squeezes(Config().replace({"wire.plain": True, "wire.link": 10.0}))
