"""Resident local workers: started once, sent one training run after another, so that starting costs nothing."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import traceback
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any


class Workers:
    """``size`` processes in one Gloo group over loopback."""

    def __init__(self, size: int) -> None:
        context = multiprocessing.get_context("spawn")
        folder = tempfile.mkdtemp(prefix="halowire-bench-")
        pipes = [context.Pipe() for _ in range(size)]
        self._ends = [mine for mine, _ in pipes]
        self._processes = [
            context.Process(target=_serve, args=(rank, size, folder, theirs), daemon=True)
            for rank, (_, theirs) in enumerate(pipes)
        ]
        for process in self._processes:
            process.start()

    def run(self, function: Callable[..., Any], *args: Any) -> Any:
        """``function(rank, *args)`` on every worker; rank 0's result."""
        for end in self._ends:
            end.send((function, args))
        results = [end.recv() for end in self._ends]
        for rank, (good, value) in enumerate(results):
            if not good:
                raise RuntimeError(f"worker {rank} failed:\n{value}")
        return results[0][1]

    def close(self) -> None:
        """End all workers."""
        for process in self._processes:
            process.kill()


def _serve(rank: int, size: int, folder: str, end: Connection) -> None:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    store = dist.FileStore(str(Path(folder, "store")), size)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=timedelta(seconds=600))
    while True:
        try:
            function, args = end.recv()
        except (EOFError, KeyboardInterrupt):
            return
        try:
            end.send((True, function(rank, *args)))
        except Exception:
            end.send((False, traceback.format_exc()))
