"""Running one command on every host: what is started where, and waiting for all of it, never for ever."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bench.netlab.host import Host

TIMED_OUT = 124
GRACE = 30.0
"""Seconds that the others get after a host failed, and that all get to end after a signal."""
POLL = 0.05
FOREIGN = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
"""Variables that speak of this machine's own network or of another launch."""


@dataclass(frozen=True)
class Result:
    """How the command ended on a host: 0 is success, 128 + n death by signal n, 124 that it ran out of time.

    ``stopped``: ended by the lab because another host had failed. ``log``: its output, None if it was shown.
    """

    host: int
    code: int
    seconds: float
    stopped: bool
    log: Path | None

    @property
    def output(self) -> str:
        """What the command printed, both streams; empty if it was shown instead."""
        return self.log.read_text(errors="replace") if self.log else ""


def worst(results: Sequence[Result]) -> int:
    """One exit code for all: that of a host that failed by itself, the largest."""
    return max((result.code for result in results if not result.stopped), default=0)


def words_on(command: Sequence[str], host: Host, hosts: Sequence[Host]) -> list[str]:
    """``command`` for one host: {host}, {hosts} and {master} filled in, `python` and `halowire` those of this program.

    Without {host} anywhere the folder after --out gets a suffix on every host but 0: no two write to the same place.
    """
    filled = {"{host}": str(host.number), "{hosts}": str(len(hosts)), "{master}": hosts[0].address}
    words = list(command)
    if host.number and not any("{host}" in word for word in words):
        words = _own_out(words, f"-host{host.number}")
    for key, value in filled.items():
        words = [word.replace(key, value) for word in words]
    known = {"halowire": ["-m", "halowire"], "torchrun": ["-m", "torch.distributed.run"], "python": []}
    return [sys.executable, *known[words[0]], *words[1:]] if words[0] in known else words


def torchrun(words: list[str], host: Host, hosts: Sequence[Host], port: int, workers: int = 1) -> list[str]:
    """``words`` as torchrun's ``workers`` on this host, as one would type it on real machines."""
    flags = f"--nnodes {len(hosts)} --node-rank {host.number} --nproc-per-node {workers} --local-addr {host.address}"
    flags += f" --master-addr {hosts[0].address} --master-port {port} --no-python"
    return [sys.executable, "-m", "torch.distributed.run", *flags.split(), *words]


def variables(host: Host, hosts: Sequence[Host], port: int, extra: Mapping[str, str]) -> dict[str, str]:
    """The environment of a worker on ``host`` as torchrun would set it; ``extra`` has the last word."""
    kept = {key: value for key, value in os.environ.items() if key not in FOREIGN and "TORCHELASTIC" not in key}
    place: dict[str, object] = {"RANK": host.number, "WORLD_SIZE": len(hosts), "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1}
    # The lab is a network of its own that nobody else reaches, so that the token need not be secret.
    place |= {"MASTER_ADDR": hosts[0].address, "MASTER_PORT": port, "HALOWIRE_TOKEN": "the same in the whole lab"}
    # There is no name service in the lab, and torch warns at every address that has no name.
    defaults = {"TORCH_CPP_LOG_LEVEL": "ERROR"} | ({"OMP_NUM_THREADS": str(len(host.cores))} if host.cores else {})
    return defaults | kept | {key: str(value) for key, value in place.items()} | dict(extra)


class Running:
    """The same work under way on all hosts."""

    def __init__(self) -> None:
        self._files = ExitStack()
        self._started = time.monotonic()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._logs: list[Path | None] = []
        self._seconds: dict[int, float] = {}

    def start(self, words: list[str], environment: dict[str, str], log: Path | None) -> None:
        """Start ``words``; the output goes to ``log``, or to ours."""
        output = self._files.enter_context(log.open("wb")) if log else None
        error = subprocess.STDOUT if log else None
        # A session of its own: a terminal's Ctrl-C reaches the hosts once, through `stop`, and not directly as well.
        process = subprocess.Popen(
            words, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=error, start_new_session=True
        )
        self._processes.append(process)
        self._logs.append(log)

    def wait(self, timeout: float) -> list[Result]:
        """Until all have ended, at most ``timeout`` seconds, and at most `GRACE` after the first failure."""
        deadline = failed_deadline = self._started + timeout
        while self._alive() and time.monotonic() < min(deadline, failed_deadline):
            time.sleep(POLL)
            if failed_deadline == deadline and any(process.returncode for process in self._processes):
                failed_deadline = min(deadline, time.monotonic() + GRACE)
        late = {process.pid for process in self._alive()}
        self.stop()
        return [self._result(number, late, failed_deadline < deadline) for number in range(len(self._processes))]

    def stop(self) -> None:
        """Ask all to end, wait `GRACE` seconds, then kill what is left."""
        try:
            for process in self._alive():
                process.terminate()
            deadline = time.monotonic() + GRACE
            while self._alive() and time.monotonic() < deadline:
                time.sleep(POLL)
        finally:
            for process in self._alive():
                process.kill()
                process.wait(GRACE)
            self._alive()
            self._files.close()

    def _alive(self) -> list[subprocess.Popen[bytes]]:
        for process in self._processes:
            if process.poll() is not None:
                self._seconds.setdefault(process.pid, time.monotonic() - self._started)
        return [process for process in self._processes if process.returncode is None]

    def _result(self, number: int, late: set[int], others_failed: bool) -> Result:
        process = self._processes[number]
        code = process.returncode if process.returncode >= 0 else 128 - process.returncode
        stopped = process.pid in late
        timed_out = stopped and not others_failed
        return Result(
            number, TIMED_OUT if timed_out else code, self._seconds[process.pid], stopped and others_failed,
            self._logs[number],
        )  # fmt: skip


def _own_out(words: list[str], suffix: str) -> list[str]:
    result = list(words)
    for place, word in enumerate(words):
        if word.startswith("--out=") or words[max(place - 1, 0)] == "--out":
            result[place] = word.rstrip("/") + suffix
    return result
