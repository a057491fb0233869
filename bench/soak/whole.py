"""Runs without faults: one of every recipe to compare with, and one that was stopped half way, for damage."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
from collections import defaultdict
from pathlib import Path

from bench.soak.outcome import BadEndError
from bench.soak.program import HOOK, MARK, Program, send
from bench.soak.result import Result, checkpoints, epochs_done, result_of
from bench.soak.subject import EVERY, Subject

PATIENCE = 300.0


def environment(case: str, temporary: Path, **more: str) -> dict[str, str]:
    """The environment of a program of ``case``: its mark, its own folder for temporary files, the soak's hook."""
    foreign = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "HALOWIRE_TOKEN", "GLOO_SOCKET_IFNAME")
    kept = {name: value for name, value in os.environ.items() if name not in foreign and "TORCHELASTIC" not in name}
    own = {MARK: case, "TMPDIR": str(temporary), "PYTHONPATH": str(HOOK), "OMP_NUM_THREADS": "1"}
    return kept | own | {"TORCH_CPP_LOG_LEVEL": "ERROR"} | more


class Wholes:
    """The runs without faults in ``folder``, each made when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._locks: dict[str, threading.Lock] = defaultdict(threading.Lock)

    def result(self, subject: Subject) -> Result:
        """The result of the uninterrupted run of ``subject``."""
        return result_of(self._made(subject, "whole") / "run")

    def calls(self, subject: Subject) -> dict[int, list[str]]:
        """The renames and fsyncs that every rank of the uninterrupted run made for its checkpoints, in order."""
        found: dict[int, list[str]] = defaultdict(list)
        for line in (self._made(subject, "whole") / "calls.txt").read_text().splitlines():
            _, _, _, rank, name, _ = line.split(" ", 5)
            found[int(rank)].append(name)
        return dict(found)

    def half(self, subject: Subject, target: Path) -> None:
        """Copy a run of ``subject`` that was stopped half way, with several checkpoints, to ``target``."""
        shutil.copytree(self._made(subject, "half") / "run", target, symlinks=True)

    def _made(self, subject: Subject, kind: str) -> Path:
        folder = self._folder / f"{kind}-{subject.name}"
        with self._locks[folder.name]:
            if not (folder / "done.json").exists():
                shutil.rmtree(folder, ignore_errors=True)
                (folder / "tmp").mkdir(parents=True)
                self._make(subject, kind, folder)
                (folder / "done.json").write_text(json.dumps(subject.words("run")))
        return folder

    def _make(self, subject: Subject, kind: str, folder: Path) -> None:
        calls = {"SOAK_CALLS": str(folder / "calls.txt")} if kind == "whole" else {}
        program = Program(subject.words("run"), folder, environment(folder.name, folder / "tmp", **calls))
        run = folder / "run"
        if kind == "half":
            ready = subject.epochs // 2
            program.wait_for("epochs", lambda: epochs_done(run) >= ready and len(checkpoints(run)) > 1, PATIENCE)
            send(program.pid, signal.SIGTERM)
        end = program.wait(PATIENCE)
        if end.code != (0 if kind == "whole" else 130):
            raise BadEndError(
                "not as expected", f"the run without faults of {subject.name} ended with {end.code}: {end.said}"
            )


def calls_of_one_checkpoint(calls: list[str], epochs: int) -> int:
    """How many of the ``calls`` of a run belong to one checkpoint."""
    return max(1, round(len(calls) / max(1, epochs // EVERY)))
