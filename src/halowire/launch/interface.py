"""The network interface that leads to the master: chosen once, so that all traffic takes the same way."""

from __future__ import annotations

import fcntl
import os
import socket
import struct

from halowire.errors import InputError

SIOCGIFADDR = 0x8915
VARIABLE = "GLOO_SOCKET_IFNAME"


def interface_to(host: str, port: int = 9) -> tuple[str, str]:
    """(interface, own address) of the route to ``host``; nothing is sent."""
    try:
        address = socket.gethostbyname(host)
    except (socket.gaierror, UnicodeError) as error:
        raise InputError(f"the host {host!r} is unknown here ({error}); check MASTER_ADDR") from None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((address, port))
        own = str(probe.getsockname()[0])
    for _, name in socket.if_nameindex():
        if _address_of(name) == own:
            return name, own
    # 127.0.0.2 and its like are reached from their own address, which no interface lists.
    return ("lo", own) if own.startswith("127.") else ("", own)


def choose_interface(host: str) -> str:
    """Set the interface for Gloo unless the user did; a sentence for the console."""
    if chosen := os.environ.get(VARIABLE):
        return f"interface {chosen} (from {VARIABLE})"
    name, own = interface_to(host)
    if name:
        os.environ[VARIABLE] = name
    return f"interface {name or 'unknown'} ({own}), on the route to {host}"


def _address_of(name: str) -> str:
    request = struct.pack("256s", name.encode()[:15])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            return socket.inet_ntoa(fcntl.ioctl(probe.fileno(), SIOCGIFADDR, request)[20:24])
        except OSError:
            return ""
