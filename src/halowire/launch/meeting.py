"""The store where the workers meet: a file in the launcher's private folder, or a socket at the master's address."""

from __future__ import annotations

import os
import socket
import sys
from datetime import timedelta
from pathlib import Path

from torch._C._distributed_c10d import FileStore, Store, TCPStore

from halowire.errors import InputError, PlaceError, system_error
from halowire.launch.interface import address_to_listen_at, choose_interface
from halowire.launch.place import Place, whole_variable

TORCHRUN = ("torchrun", "torch.distributed.run")
"""By what torchrun is recognised in a command line."""
STORE = "HALOWIRE_STORE"
"""The variable by which halowire's own launcher hands over the file where its workers meet."""

LAST_PORT = 65535


def meeting_place() -> tuple[str, str]:
    """Where the workers meet, and a sentence about the network between them; chooses the interface."""
    if STORE in os.environ:
        return "this machine", "loopback, this machine only"
    missing = [name for name in ("MASTER_ADDR", "MASTER_PORT") if not os.environ.get(name)]
    if missing:
        raise InputError(f"RANK and WORLD_SIZE are set, but not {' and '.join(missing)}; torchrun sets all of them")
    host = os.environ["MASTER_ADDR"]
    return f"{host}:{_port()}", choose_interface(host)


def open_store(place: Place, limit: timedelta) -> Store:
    """The store of this worker's run; what is in it is not to be trusted before all workers proved their token."""
    if path := os.environ.get(STORE):
        return FileStore(path)
    host = os.environ["MASTER_ADDR"]
    port = _port()
    if place.rank == 0:
        _warn_of_open_rendezvous()
    if _torchrun_has_it() or place.rank > 0:
        return TCPStore(host, port, place.size, False, limit, wait_for_workers=False)
    # By itself torch would listen on all interfaces.
    address = address_to_listen_at(host)
    try:
        listener = socket.create_server((address, port), backlog=place.size)
    except OSError as error:
        reason = system_error(error)
        raise InputError(f"rank 0 cannot listen at {address}:{port}: {reason}; choose another MASTER_PORT") from None
    listening = listener.detach()
    return TCPStore(
        address, port, place.size, True, limit, wait_for_workers=False, multi_tenant=True, master_listen_fd=listening
    )


def _port() -> int:
    """The port of the store."""
    port = whole_variable("MASTER_PORT", 0)
    if not 1 <= port <= LAST_PORT:
        raise PlaceError(f"the environment variable MASTER_PORT is {port}; expected a port from 1 to {LAST_PORT}")
    return port


def _torchrun_has_it() -> bool:
    """Whether torchrun itself serves the store, so that all workers are its clients."""
    return os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"


def _warn_of_open_rendezvous() -> None:
    """Warn where torchrun meets by c10d: it unpickles what it finds in its store, which everybody can reach.

    The workers are not told how torchrun met, but on Linux they can read its command line.
    """
    try:
        words = Path(f"/proc/{os.getppid()}/cmdline").read_text().split("\0")[:-1]
    except (OSError, UnicodeDecodeError):
        return
    names = [place for place, word in enumerate(words) if Path(word).name in TORCHRUN]
    if not names or "TORCHELASTIC_RUN_ID" not in os.environ:
        return
    from torch.distributed.run import get_args_parser  # a tenth of a start, for what few need

    given = get_args_parser().parse_args(words[names[0] + 1 :])
    if given.standalone or given.rdzv_backend != "static":
        print(
            "halowire: warning: torchrun was started with --standalone or --rdzv-backend. This opens a port on all "
            "interfaces, and whoever reaches it can run code as you. Leave both out, and on several machines give "
            "--master-addr, --master-port and --node-rank instead.",
            file=sys.stderr,
            flush=True,
        )
