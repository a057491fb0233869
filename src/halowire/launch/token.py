"""The run token: a secret that every worker proves to all others before anything else is read from them.

Every worker ``r`` puts a random nonce into the store, with the number of workers that it knows of: who was told another
one, or comes as a rank that is taken, is refused at once. When all nonces are there, it puts in its proof
``HMAC-SHA256(token, "worker r of P" | all nonces)`` and checks the proofs of the others. The token itself never
travels, and a proof is worth nothing in another run or for another rank. All workers derive the number of the run from
the same secret; it stands in the header of every message.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from torch._C._distributed_c10d import Store

from halowire.errors import ERROR_FILE, InputError, LateError
from halowire.files import write_text
from halowire.launch.place import Place

TOKEN = "HALOWIRE_TOKEN"
SHORTEST = 16
"""Fewest characters of a token: who listens on the network could guess a shorter one from the proofs."""
NONCE = 16
"""Bytes of a nonce."""
POLL = 0.02
LINGER = 5.0
"""Seconds that rank 0 stays when a worker is refused, so that all of them read the proofs and say the same."""


def new_token() -> str:
    """A random token."""
    return secrets.token_hex(16)


def token_here(place: Place, deadline: float) -> bytes:
    """The token of this worker: what `HALOWIRE_TOKEN` says, or what the workers of one torchrun share in its folder."""
    given = os.environ.get(TOKEN)
    if given is not None and len(given) < SHORTEST:
        raise InputError(
            f"{TOKEN} has {len(given)} characters, at least {SHORTEST} are needed; "
            "`openssl rand -hex 16` prints a good one"
        )
    if given is not None:
        return given.encode()
    if place.size == place.local_size and os.environ.get(ERROR_FILE):
        return _shared_by_torchrun(place, deadline).encode()
    raise InputError(
        f"{TOKEN} is not set; workers on several machines need the same secret in it, by which they know each other: "
        "let `openssl rand -hex 16` print one, and set it on all machines"
    )


def _shared_by_torchrun(place: Place, deadline: float) -> str:
    """The token that the first worker leaves for the others in torchrun's folder, which only this user can enter."""
    file = Path(os.environ[ERROR_FILE]).parents[1] / "halowire-token"
    if place.local_rank == 0 and not file.exists():
        write_text(file, new_token())
    end = time.monotonic() + deadline
    while not file.exists():
        if time.monotonic() > end:
            raise LateError(f"rank {place.rank} found no run token in {file.parent} within {deadline:.0f} s")
        time.sleep(POLL)
    return file.read_text()


def silent(missing: list[int]) -> None:
    """Tell nobody who is missing."""


def prove(
    store: Store, rank: int, size: int, token: bytes, deadline: float, miss: Callable[[list[int]], None] = silent
) -> int:
    """Prove ``token`` to the other workers and check their proofs, through ``store``; returns the number of the run.

    ``miss`` hears all the time who is missing.
    """
    end = time.monotonic() + deadline
    if store.add(f"came/{rank}", 1) > 1:
        raise InputError(
            f"two workers were started as rank {rank}, and this is the second; give every worker a RANK of its own, "
            "from 0 to WORLD_SIZE - 1"
        )
    store.set(f"nonce/{rank}", f"{size}/{secrets.token_hex(NONCE)}")
    seen: set[int] = set()

    def look(missing: list[int]) -> None:
        _refuse_other_sizes(store, rank, size, set(range(size)) - seen - set(missing))
        seen.update(set(range(size)) - set(missing))
        miss(missing)

    nonces = from_all(store, "nonce", size, end, look)
    look([])
    store.set(f"proof/{rank}", _proof(token, rank, nonces).hex())
    proofs = from_all(store, "proof", size, end, miss)
    store.set(f"checked/{rank}", "")
    strange = [
        r for r, proof in enumerate(proofs) if not hmac.compare_digest(proof, _proof(token, r, nonces).hex().encode())
    ]
    if strange:
        _linger(store, rank, size)
        raise InputError(
            f"rank {rank} refuses to work with rank {', '.join(map(str, strange))}: the run tokens differ; set {TOKEN} "
            "to the same secret for all workers of a run"
        )
    return int.from_bytes(_keyed(token, b"run", nonces)[:4], "big")


def _refuse_other_sizes(store: Store, rank: int, size: int, come: set[int]) -> None:
    """Refuse workers among those that have ``come`` that were told another number of workers than ``size``."""
    told = {r: store.get(f"nonce/{r}").partition(b"/") for r in sorted(come)}
    # Anything else is of a stranger, whose proof will be wrong.
    others = [
        r for r, (number, slash, _) in told.items() if slash and number.isdigit() and number != str(size).encode()
    ]
    if others:
        store.set(f"checked/{rank}", "")
        _linger(store, rank, size)
        raise InputError(
            f"rank {rank} was started with WORLD_SIZE {size}, but rank {', '.join(map(str, others))} with another one; "
            "start all workers with the same"
        )


def _linger(store: Store, rank: int, size: int) -> None:
    """Let rank 0, which may serve the store, stay until the others have read it: torch would warn of its end."""
    if rank == 0:
        with contextlib.suppress(RuntimeError):
            from_all(store, "checked", size, time.monotonic() + LINGER)


def _proof(token: bytes, rank: int, nonces: Sequence[bytes]) -> bytes:
    return _keyed(token, f"worker {rank} of {len(nonces)}".encode(), nonces)


def _keyed(token: bytes, what: bytes, nonces: Sequence[bytes]) -> bytes:
    """HMAC-SHA256 over ``what`` and the nonces, each with its length, so that no two lists give the same bytes."""
    parts = [what, *nonces]
    return hmac.digest(token, b"".join(len(part).to_bytes(8, "big") + part for part in parts), "sha256")


def from_all(store: Store, kind: str, size: int, end: float, miss: Callable[[list[int]], None] = silent) -> list[bytes]:
    """What every worker put into ``store`` under ``kind``; ``miss`` hears all the time who has not yet."""
    missing = list(range(size))
    while missing := [r for r in missing if not store.check([f"{kind}/{r}"])]:
        miss(missing)
        if time.monotonic() > end:
            raise LateError(f"no word from rank {', '.join(map(str, missing))}")
        time.sleep(POLL)
    return [store.get(f"{kind}/{r}") for r in range(size)]
