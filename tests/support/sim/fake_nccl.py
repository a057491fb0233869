"""A stand-in for NCCL between simulated devices: real messages between real processes, by NCCL's rules.

- It takes tensors of the device only, contiguous, and asynchronous operations only.
- It knows no tags: on a lane, the communicator of a process group, what is sent meets the next receive of the peer.
- A lane runs one operation after another, as a stream does. A send ends when its receive has begun.
- What arrives is there after `wait()`, and not before. A wait with a limit is refused: it would make the host poll.
"""

from __future__ import annotations

import itertools
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from tests.support.order_watch import TOGETHER, Post
from tests.support.sim.lane import Lane, Parcel
from tests.support.sim.rules import DeviceError
from tests.support.sim.sim_tensor import SimTensor
from tests.support.sim.simulation import Simulation
from tests.support.sim.stream_watch import StreamWatch

PATCHED = ("all_to_all_single", "batch_isend_irecv", "all_reduce", "broadcast")


class FakeWork:
    """An operation under way; ``deliver`` writes what arrived to the device's memory."""

    def __init__(
        self, nccl: FakeNccl, lane: Lane, done: threading.Event, deliver: Callable[[], None], key: int
    ) -> None:
        self._nccl = nccl
        self._lane = lane
        self._done = done
        self._deliver = deliver
        self._key = key
        self._waited = False

    def is_completed(self) -> bool:
        """Whether the operation is over."""
        return self._done.is_set()

    def wait(self, timeout: object = None) -> bool:
        """Let the current stream wait; the simulated device does so in the host."""
        if timeout is not None:
            raise DeviceError("a wait with a limit makes the host poll on NCCL")
        while not self._done.wait(0.02):
            if self._nccl.aborted:
                raise RuntimeError("NCCL communicator was aborted")
        if self._lane.errors:
            raise self._lane.errors[0]
        if not self._waited:
            self._waited = True
            self._nccl.watch.waited(self._key)
            self._deliver()
        return True


