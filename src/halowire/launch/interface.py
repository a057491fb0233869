"""The network interface that leads to the other workers; it is chosen once, so that all traffic uses the same one."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import sys

from halowire.errors import InputError, PlaceError

SIOCGIFADDR = 0x8915
INTERFACE = "GLOO_SOCKET_IFNAME"
LOOPBACK = "lo0" if sys.platform == "darwin" else "lo"


def interface_to(host: str, port: int = 9) -> tuple[str, str]:
    """The interface on the route to ``host``, and this machine's address there; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((_resolved(host), port))
        own = str(probe.getsockname()[0])
    for _, name in socket.if_nameindex():
        if address_of(name) == own:
            return name, own
    # 127.0.0.2 and its like are reached from their own address, which no interface lists.
    return (LOOPBACK, own) if own.startswith("127.") else ("", own)


def choose_interface(host: str) -> str:
    """Set the interface for Gloo unless the user did; returns a sentence about it for the console."""
    if chosen := os.environ.get(INTERFACE):
        known = [name for _, name in socket.if_nameindex()]
        for name in chosen.split(","):
            if name not in known:
                raise PlaceError(
                    f"the environment variable {INTERFACE} names the interface {name!r}, which this machine does not "
                    f"have; it has {', '.join(known)}"
                )
        return f"interface {chosen} (from {INTERFACE})"
    name, own = interface_to(host)
    if name:
        os.environ[INTERFACE] = name
    return f"interface {name or 'unknown'} ({own}), on the route to {host}"


def address_to_listen_at(host: str) -> str:
    """This machine's address at which the other workers, who were told ``host``, reach it.

    Some cluster managers tell the first machine ``localhost`` and the others its name: then it is the address of the
    interface that the user chose. Others tell an address that no machine has, but that leads here.
    """
    address = _resolved(host)
    chosen = os.environ.get(INTERFACE, "").partition(",")[0]
    if address.startswith("127.") and chosen not in ("", LOOPBACK):
        return address_of(chosen) or address
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return interface_to(host)[1]
    return address


def _resolved(host: str) -> str:
    try:
        return socket.gethostbyname(host)
    except (socket.gaierror, UnicodeError) as error:
        raise InputError(f"the host {host!r} is unknown here ({error}); check MASTER_ADDR") from None


def address_of(name: str) -> str:
    """The IPv4 address of the interface ``name``; empty where it has none."""
    request = struct.pack("256s", name.encode()[:15])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            return socket.inet_ntoa(fcntl.ioctl(probe.fileno(), SIOCGIFADDR, request)[20:24])
        except OSError:
            return ""
