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


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ({"RANK": "5", "WORLD_SIZE": "2"}, "RANK is 5, but WORLD_SIZE is 2; expected a number below WORLD_SIZE"),
        ({"RANK": "5"}, "RANK is 5, but WORLD_SIZE is not set"),
        ({"RANK": "0"}, "RANK is 0, but WORLD_SIZE is not set; set both"),
        ({"WORLD_SIZE": "2"}, "WORLD_SIZE is 2, but RANK is not set; set both"),
        ({"RANK": "0", "WORLD_SIZE": "0"}, "WORLD_SIZE is 0; expected at least 1 worker"),
        ({"LOCAL_WORLD_SIZE": "0"}, "LOCAL_WORLD_SIZE is 0; expected at least 1"),
        ({"LOCAL_RANK": "4", "LOCAL_WORLD_SIZE": "4"}, "LOCAL_RANK is 4, but LOCAL_WORLD_SIZE is 4"),
        ({"WORLD_SIZE": "9" * 5000}, "expected a whole number of at most 9 digits"),
    ],
)
def test_a_place_that_cannot_be_is_refused(monkeypatch, names, words):
    for name, value in names.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match=words):
        Place.here()


def test_a_launcher_need_not_count_the_workers_of_a_machine(monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert Place.here().local_rank == 1
