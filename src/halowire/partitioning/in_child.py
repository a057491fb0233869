"""A long native call in a child process, so that Ctrl-C ends it at once.

METIS holds Python's lock until it is done: neither a handler of signals nor any thread runs meanwhile. The child is a
copy of this process, which costs no memory, and leaves its result in memory that both share.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress

import numpy as np
import torch
from numpy.typing import NDArray

from halowire.errors import WorkerError

POLL = 0.02
PR_SET_PDEATHSIG = 1
"""The option of Linux's prctl that asks for a signal when the process that started this one dies."""


def in_child(call: Callable[[], NDArray[np.int64]], count: int) -> NDArray[np.int64]:
    """The ``count`` numbers that ``call()`` gives, computed in a child process where signals are heard at all.

    The call must start no threads and ask for no locks. An error in it is met again, in this process. Where a GPU is in
    use, whose memory a copy of the process could disturb, there is no child.
    """
    main = threading.current_thread() is threading.main_thread()
    if sys.platform != "linux" or not main or torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return call()
    shared = mmap.mmap(-1, max(1, 8 * count))
    status = _waited_for(_forked(call, shared))
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        hint = " (out of memory?)" if name == "SIGKILL" else ""
        raise WorkerError(f"the process that cuts the graph was killed by {name}{hint}")
    return call() if status else np.frombuffer(shared, dtype=np.int64, count=count).copy()


def _forked(call: Callable[[], NDArray[np.int64]], shared: mmap.mmap) -> int:
    """Start a child that writes what ``call()`` gives to ``shared``; its exit code is 0 if it could."""
    parent = os.getpid()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python warns of threads, whose locks the child does not ask for
        child = os.fork()
    if child:
        return child
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, signal.SIG_IGN)  # a terminal signals all processes: the parent ends this one
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == parent:
            shared.write(call().tobytes())
            code = 0
    finally:
        os._exit(code)


def _waited_for(child: int) -> int:
    """How the ``child`` ended; an interruption ends it."""
    try:
        while True:
            found, status = os.waitpid(child, os.WNOHANG)
            if found:
                return status
            time.sleep(POLL)
    except BaseException:
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        raise
