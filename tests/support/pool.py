"""Resident worker processes for tests: started once per size, sent one function after another."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import shutil
import signal
import tempfile
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

DEADLINE = 90.0


class Pool:
    """``size`` processes in one Gloo group over loopback, met through a file, without fixed ports."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.folder = Path(tempfile.mkdtemp(prefix="halowire-pool-"))
        context = multiprocessing.get_context("spawn")
        pipes = [context.Pipe() for _ in range(size)]
        self.connections = [mine for mine, _ in pipes]
        self.processes = [
            context.Process(target=_serve, args=(rank, size, str(self.folder), theirs), daemon=True)
            for rank, (_, theirs) in enumerate(pipes)
        ]
        for process in self.processes:
            process.start()

    def run(self, function: Callable[..., Any], *args: Any, deadline: float = DEADLINE) -> list[Any]:
        """``function(rank, *args)`` on every rank; the results in rank order."""
        for connection in self.connections:
            connection.send((function, args))
        results, end = [], time.monotonic() + deadline
        for rank, connection in enumerate(self.connections):
            if not connection.poll(max(0.0, end - time.monotonic())):
                stacks = self._stacks()
                self.close()
                raise TimeoutError(f"rank {rank} of {self.size} passed the deadline of {deadline} s\n{stacks}")
            results.append(connection.recv())
        failures = [f"rank {rank}: {text}" for rank, (good, text) in enumerate(results) if not good]
        if failures:
            self.close()
            raise AssertionError("\n".join(failures))
        return [value for _, value in results]

    def close(self) -> None:
        """End all processes."""
        for process in self.processes:
            process.kill()
            process.join(10)
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def alive(self) -> bool:
        """Whether all processes still run."""
        return all(process.is_alive() for process in self.processes)

    def _stacks(self) -> str:
        for process in self.processes:
            if process.is_alive() and process.pid is not None:
                os.kill(process.pid, signal.SIGUSR1)
        time.sleep(1)
        return "\n".join(f"--- {file.name}\n{file.read_text()}" for file in sorted(self.folder.glob("stack-*")))


def _serve(rank: int, size: int, folder: str, connection: Connection) -> None:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    with Path(folder, f"stack-{rank}").open("w") as stack:
        faulthandler.register(signal.SIGUSR1, file=stack, all_threads=True)
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
        store = dist.FileStore(str(Path(folder, "store")), size)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=timedelta(seconds=DEADLINE))
        while True:
            try:
                function, args = connection.recv()
            except EOFError:
                return
            try:
                connection.send((True, function(rank, *args)))
            except Exception:
                connection.send((False, traceback.format_exc()))
