"""Circles: some of the workers and the process groups that connect them, made and left within a time."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from weakref import WeakKeyDictionary

import torch.distributed as dist

from halowire.errors import LateError
from halowire.wire.deadline import STORE_SECONDS, bounded

DEFAULT_DEADLINE = 600.0
LEAVE_SECONDS = 5.0
"""Seconds that the end of the process groups may take; the program then goes on without it."""


@dataclass(frozen=True, eq=False)
class Circle:
    """Some of the workers, by their global ranks, with a process group for reductions and one for messages.

    Every worker must make every circle, in the same order, also circles to which it does not belong.
    """

    members: tuple[int, ...]
    group: dist.ProcessGroup | None
    halos: dist.ProcessGroup | None

    @staticmethod
    def of(members: Sequence[int], deadline: float = DEFAULT_DEADLINE) -> Circle:
        """The circle of ``members``, connected within ``deadline`` seconds; a single worker needs no groups."""
        if len(members) == 1:
            return Circle(tuple(members), None, None)
        return Circle(tuple(members), _new_group(deadline, members), _new_group(deadline, members))


# A group that outlives `destroy_process_group` ends with the interpreter, and a Gloo thread that frees a tensor at that
# moment aborts the process. So the groups are held weakly.
_SECOND: WeakKeyDictionary[dist.ProcessGroup, dist.ProcessGroup] = WeakKeyDictionary()


def second_group(world: dist.ProcessGroup | None, deadline: float) -> dist.ProcessGroup:
    """The group of the halo messages beside ``world``; all transports of a process share it."""
    assert world is not None
    if world not in _SECOND:
        _SECOND[world] = _new_group(deadline)
    return _SECOND[world]


def _new_group(deadline: float, members: Sequence[int] | None = None) -> dist.ProcessGroup:
    """Connect ``members`` (None: all workers) in a group of their own, which all workers must do together."""

    def connect() -> dist.ProcessGroup:
        # Without a limit torch takes one of 30 minutes, whatever that of the default group is.
        group: dist.ProcessGroup | None = dist.new_group(
            None if members is None else list(members), timeout=timedelta(seconds=deadline)
        )
        assert group is not None
        return group

    return bounded(connect, deadline + STORE_SECONDS, "the connection of the workers")


def leave_group() -> None:
    """Destroy the process groups; where that takes too long, because a link is down, leave them to the system."""
    with contextlib.suppress(LateError):
        bounded(dist.destroy_process_group, LEAVE_SECONDS, "the end of the connections")
