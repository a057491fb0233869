"""The transport for GPUs without NCCL between them: rows are copied to the host, and Gloo carries them from there.

A copy has a stream of its own, so that the device computes on meanwhile. A thread waits for the copies and hands every
piece to Gloo as soon as it is on the host. Rows that arrive on the host are copied to the device at the wait.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotInTime
from dataclasses import dataclass
from typing import Any, Self

import torch
import torch.distributed as dist
from torch import Tensor

from halowire.errors import LateError
from halowire.events import Ledger
from halowire.wire.circle import DEFAULT_DEADLINE, Circle
from halowire.wire.deadline import Wait, seconds_text
from halowire.wire.header import Envelope
from halowire.wire.route import Piece, list_pieces
from halowire.wire.streams import Mark, Streams
from halowire.wire.transport import Pending, Sizes, Transport, Works

COPIER = "halowire-copies"
"""The name of the thread that waits for copies."""
CUT_BYTES = 1 << 20
"""A message of at least this many bytes to one peer is copied and sent in pieces."""


@dataclass
class Staged(Pending):
    """A message of a device: what is under way on the host, until it has been waited for."""

    inner: Pending | None = None


@dataclass(frozen=True, eq=False)
class Leaving:
    """Bytes on their way from ``source``: ``posted`` gives what Gloo sends from ``room``, once they are there."""

    posted: Future[Works]
    source: Tensor
    room: Tensor
    ranks: tuple[int, ...]
    where: str


class PinnedTransport(Transport):
    """Carries rows of a device through memory of the host; a wait for what arrives stops the host, as Gloo's waits do.

    torch keeps pinned memory for the next message, and gives it out only when the device is done with it.
    """

    def __init__(
        self,
        ledger: Ledger | None = None,
        deadline: float = DEFAULT_DEADLINE,
        circle: Circle | None = None,
        *,
        device: torch.device,
        run: int = 0,
    ) -> None:
        super().__init__(ledger, deadline, circle, run=run)
        self.device = device
        self._streams = Streams(device)
        self._poster = ThreadPoolExecutor(1, COPIER)
        self._leaving: dict[int, Leaving] = {}

    def among(self, circle: Circle) -> Self:
        """A transport to the members of ``circle``, with the same ledger."""
        made = type(self)(self.ledger, self.deadline, circle, device=self.device, run=self.run)
        return self._placed(made)

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
        """Launch one message to every peer and one from every peer; rows of a device go by way of the host."""
        if self.size == 1 or send.device.type == "cpu":
            return super().all_to_all(send, send_bytes, received, recv_bytes, where, tag, envelope)
        self.settle(send)
        # Both ends cut large messages into the same pieces: while one is sent, the next one is copied.
        arriving, leaving = (list_pieces(sizes, CUT_BYTES) for sizes in (recv_bytes, send_bytes))
        room = self._streams.host_memory(send.numel())
        inner = self.open(room, self._streams.host_memory(received.numel()), arriving, where, tag, envelope)
        if leaving:
            headers = [] if envelope is None else self._leaving_headers(envelope)
            copies = self._copy_out(send, room, leaving)
            ranks = (*(rank for _, rank in headers), *self._ranks_of(leaving))
            posted = self._poster.submit(self._send, room, inner.tag, headers, copies)
            # The envelope knows by the room on the host when its headers have left.
            self._leaving |= dict.fromkeys(
                (send.data_ptr(), room.data_ptr()), Leaving(posted, send, room, ranks, where)
            )
        return Staged((), received, send, where, inner.tag, inner=inner)

    def _copy_out(self, send: Tensor, room: Tensor, pieces: Sequence[Piece]) -> list[tuple[Piece, Mark]]:
        """Copy ``pieces`` to the host beside what the device computes next; a mark follows every piece."""
        copies = []
        with self._streams.aside():
            for piece in pieces:
                room[piece.at].copy_(send[piece.at], non_blocking=True)
                copies.append((piece, self._streams.mark()))
        self.host_copies += len(copies)
        return copies

    def _send(
        self,
        room: Tensor,
        tag: int,
        headers: Sequence[tuple[Tensor, int]],
        copies: Sequence[tuple[Piece, Mark]],
    ) -> Works:
        """Hand headers and pieces to Gloo; runs in a thread of its own, which waits for the copies."""
        works: list[dist.Work] = []
        for place, (piece, copied) in enumerate(copies):
            copied.synchronize()
            if place == 0:
                works += self._post_headers(headers, tag)
            works += self._post(dist.isend, room, [piece], tag)
        return tuple(works)

    def _collective(self, operation: Callable[..., Any], tensor: Tensor, where: str, **more: Any) -> Pending:
        """Launch a sum or a broadcast on a copy in the host's memory."""
        if tensor.device.type == "cpu":
            return super()._collective(operation, tensor, where, **more)
        room = self._streams.host_memory(tensor.nbytes).view(tensor.dtype).view(tensor.shape)
        room.copy_(tensor, non_blocking=True)
        # The operations of a process group have one order on all workers, so none of them leaves from another thread.
        self._streams.mark().synchronize()
        self.host_copies += 1
        return Staged((), tensor, tensor, where, inner=super()._collective(operation, room, where, **more))

    def wait(self, pending: Pending) -> Tensor:
        """Wait until a message is on the host, and let the device copy it before it goes on."""
        if not isinstance(pending, Staged):
            return super().wait(pending)
        inner, pending.inner = pending.inner, None
        if inner is not None:
            pending.received.copy_(super().wait(inner), non_blocking=True)
        return pending.received

    def settle(self, send: Tensor | None = None) -> None:
        """Wait until the message in the buffer ``send`` (None: every message) has left; the buffer may then change."""
        super().settle(send)
        for key in list(self._leaving) if send is None else [send.data_ptr()]:
            self._settle(key)

    def _settle(self, key: int) -> None:
        super()._settle(key)
        if (leaving := self._leaving.get(key)) is not None:
            # A send of Gloo can be waited for only once.
            del self._leaving[leaving.source.data_ptr()], self._leaving[leaving.room.data_ptr()]
            wait = Wait(leaving.where, self.deadline)
            try:
                works = leaving.posted.result(wait.left)
            except NotInTime:
                waited = seconds_text(wait.seconds)
                raise LateError(f"the device did not copy the rows of {leaving.where} within {waited}") from None
            super().wait(Pending(works, leaving.room, leaving.room, leaving.where, ranks=leaving.ranks))

    def forget(self) -> None:
        """Drop the process group and messages under way."""
        super().forget()
        self._leaving.clear()
        self._poster.shutdown(wait=False, cancel_futures=True)
