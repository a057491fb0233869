"""Steps that all workers take together: one that fails on any of them fails on all, and the next one is taken then.

What a failed step has sent, or waits for, may be under way still, so the workers leave each other and join anew.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from halowire.launch import told_by_store
from halowire.proving.finding import Finding, error_words
from halowire.wire import Transport

PATIENCE = 3.0
"""Deadlines that a worker waits for the others after a step: they may wait for its own messages until one has passed,
and for those of a third worker, which gave up later, until another one has."""


@dataclass(frozen=True)
class Step:
    """One thing that all workers do together.

    Attributes:
        name: what it is called where it fails.
        found: the findings, of which its failure is one.
        call: does it over a transport, and notes what it finds.
    """

    name: str
    found: list[Finding]
    call: Callable[[Transport], None]


class StepFailedError(Exception):
    """A step failed on some worker; the connections cannot be trusted any more."""


def take_steps(steps: deque[Step], join: Callable[[], AbstractContextManager[Transport]]) -> None:
    """Take all ``steps``, on connections that ``join`` makes, and makes again after a failure."""
    while steps:
        try:
            with join() as transport:
                while steps:
                    _take(steps.popleft(), transport)
        except StepFailedError:
            continue


def _take(step: Step, transport: Transport) -> None:
    """Take one step; all workers hear whether it failed on one of them."""
    mine = ""
    try:
        step.call(transport)
    except Exception as error:
        mine = error_words(error)
    said = told_by_store(mine, PATIENCE * transport.deadline)
    first = next((rank for rank, words in enumerate(said) if words), None)
    if first is not None:
        step.found.append(Finding.of_failure(step.name, mine or f"{said[first]} (on rank {first})"))
        raise StepFailedError
