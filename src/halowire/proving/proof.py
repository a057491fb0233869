"""`halowire doctor --gpu`: every worker examines its GPU, and the first one prints the block of text."""

from __future__ import annotations

import torch

from halowire.errors import InputError, TrainingError
from halowire.launch import Place, joined
from halowire.proving.examination import examine
from halowire.proving.subject import Subject, this_gpu
from halowire.training import gather_words
from halowire.wire import Transport

DEADLINE = 120.0
MOST_WORKERS = 4
"""Workers of a hybrid of two stages and two parts."""
FEWEST_WORKERS = 2
"""Workers between whom rows travel."""
MOST_SAID = 16_384
"""Most bytes of its wrong comparisons that a worker tells rank 0: all but those of a device that fails throughout."""


def proving_workers() -> int:
    """How many local workers examine this machine's GPUs: two or four, each with a GPU of its own.

    Two workers share a single GPU: alone, a worker would send nothing.
    """
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not count:
        raise InputError(
            f"--gpu needs a GPU, but torch {torch.__version__} sees none; install a CUDA or ROCm build of torch and "
            "its driver, or leave --gpu out"
        )
    return MOST_WORKERS if count >= MOST_WORKERS else FEWEST_WORKERS


def prove_worker(subject: Subject | None = None) -> None:
    """Examine the device of this worker together with the others; rank 0 prints what was found.

    ``subject`` is the device, by default the GPU of this worker's local rank. Each GPU may be wrong in its own way, so
    the block names the comparisons that failed on every other worker too.
    """
    subject = subject or this_gpu(Place.here())
    with joined(subject.device, DEADLINE, "gloo" if subject.shared else "auto") as (transport, *_):
        found = examine(transport, subject)
        failed = _failures(len(found.wrong), transport)
        told = gather_words("\n".join(found.wrong), transport, "wrong comparisons", account=None, longest=MOST_SAID)
        if transport.rank == 0:
            print("\n".join([*found.lines, *_others(told), *_verdict(failed)]), flush=True)
    if any(failed):
        raise TrainingError(
            f"{sum(failed)} comparisons of the GPU with the CPU failed; please report the text above in an issue"
        )


def _failures(mine: int, transport: Transport) -> list[int]:
    """How many comparisons failed on every worker."""
    each = torch.zeros(transport.size, dtype=torch.int64)
    each[transport.rank] = mine
    counts: list[int] = transport.all_reduce(each, "findings", account=None).tolist()
    return counts


def _others(told: list[str]) -> list[str]:
    """The comparisons that failed on workers other than rank 0, whose own stand in its lines."""
    return [f"WRONG on rank {rank}: {line}" for rank, text in enumerate(told) if rank for line in text.splitlines()]


def _verdict(failed: list[int]) -> list[str]:
    if not any(failed):
        return ["result          all comparisons agree"]
    ranks = [f"{count} on rank {rank}" for rank, count in enumerate(failed) if count]
    return [f"result          comparisons failed: {', '.join(ranks)}"]
