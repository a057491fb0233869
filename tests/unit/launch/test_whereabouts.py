"""The machines of the workers are those that torchrun's variables tell, or as many as the setting says."""

from __future__ import annotations

from halowire.launch import Place
from halowire.launch.whereabouts import find_machines
from halowire.wire import run_threads


def found(places: list[tuple[int, int]], hosts: int = 0) -> list[tuple[int, ...]]:
    """The machines that all workers find; ``places`` are the local rank and the local size of each."""

    def here(transport):
        local = places[transport.rank]
        return find_machines(transport, Place(transport.rank, len(places), *local, restarts=0), hosts).of

    return run_threads(len(places), here)


def test_workers_of_one_machine_follow_each_other():
    assert found([(0, 1), (0, 2), (1, 2)]) == [(0, 1, 1)] * 3
    assert found([(0, 2), (1, 2)]) == [(0, 0)] * 2


def test_what_does_not_fit_together_tells_no_machines_apart():
    assert found([(0, 2), (0, 2), (1, 2), (1, 2)]) == [(0, 0, 0, 0)] * 4


def test_a_setting_has_the_last_word():
    assert found([(0, 3), (1, 3), (2, 3)], hosts=2) == [(0, 0, 1)] * 3
