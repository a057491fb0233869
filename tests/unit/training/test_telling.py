"""A step that fails on one worker fails on all of them, with the message of the one that knows why."""

from __future__ import annotations

import pytest

from halowire.errors import InputError
from halowire.training import agreed
from halowire.wire import Transport


def steps_here(rank: int) -> list[object]:
    transport = Transport(deadline=30)

    def bad_on_one() -> int:
        if rank == 1:
            raise InputError("part-1 is dämaged")
        return rank

    def full_on_all() -> None:
        raise OSError(28, "No space left on device", f"file-{rank}")

    said: list[object] = [agreed(lambda: 10 * rank, transport, "a")]
    for step in (bad_on_one, full_on_all):
        try:
            agreed(step, transport, "b")
        except InputError as error:
            said.append(str(error))
    return said


def test_all_workers_raise_the_first_message(on_workers):
    for rank, said in enumerate(on_workers(2, steps_here)):
        assert said == [10 * rank, "part-1 is dämaged", "file-0: no space left on device"]


def test_a_step_of_a_single_worker():
    def bad() -> None:
        raise InputError("bad")

    assert agreed(lambda: 3, Transport(), "x") == 3
    with pytest.raises(InputError, match="bad"):
        agreed(bad, Transport(), "x")
