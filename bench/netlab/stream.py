"""A worker that measures the links: streams bytes to the next host, with or without the same coming the other way.

Prints the bits per second that came in; a script without imports of ours, so that it runs on a host as it is.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time

LIMIT = 60.0
CHUNK = 1 << 20


def connected(rank: int, address: str, port: int) -> socket.socket:
    """The connection between the two hosts; host 1 tries until host 0 is there."""
    if rank == 0:
        with socket.create_server((address, port)) as server:
            server.settimeout(LIMIT)
            return server.accept()[0]
    deadline = time.monotonic() + LIMIT
    while True:
        try:
            return socket.create_connection((address, port), LIMIT)
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def receive(peer: socket.socket, count: int) -> None:
    """Read ``count`` bytes and print at which rate they came, from the first to the last."""
    buffer = bytearray(CHUNK)
    first = left = count - peer.recv_into(buffer, min(CHUNK, count))
    start = time.perf_counter()
    while left:
        read = peer.recv_into(buffer, min(CHUNK, left))
        if not read:
            raise ConnectionError(f"the other host left {left} of {count} bytes unsent")
        left -= read
    print(8 * first / (time.perf_counter() - start))


def main() -> None:
    """Arguments: how many bytes, and `both` or `one` way (from host 1 to host 0)."""
    count, both = int(sys.argv[1]), sys.argv[2] == "both"
    rank = int(os.environ["RANK"])
    peer = connected(rank, os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    peer.settimeout(LIMIT)
    sends, receives = rank == 1 or both, rank == 0 or both
    thread = threading.Thread(target=peer.sendall, args=(bytes(count),))
    if sends:
        thread.start()
    if receives:
        receive(peer, count)
    if sends:
        thread.join()
    # Closing with bytes unread would cut the other host off.
    peer.shutdown(socket.SHUT_WR)
    peer.recv(1)


if __name__ == "__main__":
    main()
