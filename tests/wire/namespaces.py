"""Two hosts on this machine: network namespaces joined by a virtual cable, removed again whatever happens."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass


def run(command: str) -> str:
    """Run ``command``, fail loudly."""
    return subprocess.run(command.split(), check=True, capture_output=True, text=True, timeout=30).stdout


def possible() -> str:
    """Why namespaces cannot be made here; empty if they can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "network namespaces need the `ip` command (Debian package iproute2)"
    probe = f"hw-probe-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True, check=False)
    subprocess.run(["ip", "netns", "del", probe], capture_output=True, check=False)
    return made.stderr.strip() if made.returncode else ""


@dataclass(frozen=True)
class Host:
    """A namespace with one cable."""

    namespace: str
    address: str
    interface: str

    def command(self, *words: str) -> list[str]:
        """``words`` as a command on this host."""
        return ["ip", "netns", "exec", self.namespace, *words]

    def sent_bytes(self) -> int:
        """What the operating system counted as sent on the cable."""
        path = f"/sys/class/net/{self.interface}/statistics/tx_bytes"
        return int(subprocess.run(self.command("cat", path), check=True, capture_output=True, text=True).stdout)


@contextlib.contextmanager
def two_hosts() -> Iterator[tuple[Host, Host]]:
    """Two hosts, 10.87.0.1 and 10.87.0.2, that exist only inside the block."""
    tag = f"hw{os.getpid() % 10000}"
    hosts = (Host(f"{tag}-a", "10.87.0.1", f"{tag}a"), Host(f"{tag}-b", "10.87.0.2", f"{tag}b"))
    try:
        for host in hosts:
            run(f"ip netns add {host.namespace}")
        run(f"ip link add {hosts[0].interface} type veth peer name {hosts[1].interface}")
        for host in hosts:
            run(f"ip link set {host.interface} netns {host.namespace}")
            run(f"ip -n {host.namespace} addr add {host.address}/24 dev {host.interface}")
            run(f"ip -n {host.namespace} link set {host.interface} up")
            run(f"ip -n {host.namespace} link set lo up")
        yield hosts
    finally:
        for host in hosts:
            subprocess.run(["ip", "netns", "del", host.namespace], capture_output=True, check=False)
