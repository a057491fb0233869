"""Steps that fail are findings, and the next ones are taken on new connections."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from halowire.proving.finding import Finding
from halowire.proving.steps import Step, take_steps
from halowire.wire import Transport


def test_after_a_failure_the_workers_join_anew():
    joined: list[Transport] = []
    found: list[Finding] = []
    used: list[Transport] = []

    @contextmanager
    def join() -> Iterator[Transport]:
        joined.append(Transport())
        yield joined[-1]

    def fail(transport: Transport) -> None:
        raise ValueError("the first line\nthe second")

    take_steps(deque([Step("a", found, used.append), Step("b", found, fail), Step("c", found, used.append)]), join)
    assert [one.words() for one in found] == ["b: failed: ValueError: the first line"]
    assert used == joined and len(joined) == 2
