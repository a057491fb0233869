"""A host: a network namespace with one cable to the switch, shaped in both directions, and cores of its own."""

from __future__ import annotations

import json
from dataclasses import dataclass

from bench.netlab.namespace import system
from bench.netlab.rate import FRAME, LARGEST_SEGMENT, segment_bytes, shaping

INTERFACE = "eth0"
BRIDGE = "br0"
NETWORK = "10.87.0.0/16"
CONGESTION = "cubic"
"""Linux's default congestion control, so that results do not depend on what this machine prefers."""


@dataclass(frozen=True)
class Host:
    """Host ``number``: ``address`` on `INTERFACE` in ``namespace``, a port of ``switch``, and the cores it may use."""

    number: int
    namespace: str
    switch: str
    address: str
    cores: tuple[int, ...]

    @property
    def port(self) -> str:
        """The switch's end of the cable."""
        return f"port{self.number}"

    def build(self) -> None:
        """Make the namespace and the cable; both ends are born inside the lab, the machine's network sees neither."""
        system(f"ip netns add {self.namespace}")
        inside = f"ip -n {self.namespace}"
        system(f"{inside} link add {INTERFACE} type veth peer name {self.port} netns {self.switch}")
        # Without link-local addresses IPv6 stays silent, and the byte counters show what the program sent.
        for name, device in self._ends():
            system(f"ip -n {name} link set {device} addrgenmode none")
        system(f"ip -n {self.switch} link set {self.port} master {BRIDGE} up")
        system(f"{inside} addr add {self.address}/16 dev {INTERFACE} noprefixroute")
        system(f"{inside} link set {INTERFACE} up")
        system(f"{inside} link set lo up")
        # The namespace may not choose the algorithm for itself (the kernel keeps a list of allowed ones), a route may.
        system(f"{inside} route add {NETWORK} dev {INTERFACE} src {self.address} congctl {CONGESTION}")
        # Otherwise connections would remember the losses of earlier ones, at another rate.
        system(f"ip netns exec {self.namespace} sysctl -qw net.ipv4.tcp_no_metrics_save=1")
        # On a slow link TCP makes short segments; without a network card to cut long ones they cost much of a core.
        system(f"ip netns exec {self.namespace} sysctl -qw net.ipv4.tcp_min_tso_segs={LARGEST_SEGMENT // FRAME}")

    def shape(self, rate: int | None) -> None:
        """Let the cable run at ``rate`` bits per second each way; None removes the limit."""
        for name, device in self._ends():
            segment = LARGEST_SEGMENT if rate is None else segment_bytes(rate)
            system(f"ip -n {name} link set {device} gso_max_size {segment}")
            if rate is not None:
                system(f"tc -n {name} qdisc replace dev {device} root {shaping(rate)}")
            elif "qdisc tbf" in system(f"tc -n {name} qdisc show dev {device}"):
                system(f"tc -n {name} qdisc del dev {device} root")

    def sent_bytes(self) -> int:
        """What the operating system counted as sent by this host, headers included."""
        found = json.loads(system(f"ip -n {self.namespace} -s -j link show {INTERFACE}"))
        return int(found[0]["stats64"]["tx"]["bytes"])

    def command(self, words: list[str]) -> list[str]:
        """``words`` as a command on this host; it gets SIGTERM if the process that started it dies."""
        pinned = ["taskset", "-c", ",".join(map(str, self.cores))] if self.cores else []
        return ["setpriv", "--pdeathsig", "TERM", "ip", "netns", "exec", self.namespace, *pinned, *words]

    def _ends(self) -> tuple[tuple[str, str], tuple[str, str]]:
        """(namespace, interface) of both ends: what leaves the first is sent, what leaves the second is received."""
        return (self.namespace, INTERFACE), (self.switch, self.port)
