"""Circles: some of the workers and the process groups that connect them, made and left within a time."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist

from halowire.errors import LateError
from halowire.wire.deadline import STORE_SECONDS, bounded

DEFAULT_DEADLINE = 600.0
WATCHDOG_FACTOR, WATCHDOG_SECONDS = 2.0, 120.0
"""NCCL's own watchdog acts after this many deadlines and this many seconds, long after halowire's."""
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
        return Circle(tuple(members), _new_group(deadline, members), _new_group(deadline, members, urgent=True))


# A group that outlives `destroy_process_group` ends with the interpreter, and a Gloo thread that frees a tensor at that
# moment aborts the process. So the groups are held weakly.
_SECOND: WeakKeyDictionary[dist.ProcessGroup, dist.ProcessGroup] = WeakKeyDictionary()


def second_group(world: dist.ProcessGroup | None, deadline: float) -> dist.ProcessGroup:
    """The group of the halo messages beside ``world``; all transports of a process share it."""
    assert world is not None
    if world not in _SECOND:
        _SECOND[world] = _new_group(deadline, urgent=True)
    return _SECOND[world]


def pairs_of(line: Sequence[int], deadline: float) -> list[dist.ProcessGroup | None]:
    """A process group for every two neighbours of ``line``; None where this worker is not one of the two.

    NCCL runs the messages of a process group one after another. With groups of their own, messages from the stage
    before do not hold up those to the stage after. All workers must make all pairs, in the same order.
    """
    mine = dist.get_rank()
    found: list[dist.ProcessGroup | None] = []
    for pair in itertools.pairwise(line):
        group = _new_group(deadline, pair)
        found.append(group if mine in pair else None)
    return found


def _new_group(deadline: float, members: Sequence[int] | None = None, urgent: bool = False) -> dist.ProcessGroup:
    """Connect ``members`` (None: all workers) in a group of their own, which all workers must do together.

    ``urgent``: on a GPU its messages go before computations that are ready at the same time.
    """
    options = dist.ProcessGroupNCCL.Options(is_high_priority_stream=urgent) if gpu_of(dist.group.WORLD) else None

    def connect() -> dist.ProcessGroup:
        # Without a limit torch takes one of 30 minutes, whatever that of the default group is.
        group: dist.ProcessGroup | None = dist.new_group(
            None if members is None else list(members), timeout=timedelta(seconds=deadline), pg_options=options
        )
        assert group is not None
        return group

    group = bounded(connect, deadline + STORE_SECONDS, "the connection of the workers")
    if members is None or dist.get_rank() in members:
        hold_watchdog(group, deadline)
    return group


def gpu_of(group: dist.ProcessGroup | None) -> torch.device | None:
    """The GPU to which ``group`` was bound when it was made: then NCCL carries what is on it; else None."""
    return None if group is None else group.bound_device_id


def hold_watchdog(group: dist.ProcessGroup | None, deadline: float) -> None:
    """Give halowire's own deadline the first word: NCCL's watchdog ends the process with a traceback of its own."""
    gpu = gpu_of(dist.group.WORLD)
    if group is not None and gpu is not None:
        limit = timedelta(seconds=WATCHDOG_FACTOR * deadline + WATCHDOG_SECONDS)
        group._get_backend(gpu)._set_default_timeout(limit)


def abort_groups(groups: Sequence[dist.ProcessGroup | None], device: torch.device) -> None:
    """End all operations of ``groups`` on ``device``, so that neither it nor the host waits for them any longer."""

    def abort() -> None:
        for group in groups:
            if group is not None:
                group._get_backend(device).abort()

    with contextlib.suppress(RuntimeError):  # late, or aborted already
        bounded(abort, LEAVE_SECONDS, "the end of the messages")


def leave_group() -> None:
    """Destroy the process groups; where that takes too long, because a link is down, leave them to the system."""
    with contextlib.suppress(LateError):
        bounded(dist.destroy_process_group, LEAVE_SECONDS, "the end of the connections")
