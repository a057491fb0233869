"""Local workers: this process alone, or N processes on this machine that meet in a private folder."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module

import torch

from halowire.errors import ERROR_FILE, INTERRUPTED, WorkerError
from halowire.launch.failure import cause
from halowire.launch.interface import INTERFACE, LOOPBACK
from halowire.launch.meeting import STORE
from halowire.launch.private_folder import PrivateFolder, private_folder
from halowire.launch.processes import POLL, Processes
from halowire.launch.stop import SIGNALS, StopWish, stop_wish
from halowire.launch.token import TOKEN, new_token

WORKER = "halowire.worker"
"""The module of a worker process."""
PATIENCE = 600
"""Seconds that workers get for their last epoch and checkpoint after a signal."""
PR_SET_PDEATHSIG = 1
"""The option of Linux's prctl that asks for a signal when the process that started this one dies."""
START = f"""
import ctypes, os, signal, sys
for number in {[int(number) for number in SIGNALS]}:
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
    # Generators of GPUs exist where this process uses them; to ask for their states would begin to use them.
    gpus = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()  # type: ignore[no-untyped-call]
    with torch.random.fork_rng(devices=gpus):
        try:
            yield
        finally:
            torch.set_num_threads(threads)


def run_local(workers: int, module: str, arguments: Sequence[str], max_restarts: int = 0) -> None:
    """Call ``main()`` of ``module`` in ``workers`` processes, with the words ``arguments`` as their command line.

    A worker that was killed or failed is started again with all others, up to ``max_restarts`` times. Raises the error
    of the worker that failed first; ``KeyboardInterrupt`` where a signal ended the work.
    """
    first = START.replace("MODULE", module).replace("LAUNCHER", str(os.getpid()))
    first = first.replace("PATHS", repr([path for path in sys.path if isinstance(path, str)]))
    words = [sys.executable, "-u", "-c", first, *arguments]
    with private_folder() as folder, stop_wish() as wish:
        for restart in range(max_restarts + 1):
            with Processes(words, _places(workers, restart, folder), folder.lock) as processes:
                _watch(processes, wish)
                ends = processes.end()
            if all(end.code == 0 for end in ends):
                return
            error = cause(ends, wish())
            # Bad input would be as bad the next time.
            if restart == max_restarts or not isinstance(error, WorkerError):
                raise error


def _watch(processes: Processes, wish: StopWish) -> None:
    """Wait until all workers have ended, or one has failed; pass the wish to stop on to them."""
    end = None
    while None in (codes := processes.codes()):
        if any(code not in (None, 0, INTERRUPTED) for code in codes):
            return
        # A worker that somebody else interrupted does not come back either: the others end with it.
        if end is None and (wish() or INTERRUPTED in codes):
            processes.ask_to_stop()
            end = time.monotonic() + PATIENCE
        if end is not None and time.monotonic() > end:
            return
        time.sleep(POLL)


def _places(workers: int, restart: int, folder: PrivateFolder) -> list[dict[str, str]]:
    """The environments of all workers: torchrun's variables, and a store, a token and an interface of their own.

    Nothing of them can be reached from outside: they meet in a file, and their transports listen on loopback.
    """
    shared = dict(os.environ) | {
        "WORLD_SIZE": str(workers), "LOCAL_WORLD_SIZE": str(workers), "TORCHELASTIC_RESTART_COUNT": str(restart),
        STORE: str(folder.path / f"store-{restart}"), TOKEN: new_token(),
        INTERFACE: LOOPBACK, "NCCL_SOCKET_IFNAME": LOOPBACK,
    }  # fmt: skip
    return [
        shared
        | {"RANK": str(rank), "LOCAL_RANK": str(rank), ERROR_FILE: str(folder.path / f"error-{restart}-{rank}.json")}
        for rank in range(workers)
    ]
