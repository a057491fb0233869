"""Local workers: this process alone, or N processes on this machine that torch's elastic launcher starts."""

from __future__ import annotations

import dataclasses
import logging
import os
import signal
import sys
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import torch
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from halowire.errors import INTERRUPTED
from halowire.launch.failure import cause
from halowire.launch.stop import signals_kept

WORKER = "halowire.worker"
"""The module of a worker process."""
PATIENCE = 600
"""Seconds that workers get for their last epoch and checkpoint after a signal."""
PR_SET_PDEATHSIG = 1
"""The option of Linux's prctl that asks for a signal when the process that started this one dies."""
START = f"""
import ctypes, os, signal, sys
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda *_: os._exit({INTERRUPTED}))
if sys.platform == "linux":
    ctypes.CDLL(None).prctl({PR_SET_PDEATHSIG}, signal.SIGTERM)
    if os.getppid() != LAUNCHER:
        os._exit({INTERRUPTED})
sys.path[:] = PATHS
from MODULE import main
main()
"""
"""A worker's first lines: until it is ready to end with a checkpoint, a signal ends it without a traceback.

Where the launcher was killed, so that it cannot pass a signal on, Linux sends SIGTERM in its place; a launcher that
died before the worker asked for that is no longer its parent. Modules are looked for where the program looks for them:
beside its script, and wherever a notebook added a folder.
"""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def run_workers(workers: int, arguments: Sequence[str], max_restarts: int = 0) -> None:
    """Run ``workers`` workers with the command line ``arguments`` (see :mod:`halowire.worker`).

    A single worker that need not be restarted runs in this process; afterwards torch's settings are as before.
    """
    if workers == 1 and not max_restarts:
        with torch_kept():
            import_module(WORKER).run(list(arguments))
    else:
        run_local(workers, WORKER, arguments, max_restarts)


@contextmanager
def torch_kept() -> Iterator[None]:
    """Put back torch's random numbers and number of threads at the end of the block."""
    threads = torch.get_num_threads()
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        try:
            yield
        finally:
            torch.set_num_threads(threads)


def run_local(workers: int, module: str, arguments: Sequence[str], max_restarts: int = 0) -> None:
    """Call ``main()`` of ``module`` in ``workers`` processes, with the words ``arguments`` as their command line.

    Raises the error of the worker that failed first; ``KeyboardInterrupt`` where a signal ended the work.
    """
    # The launcher leaves its signal handlers behind, which would break Ctrl-C in a notebook.
    with signals_kept(*SIGNALS), _launcher_silenced(), tempfile.TemporaryDirectory(prefix="halowire-") as folder:
        config = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=workers,
            run_id=uuid.uuid4().hex,
            rdzv_backend="c10d",
            rdzv_endpoint="localhost:0",
            max_restarts=max_restarts,
            monitor_interval=0.1,
            logs_specs=DefaultLogsSpecs(log_dir=folder),
            **_patience(),
        )
        try:
            first = START.replace("MODULE", module).replace("LAUNCHER", str(os.getpid()))
            first = first.replace("PATHS", repr([path for path in sys.path if isinstance(path, str)]))
            elastic_launch(config, sys.executable)("-u", "-c", first, *arguments)
        except ChildFailedError as error:
            raise cause(error.failures) from None
        except SignalException:
            raise KeyboardInterrupt from None


def _patience() -> dict[str, Any]:
    """Options that make newer versions of torch wait longer than 30 seconds before they kill the workers."""
    known = {field.name for field in dataclasses.fields(LaunchConfig)}
    return {"shutdown_timeout": PATIENCE} if "shutdown_timeout" in known else {}


@contextmanager
def _launcher_silenced() -> Iterator[None]:
    """Silence the launcher's own log: halowire itself tells in one line why a worker failed."""
    names = [name for name in logging.root.manager.loggerDict if name.startswith("torch.distributed.elastic")]
    levels = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
