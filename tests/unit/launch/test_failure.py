"""Which of several failed workers is the cause; a step fails on all workers or on none."""

from __future__ import annotations

from halowire.errors import ERROR_FILE, InputError, WorkerError
from halowire.launch import tell_launcher
from halowire.launch.failure import Ended, cause, what_was_told


def ended(rank: int, code: int, message: str = "", time: float = 0.0, lost: bool = False, **how: bool) -> Ended:
    told = {"message": message, "code": code, "lost": lost, "time": time} if message else {}
    return Ended(rank, code, told, **how)


def test_a_killed_worker_explains_those_that_lost_it():
    found = cause([ended(0, 1, "lost rank 1", 1.0, lost=True), ended(1, -9)])
    assert isinstance(found, WorkerError) and str(found) == "worker 1 was killed by SIGKILL (out of memory?)"


def test_a_signal_without_a_name_has_its_number():
    assert str(cause([ended(0, -40)])) == "worker 0 was killed by signal 40"


def test_a_stopped_worker_that_the_launcher_killed_is_named_as_stopped():
    found = cause([ended(0, 1, "no word from rank 1", 1.0, lost=True), ended(1, -9, by_launcher=True, stopped=True)])
    assert str(found) == "worker 1 did not answer: it is stopped (by SIGSTOP, Ctrl-Z or a debugger)"


def test_an_error_explains_more_than_a_worker_that_somebody_stopped_meanwhile():
    found = cause([ended(0, 1, "no space left", 1.0), ended(1, -9, by_launcher=True, stopped=True)])
    assert str(found) == "no space left"


def test_a_crash_while_the_launcher_ends_the_workers_keeps_its_name():
    assert "worker 1 was killed by SIGSEGV" in str(
        cause([ended(0, 1, "x", lost=True), ended(1, -11, by_launcher=True)])
    )


def test_the_first_message_counts_and_bad_input_stays_bad_input():
    ends = [ended(0, 1, "lost rank 1", 1.2), ended(1, 2, "part-1 is damaged", 1.1), ended(2, -15, by_launcher=True)]
    found = cause(ends)
    assert isinstance(found, InputError) and str(found) == "part-1 is damaged"


def test_a_worker_that_failed_explains_those_that_lost_it_even_if_they_spoke_first():
    lost = ended(0, 1, "no word from rank 1", 1.0, lost=True)
    found = cause([lost, ended(1, 1, "ValueError in line 3", 1.1)])
    assert isinstance(found, WorkerError) and str(found) == "ValueError in line 3"
    assert str(cause([lost])) == "no word from rank 1"


def test_a_stopped_run_is_an_interruption():
    assert isinstance(cause([ended(0, 130), ended(1, -15, by_launcher=True)]), KeyboardInterrupt)
    lost = ended(0, 1, "no word from rank 1", 1.0, lost=True)
    assert isinstance(cause([lost, ended(1, -9, by_launcher=True)], asked=True), KeyboardInterrupt)


def test_a_worker_that_the_launcher_ended_while_it_started_is_no_interruption():
    late = ended(1, 1, "rank 1 cannot join the 2 workers", 1.0, lost=True)
    found = cause([ended(0, 130, by_launcher=True), late])
    assert isinstance(found, WorkerError) and str(found) == "rank 1 cannot join the 2 workers"
    assert isinstance(cause([ended(0, 130, by_launcher=True), ended(1, 0)]), KeyboardInterrupt)


def test_what_fails_while_a_run_stops_is_no_interruption():
    assert isinstance(cause([ended(0, 1, "no space left"), ended(1, 130)], asked=True), WorkerError)


def test_a_traceback_is_pointed_at():
    assert "worker 1 ended with exit code 1" in str(cause([ended(0, 0), ended(1, 1)]))


def test_a_worker_that_the_launcher_had_to_kill_is_named():
    assert "worker 1 did not end by itself" in str(cause([ended(0, 0), ended(1, -9, by_launcher=True)]))


def test_a_worker_tells_its_launcher(tmp_path, monkeypatch):
    monkeypatch.delenv(ERROR_FILE, raising=False)
    file = tmp_path / "error-0.json"
    assert not tell_launcher("nobody listens") and what_was_told(file) == {}
    monkeypatch.setenv(ERROR_FILE, str(file))
    assert tell_launcher("no space")
    assert str(cause([Ended(0, 1, what_was_told(file))])) == "no space"


def test_a_worker_that_was_ended_while_leaving_keeps_its_exit_code(tmp_path, monkeypatch):
    monkeypatch.setenv(ERROR_FILE, str(tmp_path / "error-0.json"))
    assert tell_launcher("a file is missing", 2)
    told = what_was_told(tmp_path / "error-0.json")
    assert isinstance(cause([Ended(0, -15, told, by_launcher=True)]), InputError)


def test_a_worker_that_cannot_tell_its_launcher_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv(ERROR_FILE, str(tmp_path / "gone" / "error-0.json"))
    assert not tell_launcher("no space")
