"""A worker on a host of the lab: takes requests from a folder, one after another.

All workers read the same ``request-<n>.json`` and each writes ``answer-<n>-<rank>.json`` with the seconds that its
cores were busy. Shards stay in memory from one request to the next; the memory of a finished run is given back before
the next one begins.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from halowire.kernels import release_buffers
from halowire.launch import Place, joined, set_threads
from halowire.wire import Transport

CPU = torch.device("cpu")
DEADLINE = 900.0
POLL = 0.02

Json = dict[str, Any]


@dataclass
class Stopper:
    """Ends a run after ``last`` epochs, or at the evaluation after which the validation metric reached ``target``."""

    last: int
    target: float | None = None
    asked: int = 0
    reached: bool = False

    def epoch(self, epoch: int, loss: float, seconds: float, wire_bytes: int) -> None:
        """Nothing."""

    def evaluated(self, epoch: int, metrics: dict[str, float]) -> None:
        """Compare with the target."""
        self.reached = self.reached or (self.target is not None and metrics["val"] >= self.target)

    def __call__(self) -> bool:
        """Asked once per epoch, before it ends."""
        self.asked += 1
        return self.asked >= self.last or self.reached


def serve(prepare: Callable[[Json, Transport], Callable[[Json], None]]) -> None:
    """``prepare(start, transport)`` gives the function that works on requests; serve until a request is empty."""
    folder, place = Path(sys.argv[1]), Place.here()
    set_threads(0, place)
    with joined(CPU, DEADLINE) as (transport, *_):
        work, number = prepare(json.loads((folder / "start.json").read_text()), transport), 0
        while request := _next(folder / f"request-{number}.json"):
            free_memory()
            start = time.process_time()
            transport.barrier("start of a request")
            work(request)
            transport.barrier("end of a request")
            answer = folder / f"answer-{number}-{place.rank}"
            answer.with_suffix(".tmp").write_text(json.dumps({"cpu_seconds": time.process_time() - start}))
            answer.with_suffix(".tmp").rename(answer.with_suffix(".json"))
            number += 1


def free_memory() -> None:
    """Give back what finished runs have left: cycles of objects, and the idle buffers of the kernels."""
    gc.collect()
    release_buffers()


def _next(path: Path) -> Json:
    while not path.exists():
        time.sleep(POLL)
    request: Json = json.loads(path.read_text())
    return request
