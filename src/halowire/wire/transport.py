"""The transport: bytes between workers over a torch process group, with a deadline on every wait."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Self
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch import Tensor

from halowire.errors import LateError
from halowire.events import GRADIENT, Ledger
from halowire.wire.circle import DEFAULT_DEADLINE, Circle, second_group
from halowire.wire.deadline import Wait, process_watch, who_is_late
from halowire.wire.header import PLAIN, Envelope, EnvelopeRing, Header, headers_of, kind_of, with_headers
from halowire.wire.machines import Machines
from halowire.wire.route import PIECES, Piece, whole_pieces

TAGS_EACH = PIECES + 1
"""Tags that every message uses: one for each piece, and one for its headers."""
TAGS = TAGS_EACH * (2**16 // TAGS_EACH)
"""After this many tags, those of earlier messages are used again; tags that a caller gives begin here."""

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
    ranks: tuple[int, ...] = ()
    headers: Headers | None = None
    headers_left: bool = False


@dataclass(frozen=True, eq=False)
class Headers:
    """The headers that must arrive with a message: what to wait for, from which ranks, and what they must say."""

    works: Works
    ranks: tuple[int, ...]
    envelope: Envelope
    expected: Mapping[int, Header]
    where: str


class Transport:
    """Carries bytes between this worker and the others. With one worker there is no process group and nothing is sent.

    Halo messages have a process group, and so connections, of their own: they and the reduction of weight gradients
    never queue behind each other. The ledger counts the bytes that this worker sends: for an all-to-all the bytes for
    the other ranks, for a reduction of ``B`` bytes the ring's ``2 (P - 1) / P * B``, for a broadcast ``B`` for each
    receiving rank. What stays on one of several ``machines`` is counted apart. Every message between two members has a
    header (see :mod:`halowire.wire.header`), which is checked on arrival.
    """

    has_pairs = False
    """Whether messages to single peers travel by process groups of their own, see :meth:`NcclTransport.use_pairs`."""
    host_copies = 0
    """How often the host has waited for a copy of a device's rows so far; see :class:`PinnedTransport`."""

    def __init__(
        self,
        ledger: Ledger | None = None,
        deadline: float = DEFAULT_DEADLINE,
        circle: Circle | None = None,
        *,
        run: int = 0,
    ) -> None:
        """Connect the members of ``circle``, by default all workers, who share the 32-bit number ``run``."""
        self.ledger = ledger or Ledger()
        self.deadline = deadline
        self.run = run
        ranks = range(dist.get_world_size()) if dist.is_initialized() else range(1)
        self.members = tuple(ranks) if circle is None else circle.members
        self.size = len(self.members)
        self.rank = self.members.index(dist.get_rank()) if dist.is_initialized() else 0
        self.machines = Machines((0,) * self.size)
        self._group = None if circle is None else circle.group
        self._halos = None
        if self.size > 1:
            self._halos = second_group(dist.group.WORLD, deadline) if circle is None else circle.halos
            process_watch().look_often(deadline)
        self._tag = 0
        self._outgoing: dict[int, Pending] = {}
        self._unchecked: dict[int, Headers] = {}
        self._envelopes = EnvelopeRing()
        self._expected: dict[int, Pending] = {} if self._halos is None else _EXPECTED.setdefault(self._halos, {})

    def among(self, circle: Circle) -> Self:
        """A transport of the same kind to the members of ``circle``, with the same ledger."""
        return self._placed(type(self)(self.ledger, self.deadline, circle, run=self.run))

    def _placed(self, made: Self) -> Self:
        """``made``, a transport to some of the members, with their machines."""
        made.machines = self.machines.among([self.members.index(member) for member in made.members])
        return made

    def use_pairs(self, pairs: Mapping[int, dist.ProcessGroup]) -> None:
        """Send messages to single peers by the groups ``pairs``; where tags tell messages apart, nothing changes."""

    def all_to_all(
        self,
        send: Tensor,
        send_bytes: Sizes,
        received: Tensor,
        recv_bytes: Sizes,
        where: str,
        tag: int | None = None,
        envelope: Envelope | None = None,
    ) -> Pending:
        """Launch one message to every peer, from uint8 ``send``, and one from every peer, into uint8 ``received``.

        ``send_bytes`` and ``recv_bytes`` split the buffers by peer. ``send`` must not change before :meth:`settle` or
        the next message from it. For ``tag`` and ``envelope`` see :meth:`open`.
        """
        if self.size == 1:
            return Pending((), received, send, where)
        pending = self.open(send, received, whole_pieces(recv_bytes), where, tag, envelope)
        self.dispatch(pending, whole_pieces(send_bytes))
        return pending

    def open(
        self,
        send: Tensor,
        received: Tensor,
        incoming: Sequence[Piece],
        where: str,
        tag: int | None = None,
        envelope: Envelope | None = None,
    ) -> Pending:
        """Expect the pieces ``incoming`` of ``received`` (in bytes); :meth:`dispatch` sends the pieces of ``send``.

        ``send`` must not change from the dispatch of a piece until :meth:`settle` or the next message from it. Both
        ends of a message need the same ``tag``. By default it is counted, which needs all members to open the same
        messages in the same order; for a message that only some members open, they give a tag, a multiple of
        :data:`TAGS_EACH` from :data:`TAGS` on. The headers of ``envelope`` leave in front of the first rows.
        """
        # Receives are posted before sends: Gloo's own all-to-all lets the two directions of a link take turns when one
        # worker is late, which halves its speed.
        self.settle(send)
        if tag is None:
            self._tag = (self._tag + TAGS_EACH) % TAGS
            tag = self._tag
        headers = None if envelope is None else self._expect_headers(envelope, send, where, tag)
        works = self._post(dist.irecv, received, incoming, tag)
        pending = Pending(works, received, send, where, tag, self._ranks_of(incoming), headers)
        # Gloo cannot skip bytes whose buffer is gone: it would spin, and all later messages of the peer would wait. So
        # the buffer is kept alive here until its bytes arrive, even if nobody wants them any more.
        if pending.works or headers is not None:
            self._expected[id(pending)] = pending
        return pending

    def _expect_headers(self, envelope: Envelope, send: Tensor, where: str, tag: int) -> Headers:
        """Expect the headers of the peers, and write those of a message whose rows leave from ``send``."""
        self._settle(envelope.left_with)
        if (earlier := self._unchecked.pop(id(envelope), None)) is not None:
            self._check(earlier)
        envelope.seal()
        envelope.left_with = send.data_ptr()
        arriving = [(envelope.arriving[peer], self.members[peer]) for peer in envelope.expected]
        works = [_posted(dist.irecv, room, rank, self._halos, tag + PIECES) for room, rank in arriving]
        return Headers(tuple(works), tuple(rank for _, rank in arriving), envelope, envelope.expected, where)

    def _send_headers(self, pending: Pending) -> None:
        """Send the headers of an open message, once."""
        # Alone, every header would wake its receiver, which computes meanwhile; with rows behind it, it wakes it once.
        if pending.headers is None or pending.headers_left:
            return
        pending.headers_left = True
        leaving = self._leaving_headers(pending.headers.envelope)
        self._note_outgoing(pending, self._post_headers(leaving, pending.tag), tuple(rank for _, rank in leaving))

    def _leaving_headers(self, envelope: Envelope) -> list[tuple[Tensor, int]]:
        """The headers that leave, and the ranks that get them."""
        return [(envelope.leaving[peer], self.members[peer]) for peer in envelope.sent]

    def _post_headers(self, leaving: Sequence[tuple[Tensor, int]], tag: int) -> Works:
        return tuple(_posted(dist.isend, header, rank, self._halos, tag + PIECES) for header, rank in leaving)

    def dispatch(self, pending: Pending, pieces: Sequence[Piece]) -> None:
        """Send ``pieces`` (in bytes) of an open message, the headers in front of the first ones."""
        if not pieces:
            return
        self._send_headers(pending)
        works = self._post(dist.isend, pending.sent, pieces, pending.tag)
        self._note_outgoing(pending, works, self._ranks_of(pieces))

    def _note_outgoing(self, pending: Pending, works: Works, ranks: tuple[int, ...]) -> None:
        """Keep ``works``, which send to ``ranks``, until :meth:`settle`, beside others from the same buffer."""
        key = pending.sent.data_ptr()
        before = self._outgoing.get(key, Pending((), pending.received, pending.sent, pending.where))
        works = (*before.works, *works)
        ranks = (*before.ranks, *ranks)
        self._outgoing[key] = Pending(works, pending.received, pending.sent, pending.where, ranks=ranks)

    def wait(self, pending: Pending) -> Tensor:
        """Wait for a message, at most until the deadline, and check its headers; returns the received bytes."""
        # A receive of Gloo can be waited for only once, but a message is used up to twice.
        works, pending.works = pending.works, ()
        headers, pending.headers = pending.headers, None
        if works or headers is not None:
            wait = Wait(pending.where, self.deadline)
            with process_watch().over(wait):
                if headers is not None:
                    self._check(headers, wait)
                self._finish_all(works, pending.ranks, wait)
        self._expected.pop(id(pending), None)
        return pending.received

    def _check(self, headers: Headers, wait: Wait | None = None) -> None:
        """Wait for ``headers``, and refuse those that are not the expected ones."""
        self._finish_all(headers.works, headers.ranks, wait or Wait(headers.where, self.deadline))
        headers.envelope.check(headers.expected, self.members, headers.where)

    def _finish_all(self, works: Works, ranks: Sequence[int], wait: Wait) -> None:
        for work, rank in itertools.zip_longest(works, ranks):
            wait.rank = rank
            self._finish(work, wait)

    def settle(self, send: Tensor | None = None) -> None:
        """Wait until the message in the buffer ``send`` (None: every message) has left; the buffer may then change."""
        keys = list(self._outgoing) if send is None else [send.data_ptr()]
        for key in keys:
            self._settle(key)

    def _settle(self, key: int) -> None:
        """Wait until what leaves from the buffer at the address ``key`` has left."""
        if (pending := self._outgoing.pop(key, None)) is not None:
            self.wait(pending)

    def drain(self) -> None:
        """Wait for all messages, sent and expected; every member must have dispatched what the others expect."""
        self.settle()
        for pending in list(self._expected.values()):
            self.wait(pending)
        while self._unchecked:
            self._check(self._unchecked.popitem()[1])

    def _ranks_of(self, pieces: Sequence[Piece]) -> tuple[int, ...]:
        return tuple(self.members[piece.peer] for piece in pieces)

    def _post(
        self, operation: Callable[..., dist.Work | None], buffer: Tensor, pieces: Sequence[Piece], tag: int
    ) -> Works:
        """Post one ``operation`` for every piece of ``buffer``."""
        works = []
        for piece in pieces:
            if piece.peer == self.rank:
                raise ValueError("a worker does not send to itself")
            number = tag + piece.number + _length_tag(piece.stop - piece.start)
            works.append(_posted(operation, buffer[piece.at], self.members[piece.peer], self._halos, number))
        return tuple(works)

    def start_reduce(self, tensor: Tensor, where: str, account: str | None = GRADIENT) -> Pending:
        """Launch the sum of ``tensor`` over all members, in place; all members launch their sums in the same order."""
        if self.size == 1:
            return Pending((), tensor, tensor, where)
        sent = [0] * self.size
        sent[self.rank - 1] = 2 * (self.size - 1) * tensor.nbytes // self.size  # Gloo's ring runs from rank to rank - 1
        self._book(account, sent)
        return self._collective(dist.all_reduce, tensor, where)

    def _collective(self, operation: Callable[..., Any], tensor: Tensor, where: str, **more: Any) -> Pending:
        """Launch an ``operation`` of all members on ``tensor``, in place."""
        work = operation(tensor, group=self._group, async_op=True, **more)
        return Pending((work,), tensor, tensor, where)

    def all_reduce(self, tensor: Tensor, where: str, account: str | None = GRADIENT) -> Tensor:
        """Sum ``tensor`` over all members, in place."""
        return self.wait(self.start_reduce(tensor, where, account))

    def broadcast(self, tensor: Tensor, where: str, account: str | None = None) -> Tensor:
        """Copy the first member's ``tensor`` to all members, in place."""
        if self.size == 1:
            return tensor
        self._book(account, [tensor.nbytes * (peer > self.rank == 0) for peer in range(self.size)])
        return self.wait(self._collective(dist.broadcast, tensor, where, src=self.members[0]))

    def read(self, values: Tensor) -> list[float]:
        """The numbers of a vector, for all of which the host waits once."""
        found: list[float] = values.tolist()
        return found

    def broadcast_bytes(self, data: bytes, where: str) -> bytes:
        """Copy rank 0's ``data`` to every worker."""
        if self.size == 1:
            return data
        length = self.broadcast(torch.tensor([len(data)]), where)
        mine = bytearray(data) if self.rank == 0 else bytearray(int(length))
        if mine:
            self.broadcast(torch.frombuffer(mine, dtype=torch.uint8), where)
        return bytes(mine)

    def swap(
        self, rows: Tensor, sent: Sizes, received: Sizes, where: str, epoch: int = -1, codec: str = PLAIN
    ) -> Tensor:
        """Send ``sent[p]`` of the ``rows`` ``[n, ...]``, grouped by peer, to every peer ``p``; returns the peers' rows.

        ``received[p]`` is the number of rows from ``p``; where it is not known, :meth:`swap_counts` finds it. The
        headers say ``epoch`` (-1: set-up, evaluation, or exact rows), and how the rows are coded.
        """
        data = rows.contiguous().view(-1).view(torch.uint8)
        width = rows.element_size() * math.prod(rows.shape[1:])
        arrived = torch.empty(sum(received) * width, dtype=torch.uint8, device=rows.device)
        sizes = [count * width for count in sent], [count * width for count in received]
        self.count(with_headers(sizes[0]))
        says, envelope = (self.run, epoch, 0, kind_of(codec, False, False, False)), self._envelopes.next(self.size)
        envelope.sent = headers_of(says, sent, sizes[0])
        envelope.expected = headers_of(says, received, sizes[1])
        self.wait(self.all_to_all(data, sizes[0], arrived, sizes[1], where, envelope=envelope))
        self.settle(data)
        envelope.free()
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

    def count(self, sizes: Sizes, layer: int = -1, direction: str = "") -> None:
        """Book the bytes ``sizes[p]`` that leave for every peer ``p``; those for workers of this machine apart."""
        local = sum(size for peer, size in enumerate(sizes) if self.machines.together(self.rank, peer))
        self.ledger.sent(sum(sizes) - local, layer, direction, local)

    def _book(self, account: str | None, sizes: Sizes) -> None:
        with nullcontext() if account is None else self.ledger.account(account):
            self.count(sizes)

    def _finish(self, work: dist.Work, wait: Wait) -> None:
        """Wait for ``work`` until the deadline of ``wait``."""
        try:
            work.wait(timedelta(seconds=wait.left))
        except RuntimeError as error:
            raise LateError(who_is_late(wait, error)) from error


# The messages that any transport of this process expects on a group and has not waited for yet.
_EXPECTED: WeakKeyDictionary[dist.ProcessGroup, dict[int, Pending]] = WeakKeyDictionary()


def _posted(
    operation: Callable[..., dist.Work | None], data: Tensor, rank: int, group: dist.ProcessGroup | None, tag: int
) -> dist.Work:
    work = operation(data, rank, group=group, tag=tag)
    assert work is not None
    return work


def _length_tag(nbytes: int) -> int:
    """14 bits of a hash of the length, above all other tags: pieces of different length do not meet.

    Gloo ends the process when a piece is longer than expected, and takes a shorter one silently. A piece that does not
    meet its receiver waits, while the header says what is wrong.
    """
    return ((nbytes * 2654435761 & 0xFFFFFFFF) >> 18) << 17
