"""The transport: bytes between workers over a torch process group, with a deadline on every wait."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch import Tensor

from halowire.errors import LateError
from halowire.events import GRADIENT, Ledger
from halowire.wire.route import PIECES, Piece

DEFAULT_DEADLINE = 600.0

Works = tuple[dist.Work, ...]
Sizes = Sequence[int]
"""A number of bytes or rows for every peer."""


@dataclass
class Pending:
    """A message under way: what to wait for, and the buffers that must live until then."""

    works: Works
    received: Tensor
    sent: Tensor
    where: str
    tag: int = 0


@dataclass(frozen=True, eq=False)
class Circle:
    """Some of the workers, by their global ranks, with a process group for reductions and one for messages.

    Every worker must make every circle, in the same order, also circles to which it does not belong.
    """

    members: tuple[int, ...]
    group: dist.ProcessGroup | None
    halos: dist.ProcessGroup | None

    @staticmethod
    def of(members: Sequence[int]) -> Circle:
        """The circle of ``members``; a single worker needs no groups."""
        if len(members) == 1:
            return Circle(tuple(members), None, None)
        return Circle(tuple(members), dist.new_group(list(members)), dist.new_group(list(members)))


class Transport:
    """Carries bytes between this worker and the others. With one worker there is no process group and nothing is sent.

    Halo messages have a process group, and so connections, of their own: they and the reduction of weight gradients
    never queue behind each other. The ledger counts the bytes that this worker sends: for an all-to-all the bytes for
    the other ranks, for a reduction of ``B`` bytes the ring's ``2 (P - 1) / P * B``, for a broadcast ``B`` for each
    receiving rank.
    """

    def __init__(
        self, ledger: Ledger | None = None, deadline: float = DEFAULT_DEADLINE, circle: Circle | None = None
    ) -> None:
        """Connect the members of ``circle``; by default all workers."""
        self.ledger = ledger or Ledger()
        self.deadline = deadline
        ranks = range(dist.get_world_size()) if dist.is_initialized() else range(1)
        self.members = tuple(ranks) if circle is None else circle.members
        self.size = len(self.members)
        self.rank = self.members.index(dist.get_rank()) if dist.is_initialized() else 0
        self._group = None if circle is None else circle.group
        self._halos = None
        if self.size > 1:
            self._halos = _second_group(dist.group.WORLD) if circle is None else circle.halos
        self._limit = timedelta(seconds=deadline)
        self._tag = 0
        self._outgoing: dict[int, Pending] = {}
        self._expected: dict[int, Pending] = {} if self._halos is None else _EXPECTED.setdefault(self._halos, {})

    def all_to_all(
        self, send: Tensor, send_bytes: Sizes, received: Tensor, recv_bytes: Sizes, where: str, tag: int | None = None
    ) -> Pending:
        """Launch one message to every peer, from uint8 ``send``, and one from every peer, into uint8 ``received``.

        ``send_bytes`` and ``recv_bytes`` split the buffers by peer. ``send`` must not change before :meth:`settle` or
        the next message from it. For ``tag`` see :meth:`open`.
        """
        if self.size == 1:
            return Pending((), received, send, where)
        if send.is_cuda:
            sizes = (list(recv_bytes), list(send_bytes))
            work = dist.all_to_all_single(received, send, *sizes, group=self._halos, async_op=True)
            return Pending((work,), received, send, where)
        pending = self.open(send, received, _whole(recv_bytes), where, tag)
        self.dispatch(pending, _whole(send_bytes))
        return pending

    def open(
        self, send: Tensor, received: Tensor, incoming: Sequence[Piece], where: str, tag: int | None = None
    ) -> Pending:
        """Expect the pieces ``incoming`` of ``received`` (in bytes); :meth:`dispatch` sends the pieces of ``send``.

        ``send`` must not change from the dispatch of a piece until :meth:`settle` or the next message from it. Both
        ends of a message need the same ``tag``. By default it is counted, which needs all members to open the same
        messages in the same order; for a message that only some members open, they give a tag.
        """
        # Receives are posted before sends: Gloo's own all-to-all lets the two directions of a link take turns when one
        # worker is late, which halves its speed.
        self.settle(send)
        if tag is None:
            self._tag += PIECES
            tag = self._tag
        pending = Pending(self._post(dist.irecv, received, incoming, tag), received, send, where, tag)
        # Gloo cannot skip bytes whose buffer is gone: it would spin, and all later messages of the peer would wait. So
        # the buffer is kept alive here until its bytes arrive, even if nobody wants them any more.
        if pending.works:
            self._expected[id(pending)] = pending
        return pending

    def dispatch(self, pending: Pending, pieces: Sequence[Piece]) -> None:
        """Send ``pieces`` (in bytes) of an open message."""
        if not pieces:
            return
        works = self._post(dist.isend, pending.sent, pieces, pending.tag)
        key = pending.sent.data_ptr()
        before = self._outgoing[key].works if key in self._outgoing else ()
        self._outgoing[key] = Pending((*before, *works), pending.received, pending.sent, pending.where)

    def wait(self, pending: Pending) -> Tensor:
        """Wait for a message; returns the received bytes."""
        # A receive of Gloo can be waited for only once, but a message is used up to twice.
        works, pending.works = pending.works, ()
        for work in works:
            self._wait(work, pending.where)
        self._expected.pop(id(pending), None)
        return pending.received

    def settle(self, send: Tensor | None = None) -> None:
        """Wait until the message in the buffer ``send`` (None: every message) has left; the buffer may then change."""
        keys = list(self._outgoing) if send is None else [send.data_ptr()]
        for key in keys:
            if (pending := self._outgoing.pop(key, None)) is not None:
                self.wait(pending)

    def drain(self) -> None:
        """Wait for all messages, sent and expected; every member must have dispatched what the others expect."""
        self.settle()
        for pending in list(self._expected.values()):
            self.wait(pending)

    def _post(
        self, operation: Callable[..., dist.Work | None], buffer: Tensor, pieces: Sequence[Piece], tag: int
    ) -> Works:
        """Post one ``operation`` for every piece of ``buffer``."""
        works = []
        for piece in pieces:
            if piece.peer == self.rank:
                raise ValueError("a worker does not send to itself")
            member = self.members[piece.peer]
            work = operation(buffer[piece.at], member, group=self._halos, tag=tag + piece.number)
            assert work is not None
            works.append(work)
        return tuple(works)

    def start_reduce(self, tensor: Tensor, where: str, account: str | None = GRADIENT) -> Pending:
        """Launch the sum of ``tensor`` over all members, in place; all members launch their sums in the same order."""
        if self.size == 1:
            return Pending((), tensor, tensor, where)
        self._book(account, 2 * (self.size - 1) * tensor.nbytes // self.size)
        return Pending((dist.all_reduce(tensor, group=self._group, async_op=True),), tensor, tensor, where)

    def all_reduce(self, tensor: Tensor, where: str, account: str | None = GRADIENT) -> Tensor:
        """Sum ``tensor`` over all members, in place."""
        return self.wait(self.start_reduce(tensor, where, account))

    def broadcast(self, tensor: Tensor, where: str, account: str | None = None) -> Tensor:
        """Copy the first member's ``tensor`` to all members, in place."""
        if self.size == 1:
            return tensor
        self._book(account, (self.size - 1) * tensor.nbytes if self.rank == 0 else 0)
        self._wait(dist.broadcast(tensor, src=self.members[0], group=self._group, async_op=True), where)
        return tensor

    def broadcast_bytes(self, data: bytes, where: str) -> bytes:
        """Copy rank 0's ``data`` to every worker."""
        if self.size == 1:
            return data
        length = self.broadcast(torch.tensor([len(data)]), where)
        mine = bytearray(data) if self.rank == 0 else bytearray(int(length))
        if mine:
            self.broadcast(torch.frombuffer(mine, dtype=torch.uint8), where)
        return bytes(mine)

    def swap(self, rows: Tensor, sent: Sizes, received: Sizes, where: str) -> Tensor:
        """Send ``sent[p]`` of the ``rows`` ``[n, ...]``, grouped by peer, to every peer ``p``; returns the peers' rows.

        ``received[p]`` is the number of rows from ``p``; where it is not known, :meth:`swap_counts` finds it.
        """
        data = rows.contiguous().view(-1).view(torch.uint8)
        width = rows.element_size() * math.prod(rows.shape[1:])
        arrived = torch.empty(sum(received) * width, dtype=torch.uint8, device=rows.device)
        self.ledger.sent(data.numel())
        sizes = [count * width for count in sent], [count * width for count in received]
        self.wait(self.all_to_all(data, sizes[0], arrived, sizes[1], where))
        self.settle(data)
        return arrived.view(rows.dtype).view(sum(received), *rows.shape[1:])

    def swap_counts(self, counts: Sizes, where: str) -> list[int]:
        """Tell every peer ``p`` that it gets ``counts[p]`` rows; returns how many rows come from every peer."""
        table = torch.zeros(self.size, self.size, dtype=torch.int64)
        table[self.rank] = torch.tensor(counts)
        self.all_reduce(table, where, account=None)
        return [int(count) for count in table[:, self.rank]]

    def gather_rows(self, rows: Tensor, counts: Sizes, where: str) -> Tensor | None:
        """Collect every worker's ``rows`` on rank 0, in rank order; other ranks get None. ``counts``: rows by rank."""
        if self.size == 1:
            return rows
        nothing = [0] * self.size
        if self.rank == 0:
            return torch.cat([rows, self.swap(rows[:0], nothing, [0, *counts[1:]], where)])
        self.swap(rows, [len(rows), *nothing[1:]], nothing, where)
        return None

    def forget(self) -> None:
        """Drop the process group and messages under way, so that destroying the group ends its threads."""
        self._group = self._halos = None
        self._outgoing.clear()
        self._expected.clear()

    def barrier(self, where: str) -> None:
        """Wait until every worker has called this."""
        self.all_reduce(torch.zeros(1), where, account=None)

    def _book(self, account: str | None, nbytes: int) -> None:
        if account is None:
            self.ledger.sent(nbytes)
        else:
            with self.ledger.account(account):
                self.ledger.sent(nbytes)

    def _wait(self, work: dist.Work, where: str) -> None:
        try:
            work.wait(self._limit)
        except RuntimeError as error:
            raise LateError(self._who_is_late(where, error)) from error

    def _who_is_late(self, where: str, error: RuntimeError) -> str:
        """Say which workers are late: each worker that gives up writes so to the store; the others are late or gone."""
        store, mine = dist.distributed_c10d._get_default_store(), dist.get_rank()
        # Gloo's messages begin with its source file and line, and may end with a wave.
        reason = re.sub(r"^\[[^\]]*\]\s*", "", str(error).splitlines()[0]).partition("GLHF")[0].strip(" .")
        try:
            store.set(f"halowire/late/{mine}", where)
            others = [rank for rank in range(dist.get_world_size()) if rank != mine]
            seen = {r: store.get(f"halowire/late/{r}").decode() for r in others if store.check([f"halowire/late/{r}"])}
        except RuntimeError:
            return f"rank {mine} lost the other workers at {where}: {reason}"
        silent = [rank for rank in others if rank not in seen]
        also = "".join(f"; rank {rank} waits at {place}" for rank, place in seen.items())
        late = f"; no word from rank {', '.join(map(str, silent))}: late or gone" if silent else ""
        return f"rank {mine} gave up waiting at {where}{late}{also} ({reason})"


# A group that outlives `destroy_process_group` ends with the interpreter, and a Gloo thread that frees a tensor at that
# moment aborts the process. So the groups are held weakly.
_SECOND: WeakKeyDictionary[dist.ProcessGroup, dist.ProcessGroup] = WeakKeyDictionary()
# The messages that any transport of this process expects on a group and has not waited for yet.
_EXPECTED: WeakKeyDictionary[dist.ProcessGroup, dict[int, Pending]] = WeakKeyDictionary()


def _second_group(world: dist.ProcessGroup | None) -> dist.ProcessGroup:
    """The group of the halo messages beside ``world``; all transports of a process share it."""
    assert world is not None
    if world not in _SECOND:
        group = dist.new_group()
        assert group is not None
        _SECOND[world] = group
    return _SECOND[world]


def _whole(sizes: Sizes) -> list[Piece]:
    """The pieces of a message that is not cut: one for every peer that gets bytes."""
    ends = list(itertools.accumulate(sizes))
    return [Piece(peer, 0, end - size, end) for peer, (size, end) in enumerate(zip(sizes, ends, strict=True)) if size]
