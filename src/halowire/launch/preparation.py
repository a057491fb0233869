"""Preparation of a run that a launcher started on several machines: every run folder is locked and filled once."""

from __future__ import annotations

from collections.abc import Callable

from halowire.errors import InputError
from halowire.launch.place import Place
from halowire.partitioning import fingerprint
from halowire.training import Job, agreed, sees_first
from halowire.wire import Transport

WHERE = "preparation of the shards"


def prepare_together(job: Job, prepare: Callable[[bytes], None], place: Place, transport: Transport) -> None:
    """Make the run folders ready: first that of rank 0, then those of the machines that do not share it.

    ``prepare`` locks the folder, brings back what an interrupted start set aside, makes the shards and writes the
    settings; it gets the fingerprint of the shards of rank 0 (empty on rank 0), because equal ones are not cut again.
    """

    def prepare_if(needed: bool, first: bytes = b"") -> None:
        agreed(lambda: prepare(first) if needed else None, transport, WHERE)

    def refuse_others() -> None:
        if fingerprint(job.shards) != first:
            raise InputError(
                f"rank {place.rank} has other shards in {job.shards} than rank 0; give all machines the same graph and "
                "the same versions of halowire and pymetis, or copy one folder of shards to all of them"
            )

    prepare_if(place.rank == 0)
    first = transport.broadcast_bytes(fingerprint(job.shards) if place.rank == 0 else b"", WHERE)
    shared = sees_first(job.run, transport)
    prepare_if(place.local_rank == 0 and place.rank > 0 and not shared, first)
    agreed(refuse_others, transport, WHERE)
