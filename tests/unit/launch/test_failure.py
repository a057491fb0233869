"""Which of several failed workers is the cause; a step fails on all workers or on none."""

from __future__ import annotations

import json

import pytest
from torch.distributed.elastic.multiprocessing.errors import ProcessFailure

from halowire.errors import InputError, WorkerError
from halowire.launch import agreed, tell_launcher
from halowire.launch.failure import cause
from halowire.wire import Transport


def failure(folder, rank: int, code: int, message: str = "", time: float = 0.0, lost: bool = False) -> ProcessFailure:
    file = folder / f"error-{rank}.json"
    if message:
        file.write_text(json.dumps({"message": message, "lost": lost, "timestamp": int(time), "time": time}))
    return ProcessFailure(rank, 100 + rank, code, str(file))


def test_a_killed_worker_explains_those_that_lost_it(tmp_path):
    found = cause({0: failure(tmp_path, 0, 1, "lost rank 1", 1.0), 1: failure(tmp_path, 1, -9)})
    assert isinstance(found, WorkerError) and str(found) == "worker 1 was killed by SIGKILL (out of memory?)"


def test_the_first_message_counts_and_bad_input_stays_bad_input(tmp_path):
    failures = {0: failure(tmp_path, 0, 1, "lost rank 1", 1.2), 1: failure(tmp_path, 1, 2, "part-1 is damaged", 1.1)}
    found = cause(failures | {2: failure(tmp_path, 2, -15)})
    assert isinstance(found, InputError) and str(found) == "part-1 is damaged"


def test_a_worker_that_failed_explains_those_that_lost_it_even_if_they_spoke_first(tmp_path):
    lost = failure(tmp_path, 0, 1, "no word from rank 1", 1.0, lost=True)
    found = cause({0: lost, 1: failure(tmp_path, 1, 1, "ValueError in line 3", 1.1)})
    assert isinstance(found, WorkerError) and str(found) == "ValueError in line 3"
    assert str(cause({0: lost})) == "no word from rank 1"


def test_a_stopped_run_is_an_interruption(tmp_path):
    assert isinstance(cause({0: failure(tmp_path, 0, 130), 1: failure(tmp_path, 1, -15)}), KeyboardInterrupt)


def test_a_traceback_is_pointed_at(tmp_path):
    assert "worker 1 ended with exit code 1" in str(cause({1: failure(tmp_path, 1, 1)}))


def test_a_worker_tells_its_launcher(tmp_path, monkeypatch):
    monkeypatch.delenv("TORCHELASTIC_ERROR_FILE", raising=False)
    assert not tell_launcher("nobody listens")
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "error-0.json"))
    assert tell_launcher("no space")
    assert str(cause({0: failure(tmp_path, 0, 1)})) == "no space"


def test_a_worker_that_was_ended_while_leaving_keeps_its_exit_code(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "error-0.json"))
    assert tell_launcher("a file is missing", 2)
    assert isinstance(cause({0: failure(tmp_path, 0, -15)}), InputError)


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
