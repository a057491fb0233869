"""A session: workers that live on a lab's hosts, and the requests that they work through while the links change."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from bench.netlab import Lab, Result
from bench.netlab.namespace import CommandError
from bench.timing.measured import Measured
from bench.timing.quiet import MOST, busy_seconds, others, wait_for_quiet

ROOT = Path(__file__).parents[2]
POLL = 0.05
REPEATS = 3
"""How often a run is timed at most, where others disturb it."""
FOREVER = 10**6
"""Epochs of a run that is stopped from outside."""


class Session:
    """``with Session(lab, worker, start, folder) as session``: the module ``worker`` on all hosts of ``lab``.

    The worker calls :func:`bench.timing.serve.serve`, which gives it ``start`` and then every request.
    """

    def __init__(self, lab: Lab, worker: str, start: dict[str, Any], folder: Path, patience: float = 0.0) -> None:
        """``patience``: seconds to wait for other programs to leave the cores alone before a run is timed."""
        self.lab, self.patience, self._worker, self._folder, self._number = lab, patience, worker, folder, 0
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "start.json").write_text(json.dumps(start))
        self._results: list[Result] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Session:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._send({})
        if kind is None:
            self._thread.join(60)

    def timed(self, epochs: int, warm: int, settings: dict[str, Any], **request: Any) -> Measured:
        """Train ``warm + epochs`` epochs without evaluation; what the last ``epochs`` took."""
        settings = {"epochs": FOREVER, "eval.every": FOREVER, **settings}
        for _ in range(REPEATS):
            wait_for_quiet(self.patience)
            run, used = self.ask(settings=settings, stop_after=warm + epochs, **request)
            if used <= MOST or not self.patience:
                break
        return Measured.of(run, len(self.lab.hosts), warm, used)

    def ask(self, **request: Any) -> tuple[Path, float]:
        """Run a request; its folder, and the share of the cores that others used meanwhile."""
        busy, start = busy_seconds(), time.monotonic()
        number, run = self._number, self._folder / f"run-{self._number}"
        self._send({"run": str(run.absolute()), **request})
        answers = [self._folder / f"answer-{number}-{host.number}.json" for host in self.lab.hosts]
        while not all(answer.exists() for answer in answers):
            if not self._thread.is_alive():
                raise RuntimeError(f"the workers ended during {request}: {self._last_words()}")
            time.sleep(POLL)
        own = sum(json.loads(answer.read_text())["cpu_seconds"] for answer in answers)
        used = others(busy_seconds() - busy, own, time.monotonic() - start)
        return run, used

    def _send(self, request: dict[str, Any]) -> None:
        path = self._folder / f"request-{self._number}.json"
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(request))
        temporary.rename(path)
        self._number += 1

    def _serve(self) -> None:
        command = [sys.executable, "-m", self._worker, str(self._folder.absolute())]
        env = {"PYTHONPATH": str(ROOT)}
        # An interrupted lab is gone before its workers are.
        with contextlib.suppress(CommandError):
            self._results = self.lab.run(command, env=env, timeout=6 * 3600, logs=self._folder / "logs")

    def _last_words(self) -> str:
        return " | ".join(f"host {r.host} (code {r.code}): {r.output[-1500:]}" for r in self._results)
