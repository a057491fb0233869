"""The command in processes of its own, for tests that send signals."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

GRAPH = "sbm:nodes=1000,edges=8000,features=8,classes=3,seed=0"
SETTINGS = ("--model.hidden", "16", "--eval.every", "7", "--threads", "1", "--quiet")
TRAIN = ("train", GRAPH, *SETTINGS)
STAGES = (*TRAIN, "--recipe", "gnnpipe", "--model.name", "gcnii", "--model.layers", "4")
ENDLESS = ("--epochs", "100000")


def free_port() -> int:
    """A port of this machine on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


TORCHRUN = (
    "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(free_port()), "-m", "halowire"
)  # fmt: skip


def start(
    folder: Path, *words: str, launcher: tuple[str, ...] = ("-m", "halowire"), place: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """Start ``halowire words`` in ``folder``, as the head of a process group; ``place``: a launcher's variables."""
    environment = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    environment |= place or {}
    process = subprocess.Popen(
        [sys.executable, *launcher, *words], cwd=folder, env=environment | {"OMP_NUM_THREADS": "1"}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    started.append(process)
    return process


started: list[subprocess.Popen[str]] = []
"""What tests have started; :func:`end_all` ends it, so that a test that fails leaves nothing behind."""


def end_all() -> None:
    """Kill every process group that was started and still runs."""
    while started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(started.pop().pid, signal.SIGKILL)


def wait_for_epochs(run: Path, epochs: int, rank: int = 0, seconds: float = 120.0) -> None:
    """Wait until a worker has written so many events of epochs."""
    events, end = run / f"events-{rank}.jsonl", time.monotonic() + seconds
    while not events.exists() or events.read_text().count('"event":"epoch"') < epochs:
        assert time.monotonic() < end, "the run does not get going"
        time.sleep(0.05)


def ended(process: subprocess.Popen[str], seconds: float = 60.0) -> tuple[int, str]:
    """(exit code, standard error) of a process, which must end in time."""
    try:
        _, said = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    return process.returncode, said


def children(process: subprocess.Popen[str]) -> list[int]:
    """The worker processes, in rank order."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
            if int(fields[1]) == process.pid and b"halowire.worker" in (status.parent / "cmdline").read_bytes():
                found.append(int(status.parent.name))
        except OSError:
            continue
    return sorted(found)


def wait_until_gone(workers: list[int], seconds: float = 30.0) -> None:
    """Wait until all processes have ended; a dead one that nobody has asked about yet is gone too."""
    end = time.monotonic() + seconds
    while left := [worker for worker in workers if _runs(worker)]:
        assert time.monotonic() < end, f"processes {left} live on"
        time.sleep(0.05)


def _runs(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def weights(run: Path) -> dict[str, np.ndarray]:
    """The tensors of a run's newest checkpoint."""
    newest = sorted(path for path in (run / "checkpoints").iterdir() if path.is_dir())[-1]
    return {name: value for name, value in load_file(newest / "state.safetensors").items() if name != "random"}