class FakeNccl:
    """Within the block, tensors of the simulated device travel by NCCL's rules; all workers enter it together."""

    def __init__(self, simulation: Simulation) -> None:
        self.watch = StreamWatch()
        self.posts: list[Post] = []
        self.aborted = False
        self.apart = False
        self._simulation = simulation
        self._about = ""
        self._keys = itertools.count()
        self._real = {name: getattr(dist, name) for name in PATCHED}
        self._carrier = dist.new_group()
        self._lanes: dict[str, Lane] = {}

    def __enter__(self) -> FakeNccl:
        """Begin."""
        self._simulation.watch_streams(self.watch)
        for name in PATCHED:
            setattr(dist, name, getattr(self, name))
        return self

    def __exit__(self, *error: object) -> None:
        """End, when all that was launched is over, unless an error ended the block."""
        for name, function in self._real.items():
            setattr(dist, name, function)
        self._simulation.watch_streams(None)
        if error[0] is None:
            self.watch.refuse_let_go()
        for lane in self._lanes.values():
            lane.end(wait=error[0] is None)

    @contextmanager
    def about(self, label: str) -> Iterator[None]:
        """Name the operations of the block; both ends of a message must give it the same name."""
        self._about = label
        try:
            yield
        finally:
            self._about = ""

    def abort(self) -> None:
        """End all waits."""
        self.aborted = True

    def all_to_all_single(
        self,
        output: Tensor,
        input: Tensor,
        output_split_sizes: list[int],
        input_split_sizes: list[int],
        group: dist.ProcessGroup | None = None,
        async_op: bool = False,
    ) -> Any:
        """Exchange parts of ``input`` for parts of ``output``, as torch's function does."""
        if not _on_device(output, input):
            sizes = output_split_sizes, input_split_sizes
            return self._real["all_to_all_single"](output, input, *sizes, group=group, async_op=async_op)
        mine, members = dist.get_rank(), dist.get_process_group_ranks(group or dist.group.WORLD)
        leaving = zip(members, torch.split(_inner(input), input_split_sizes), strict=True)
        parcels = [Parcel(rank, part.clone()) for rank, part in leaving if rank != mine]
        rooms = dict(zip(members, torch.split(_inner(output), output_split_sizes), strict=True))
        del rooms[mine]
        return self._launch(group, async_op, [input], [output], parcels, rooms)

    def batch_isend_irecv(self, operations: Sequence[dist.P2POp]) -> list[Any]:
        """Launch sends and receives as one operation, as torch's function does on NCCL."""
        tensors = [each.tensor for each in operations]
        if not _on_device(*tensors):
            return list(self._real["batch_isend_irecv"](operations))
        group = operations[0].group
        if any(each.tag for each in operations) or any(each.group is not group for each in operations):
            raise DeviceError("NCCL ignores tags, and a batch belongs to one process group")
        parcels = [Parcel(each.peer, _inner(each.tensor).clone()) for each in operations if each.op is dist.isend]
        receives = [each for each in operations if each.op is dist.irecv]
        if len({each.peer for each in receives}) < len(receives) or len({p.peer for p in parcels}) < len(parcels):
            raise DeviceError("this stand-in takes one message for a peer in a batch")
        rooms = {each.peer: _inner(each.tensor) for each in receives}
        sent = [each.tensor for each in operations if each.op is dist.isend]
        return [self._launch(group, True, sent, [each.tensor for each in receives], parcels, rooms, alone=True)]

    def all_reduce(
        self,
        tensor: Tensor,
        op: Any = dist.ReduceOp.SUM,
        group: dist.ProcessGroup | None = None,
        async_op: bool = False,
    ) -> Any:
        """Sum ``tensor`` over the members, in rank order, as torch's function does in some order."""
        if not _on_device(tensor):
            return self._real["all_reduce"](tensor, op, group, async_op)
        mine, members = dist.get_rank(), dist.get_process_group_ranks(group or dist.group.WORLD)
        own = _inner(tensor).clone()
        parts = {rank: own if rank == mine else torch.empty_like(own) for rank in members}
        parcels = [Parcel(rank, own) for rank in members if rank != mine]
        rooms = {rank: part for rank, part in parts.items() if rank != mine}
        whole = _inner(tensor)
        return self._launch(
            group, async_op, [], [tensor], parcels, rooms, lambda: whole.copy_(torch.stack(list(parts.values())).sum(0))
        )

    def broadcast(
        self, tensor: Tensor, src: int, group: dist.ProcessGroup | None = None, async_op: bool = False
    ) -> Any:
        """Copy ``tensor`` of the rank ``src`` to all members, as torch's function does."""
        if not _on_device(tensor):
            return self._real["broadcast"](tensor, src, group, async_op)
        mine, members = dist.get_rank(), dist.get_process_group_ranks(group or dist.group.WORLD)
        if mine != src:
            return self._launch(group, async_op, [], [tensor], [], {src: _inner(tensor)})
        parcels = [Parcel(rank, _inner(tensor).clone()) for rank in members if rank != src]
        return self._launch(group, async_op, [tensor], [], parcels, {})

    def _launch(
        self,
        group: dist.ProcessGroup | None,
        async_op: bool,
        sent: Sequence[Tensor],
        arriving: Sequence[Tensor],
        parcels: Sequence[Parcel],
        rooms: dict[int, Tensor],
        finish: Callable[[], object] = lambda: None,
        alone: bool = False,
    ) -> FakeWork:
        """Give an operation to the lane of ``group``; ``rooms`` are the places of what arrives from every rank."""
        if not async_op:
            raise DeviceError("an operation that is not asynchronous has no stream of its own")
        group = group or dist.group.WORLD
        assert group is not None
        lane, label = self._lane(group), self._about
        self._note(lane, label, parcels, rooms, alone)
        counts = self._simulation.counts
        counts.note(counts.messages, "nccl")
        key = next(self._keys)
        self.watch.launched(key, [_sim(t) for t in sent], [_sim(t) for t in arriving], label)
        for tensor in arriving:
            _inner(tensor).fill_(float("nan") if tensor.is_floating_point() else 85)
        done, found = lane.run(label, parcels, {rank: room.nbytes for rank, room in rooms.items()})

        def deliver() -> None:
            for rank, room in rooms.items():
                room.copy_(found[rank].view(room.dtype).view(room.shape))
            finish()

        return FakeWork(self, lane, done, deliver, key)

    def _note(self, lane: Lane, label: str, parcels: Sequence[Parcel], rooms: dict[int, Tensor], alone: bool) -> None:
        name = (lane.name, lane.members)
        if not alone:
            self.posts.append(Post(name, TOGETHER, True, label, 0))
            return
        self.posts += [Post(name, rank, False, label, room.nbytes) for rank, room in rooms.items()]
        self.posts += [Post(name, parcel.peer, True, label, parcel.data.nbytes) for parcel in parcels]

    def _lane(self, group: dist.ProcessGroup) -> Lane:
        name = group.group_name
        if name not in self._lanes:
            members = tuple(dist.get_process_group_ranks(group))
            self._lanes[name] = Lane(name, members, self._carrier, zlib.crc32(name.encode()) >> 2)
        return self._lanes[name]


def _on_device(*tensors: Tensor) -> bool:
    """Whether ``tensors`` are on the device; refuses a mixture, and what NCCL cannot send."""
    kinds = [isinstance(tensor, SimTensor) for tensor in tensors]
    if any(kinds) and not all(kinds):
        raise DeviceError("buffers of one message are on the device and on the CPU")
    if any(kinds) and not all(tensor.is_contiguous() for tensor in tensors):
        raise DeviceError("NCCL sends contiguous memory only")
    return any(kinds)


def _sim(tensor: Tensor) -> SimTensor:
    assert isinstance(tensor, SimTensor)
    return tensor


def _inner(tensor: Tensor) -> Tensor:
    return _sim(tensor).inner
