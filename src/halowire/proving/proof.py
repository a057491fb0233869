"""`halowire doctor --gpu`: every worker examines its GPU, and the first one prints the block of text."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import torch

from halowire.errors import InputError, TrainingError
from halowire.launch import Place, joined, told_by_store
from halowire.proving.examination import Examination
from halowire.proving.finding import Finding, error_words
from halowire.proving.steps import PATIENCE, Step, take_steps
from halowire.proving.subject import Subject, this_gpu
from halowire.wire import Transport

DEADLINE = 120.0
MOST_WORKERS = 4
"""Workers of a hybrid of two stages and two parts."""
FEWEST_WORKERS = 2
"""Workers between whom rows travel."""


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
    place = Place.here()
    subject = subject or this_gpu(place)
    found, told = Examination(subject), Told([])
    steps = deque([*found.steps(place.size), Step("findings", found.failures, partial(told.tell, found))])
    try:
        take_steps(steps, partial(_joined, subject))
    except Exception as error:  # what was found is not lost where the workers cannot meet again
        if not found.kernels:
            raise
        found.failures.append(Finding.of_failure("connection of the workers", error_words(error)))
    said = told.words or ["\n".join(found.wrong())]
    failed = [len(words.splitlines()) for words in said]
    if place.rank == 0:
        print("\n".join([*found.lines(), *_others(said), *_verdict(failed)]), flush=True)
    if any(failed):
        raise TrainingError(
            f"{sum(failed)} comparisons of the GPU with the CPU failed; please report the text above in an issue"
        )


@contextmanager
def _joined(subject: Subject) -> Iterator[Transport]:
    with joined(subject.device, DEADLINE, "gloo" if subject.shared else "auto") as (transport, *_):
        yield transport


@dataclass
class Told:
    """What every worker has found to be wrong, a line for each finding, in the words that all have told each other."""

    words: list[str]

    def tell(self, found: Examination, transport: Transport) -> None:
        """Tell the others, and hear them."""
        self.words = told_by_store("\n".join(found.wrong()), PATIENCE * transport.deadline)


def _others(told: list[str]) -> list[str]:
    """The comparisons that failed on workers other than rank 0, whose own stand in its lines."""
    return [f"WRONG on rank {rank}: {line}" for rank, text in enumerate(told) if rank for line in text.splitlines()]


def _verdict(failed: list[int]) -> list[str]:
    if not any(failed):
        return ["result          all comparisons agree"]
    ranks = [f"{count} on rank {rank}" for rank, count in enumerate(failed) if count]
    return [f"result          comparisons failed: {', '.join(ranks)}"]
