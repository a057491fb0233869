"""Where a worker stands, from the environment of its launcher."""

from __future__ import annotations

import pytest

from halowire.errors import InputError
from halowire.launch import Place, launched

NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RESTART_COUNT")


@pytest.fixture(autouse=True)
def bare(monkeypatch):
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


def test_alone_without_a_launcher():
    assert Place.here() == Place(0, 1, 0, 1, 0) and not launched()


def test_torchrun_says_where(monkeypatch):
    for name, value in zip(NAMES, ("5", "8", "1", "4", "2"), strict=False):
        monkeypatch.setenv(name, value)
    assert Place.here() == Place(5, 8, 1, 4, 2) and launched()


def test_nonsense_in_the_environment_is_named(monkeypatch):
    monkeypatch.setenv("RANK", "first")
    with pytest.raises(InputError, match="RANK is 'first'"):
        Place.here()
