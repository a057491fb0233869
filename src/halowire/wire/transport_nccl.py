"""The transport between GPUs: rows travel over NCCL from device to device, headers and metadata over Gloo.

Every rule of NCCL that the code keeps stands where it is kept. What is on the host travels as in :class:`Transport`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Self

import torch
import torch.distributed as dist
from torch import Tensor

from halowire.events import Ledger
from halowire.wire.circle import DEFAULT_DEADLINE, Circle, abort_groups
from halowire.wire.deadline import process_watch
from halowire.wire.flights import Flight, Flights
from halowire.wire.header import Envelope
from halowire.wire.route import Piece, whole_pieces
from halowire.wire.streams import Streams
from halowire.wire.transport import Pending, Sizes, Transport, Works


class NcclTransport(Transport):
    """Carries rows between the devices of the workers; a wait orders streams, and the host does not stop.

    Messages to all peers are one all-to-all on a process group of their own, which has a stream of its own. Messages
    between two stages travel in batches on the group of the two, in the same order at both ends.
    """

    has_pairs = True

    def __init__(
        self,
        ledger: Ledger | None = None,
        deadline: float = DEFAULT_DEADLINE,
        circle: Circle | None = None,
        *,
        device: torch.device,
        run: int = 0,
        flights: Flights | None = None,
    ) -> None:
        """Connect the members of ``circle``; ``flights`` watches over the messages of all transports of a worker."""
        super().__init__(ledger, deadline, circle, run=run)
        self.device = device
        self._streams = Streams(device)
        self._pairs: Mapping[int, dist.ProcessGroup] = {}
        self._groups: list[dist.ProcessGroup | None] = [] if flights is None else flights.groups
        self._groups += [self._group or dist.group.WORLD, self._halos] if self.size > 1 else []
        self.flights = flights or Flights(deadline, process_watch(), self._groups, self._abort)

    def among(self, circle: Circle) -> Self:
        """A transport to the members of ``circle``, with the same ledger and the same watch."""
        more: dict[str, Any] = {"device": self.device, "run": self.run, "flights": self.flights}
        return self._placed(type(self)(self.ledger, self.deadline, circle, **more))

    def use_pairs(self, pairs: Mapping[int, dist.ProcessGroup]) -> None:
        """Send messages to single peers by the groups ``pairs``, each of this worker and a peer."""
        self._pairs = pairs
        self._groups += pairs.values()

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
        """Launch one message to every peer and one from every peer; with a ``tag``, to and from single peers.

        All members launch messages without a tag in the same order; the two ends of a pair launch theirs in the same
        order. The bytes sent must be computed in the current stream.
        """
        if self.size == 1 or self._on_host(send, received):
            return super().all_to_all(send, send_bytes, received, recv_bytes, where, tag, envelope)
        pending = self.open(send, received, [], where, tag, envelope)
        if envelope is not None:
            self._send_headers_apart(pending, envelope)
        if tag is None:
            pending.works = self._together(send, send_bytes, received, recv_bytes, where)
        else:
            pending.works = self._in_pairs(send, send_bytes, received, recv_bytes, f"{where}, tag {tag}")
        if send.numel():
            self._outgoing[send.data_ptr()] = pending
        return pending

    def _together(self, send: Tensor, send_bytes: Sizes, received: Tensor, recv_bytes: Sizes, where: str) -> Works:
        """One all-to-all; NCCL needs all members in it, also those with nothing to send or to take."""
        sizes = list(recv_bytes), list(send_bytes)
        return self._launch(
            self._halos,
            where,
            # Only an asynchronous operation has a stream of its own: it runs after what the current stream has been
            # given so far, and what the current stream is given next does not wait for it.
            lambda: [dist.all_to_all_single(received, send, *sizes, group=self._halos, async_op=True)],
        )

    def _in_pairs(self, send: Tensor, send_bytes: Sizes, received: Tensor, recv_bytes: Sizes, label: str) -> Works:
        """Point to point with every peer that sends or gets bytes, each in the group of the pair."""
        operations: dict[int, list[dist.P2POp]] = {}
        ways = ((dist.irecv, received, whole_pieces(recv_bytes)), (dist.isend, send, whole_pieces(send_bytes)))
        for operation, buffer, pieces in ways:
            for piece in pieces:
                # NCCL has no tags: both ends of the pair post in one order. See `StageLink.expect`.
                rank, group = self.members[piece.peer], self._pair(piece)
                operations.setdefault(piece.peer, []).append(dist.P2POp(operation, buffer[piece.at], rank, group))
        works: list[dist.Work] = []
        for peer, posts in operations.items():
            # A batch is one NCCL group: the order of sends and receives within it cannot deadlock.
            batch = partial(dist.batch_isend_irecv, posts)
            works += self._launch(self._pairs[peer], label, batch, self.members[peer])
        return tuple(works)

    def _pair(self, piece: Piece) -> dist.ProcessGroup:
        if piece.peer not in self._pairs:
            raise ValueError(f"no connection of their own between member {self.rank} and member {piece.peer}")
        return self._pairs[piece.peer]

    def _launch(
        self,
        group: dist.ProcessGroup | None,
        label: str,
        operation: Callable[[], list[Any]],
        rank: int | None = None,
    ) -> Works:
        """Launch an ``operation`` of ``group`` and watch over it from before its launch on.

        At the first message between two workers, NCCL connects them, and the host waits for the peer inside the launch.
        """
        flight = Flight(label, self._streams.mark(), rank)
        self.flights.add(group, flight)
        flight.works = tuple(operation())
        return flight.works

    def _collective(self, operation: Callable[..., Any], tensor: Tensor, where: str, **more: Any) -> Pending:
        """Launch a sum or a broadcast; NCCL orders it behind the current stream."""
        if self._on_host(tensor):
            return super()._collective(operation, tensor, where, **more)
        group = self._group or dist.group.WORLD
        works = self._launch(group, where, lambda: [operation(tensor, group=group, async_op=True, **more)])
        return Pending(works, tensor, tensor, where)

    def wait(self, pending: Pending) -> Tensor:
        """Let the current stream run on only when the message has arrived and left; the host goes on at once."""
        if self._on_host(pending.sent, pending.received):
            return super().wait(pending)
        works, pending.works = pending.works, ()
        headers, pending.headers = pending.headers, None
        try:
            for work in works:
                work.wait()  # with a limit the host would poll; the flights watch the deadline instead
        except RuntimeError:
            self.flights.check()
            raise
        if headers is not None:
            # Waiting for the headers here would stop the host in every message, so they are checked when their memory
            # is needed again, which is one epoch later.
            self._unchecked[id(headers.envelope)] = headers
        # Until here the message held its buffers. The current stream now runs after NCCL's, so memory that is freed
        # from here on and used again in this stream is safe.
        self._expected.pop(id(pending), None)
        self.flights.check()
        return pending.received

    def read(self, values: Tensor) -> list[float]:
        """The numbers of a vector, for all of which the host waits once; raises if a message before them was late."""
        found = super().read(values)
        self.flights.check()
        return found

    def forget(self) -> None:
        """Drop all process groups and messages under way."""
        super().forget()
        self._pairs = {}
        self._groups.clear()
        self.flights.forget()

    def _send_headers_apart(self, pending: Pending, envelope: Envelope) -> None:
        """Send the headers from their own memory on the host, which is free again when they have left it."""
        room = envelope.leaving[0]
        envelope.left_with = room.data_ptr()
        self._send_headers(Pending((), room, room, pending.where, pending.tag, headers=pending.headers))

    def _on_host(self, *tensors: Tensor) -> bool:
        return all(tensor.device.type == "cpu" for tensor in tensors)

    def _abort(self) -> None:
        """Free the device and the host from operations whose peer never comes."""
        abort_groups(self._groups, self.device)
