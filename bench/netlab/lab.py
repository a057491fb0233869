"""The lab: hosts with a switch and addresses of their own, that exist only inside a ``with`` block."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from bench.netlab.host import BRIDGE, Host
from bench.netlab.interrupts import raising, shielded
from bench.netlab.launch import Result, Running, torchrun, variables, words_on
from bench.netlab.namespace import CommandError, delete, empty, new_tag, sweep, system
from bench.netlab.rate import parse_rate

PREFIX = "netlab"
PORT = 29500
TIMEOUT = 3600.0
MOST = 250
TOOLS = {"ip": "iproute2", "tc": "iproute2", "sysctl": "procps", "setpriv": "util-linux", "taskset": "util-linux"}


class LabError(RuntimeError):
    """The lab cannot be built here; the message says why in one line."""


def possible() -> str:
    """Why this machine cannot hold a lab; empty if it can."""
    if os.geteuid() != 0:
        return "netlab needs root to make network namespaces; run it as root (for example with sudo)"
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        packages = ", ".join(sorted({TOOLS[tool] for tool in missing}))
        return f"netlab needs the commands {', '.join(missing)}; install {packages}"
    name = f"{new_tag(PREFIX)}.probe"
    try:
        system(f"ip netns add {name}")
        system(f"ip -n {name} link add {BRIDGE} type bridge")
        system(f"ip -n {name} link add probe0 type veth peer name probe1")
        system(f"tc -n {name} qdisc add dev probe0 root tbf rate 1mbit burst 20000 limit 200000")
    except CommandError as error:
        return f"netlab cannot be built here: {error}".replace("\n", "; ")
    finally:
        with contextlib.suppress(CommandError):
            delete(name)
    return ""


class Lab:
    """``hosts`` hosts, 10.87.0.1 and up, each with a link of ``rate`` each way (None: as fast as it goes).

    Each host is pinned to ``cores_per_host`` cores, as long as there are enough (`crowded` tells); 0 pins none.
    """

    def __init__(
        self,
        hosts: int = 2,
        rate: str | None = "1gbit",
        cores_per_host: int = 1,
        port: int = PORT,
        prefix: str = PREFIX,
    ) -> None:
        if not 1 <= hosts <= MOST:
            raise ValueError(f"the number of hosts is {hosts}; expected 1 to {MOST}")
        available = sorted(os.sched_getaffinity(0))
        if not 0 <= cores_per_host <= len(available):
            raise ValueError(f"{cores_per_host} cores per host were asked for; this machine has {len(available)}")
        self._rate = None if rate is None else parse_rate(rate)
        self._port = port
        self._prefix = prefix
        self.crowded = hosts * cores_per_host > len(available)
        tag = new_tag(prefix)
        self._switch = f"{tag}.switch"
        self.hosts = tuple(
            Host(
                number,
                f"{tag}.{number}",
                self._switch,
                f"10.87.0.{number + 1}",
                _share(available, number, cores_per_host),
            )
            for number in range(hosts)
        )
        self._signals = ExitStack()

    def __enter__(self) -> Lab:
        if reason := possible():
            raise LabError(reason)
        sweep(self._prefix)
        self._signals.enter_context(raising())
        try:
            system(f"ip netns add {self._switch}")
            system(f"ip -n {self._switch} link add {BRIDGE} type bridge")
            system(f"ip -n {self._switch} link set {BRIDGE} addrgenmode none up")
            for host in self.hosts:
                host.build()
                host.shape(self._rate)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Kill what runs on the hosts and remove everything."""
        with self._signals, shielded():
            for name in (*(host.namespace for host in self.hosts), self._switch):
                # One namespace that resists must not save the others.
                with contextlib.suppress(CommandError, subprocess.TimeoutExpired):
                    delete(name)

    def set_rate(self, rate: str | None) -> None:
        """Let every link run at ``rate`` from now on."""
        self._rate = None if rate is None else parse_rate(rate)
        for host in self.hosts:
            host.shape(self._rate)

    def sent_bytes(self) -> list[int]:
        """Bytes that every host has sent so far, by the operating system's count."""
        return [host.sent_bytes() for host in self.hosts]

    def run(
        self,
        command: Sequence[str],
        env: Mapping[str, str] | None = None,
        timeout: float = TIMEOUT,
        use_torchrun: bool = False,
        show: bool = False,
        logs: Path | None = None,
        workers: int = 1,
    ) -> list[Result]:
        """Run ``command`` as one worker on every host, until all ended or ``timeout`` seconds passed.

        A worker finds its place in the variables that torchrun sets, here set directly; ``use_torchrun`` starts
        torchrun itself, as on real machines, which costs a second process on the host's core. ``show`` lets host 0
        print here; all other output goes to files in ``logs`` (a new temporary folder if None). With several
        ``workers`` on every host, torchrun starts them.
        """
        if not command:
            raise ValueError("there is no command to run on the hosts")
        folder = logs or Path(tempfile.mkdtemp(prefix=f"{self._prefix}-"))
        folder.mkdir(parents=True, exist_ok=True)
        running = Running()
        try:
            for host in self.hosts:
                words = words_on(command, host, self.hosts)
                if use_torchrun or workers > 1:
                    words = torchrun(words, host, self.hosts, self._port, workers)
                environment = variables(host, self.hosts, self._port, env or {})
                log = None if show and host.number == 0 else folder / f"host-{host.number}.log"
                running.start(host.command(words), environment, log)
            return running.wait(timeout)
        finally:
            running.stop()
            for host in self.hosts:
                empty(host.namespace)


def _share(cores: Sequence[int], number: int, count: int) -> tuple[int, ...]:
    """Host ``number``'s ``count`` of ``cores``; round and round where there are too few."""
    return tuple(cores[(number * count + place) % len(cores)] for place in range(count))
