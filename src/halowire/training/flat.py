"""The gradients of all parameters lie in one flat buffer, which is reduced in pieces while backward still runs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from halowire.training.row_gradients import RowGradients, not_finite
from halowire.wire import GradientCodec, Pending, Transport, vector_on

SMALLEST_PIECE = 1 << 18
"""Bytes of the smallest piece: the round trips of a smaller message cost more than its early start gains."""


@dataclass
class _Piece:
    """Parameters ``first`` to ``stop``, their part of the buffer, and how many of their gradients are still to come."""

    first: int
    stop: int
    values: Tensor
    missing: int = 0


class FlatGradients:
    """Makes every ``parameter.grad`` a view of one float32 buffer that begins with ``extras`` other numbers.

    The extras (the loss, the wish to stop, what the console shows) are summed together with the gradients and so cost
    no message of their own. To the last extra a positive number is added where gradients are not finite.
    The buffer is cut into pieces of neighbouring parameters. Backward finishes the last layer first: from the end,
    every piece is launched as soon as its gradients are complete, in the same order on every worker, and travels while
    backward goes on. The first layers' piece leaves with the extras when backward is over.
    The buffer is one piece where a ``codec`` is used, where the workers do not all train the same parameters, and where
    several backward passes add up.
    """

    def __init__(
        self,
        parameters: list[nn.Parameter],
        extras: int,
        transport: Transport,
        codec: GradientCodec | None = None,
        peers: Transport | None = None,
        early: bool = True,
        smallest: int = SMALLEST_PIECE,
        device: torch.device | None = None,
    ) -> None:
        """Make the buffer; ``peers`` train the same parameters (by default all workers do).

        ``early`` allows pieces to leave during backward, which must then run once per epoch. ``device`` is needed where
        a worker may have no parameters: its extras must be where those of the others are.
        """
        self._transport = transport
        self._peers = peers or transport
        self._codec = codec
        self.where = "weight gradients"
        sizes = [p.numel() for p in parameters]
        self._buffer = torch.zeros(extras + sum(sizes), device=parameters[0].device if device is None else device)
        self._extras = self._buffer[:extras]
        self.gradients = self._buffer[extras:]
        for parameter, part in zip(parameters, torch.split(self.gradients, sizes), strict=True):
            parameter.grad = part.view_as(parameter)
        whole = codec is not None or self._peers is not transport or not early
        cuts = [0] if whole else cut_pieces(sizes, smallest // self._buffer.element_size())
        self._pieces = _pieces(self._buffer, [extras, *sizes], cuts)
        self._next = 0
        self._under_way: list[Pending] = []
        self._piece_of: dict[int, _Piece] = {}
        for piece in self._pieces[:-1]:
            for parameter in parameters[piece.first : piece.stop]:
                self._piece_of[id(parameter)] = piece
                # Autograd tells of the gradients that it makes; the library's own schedules call `complete` themselves.
                parameter.register_post_accumulate_grad_hook(self.complete)  # type: ignore[no-untyped-call]

    def zero(self) -> None:
        """Forget the gradients of the last epoch."""
        self._buffer.zero_()
        self._next = 0
        for piece in self._pieces:
            piece.missing = piece.stop - piece.first

    def reduce(self, extras: Sequence[float | Tensor], epoch: int = 0) -> list[float]:
        """Sum the gradients over the peers and ``extras`` over all workers; return the sums of the extras, exact.

        Extras may be tensors without a dimension, on the device of the gradients. The host waits for the device once.
        """
        self._extras.copy_(vector_on(self._extras.device, extras))
        if self._codec is None and self._peers is self._transport:
            self._launch(len(self._pieces))
            while self._under_way:
                self._transport.wait(self._under_way.pop(0))
            self._note_finite()  # the sums are the same on all workers, and so is the finding
            return self._transport.read(self._extras)
        if self._codec is None:
            self._peers.all_reduce(self.gradients, self.where)
            self._note_finite()
        else:
            self._note_finite()  # before the code, which may turn an infinity into a number
            self._codec.all_reduce(self.gradients, epoch, self.where)
        self._transport.all_reduce(self._extras, self.where)
        return self._transport.read(self._extras)

    def _note_finite(self) -> None:
        """Add 1 to the last extra if the gradients, as they are now, are not finite."""
        self._extras[-1] += not_finite([self.gradients])

    def complete(self, parameter: Tensor) -> None:
        """Note that the gradient of ``parameter`` is complete, and launch the pieces that are complete from the end."""
        piece = self._piece_of.get(id(parameter))
        if piece is None:
            return
        piece.missing -= 1
        ready = itertools.takewhile(lambda piece: not piece.missing, self._pieces[:-1])
        self._launch(len(list(ready)))

    def _launch(self, stop: int) -> None:
        for piece in self._pieces[self._next : stop]:
            self._under_way.append(self._transport.start_reduce(piece.values, self.where))
        self._next = max(self._next, stop)

    def clip(self, largest: float, line: Transport | None = None, rows: RowGradients | None = None) -> None:
        """Scale the gradient down to the norm ``largest`` if it is longer.

        The workers of ``line`` hold its rest; ``rows`` are the gradients of weights that have a row for each node.
        """
        if largest <= 0:
            return
        norm = torch.linalg.vector_norm(self.gradients)
        if line is not None and line.size > 1:
            norm = line.all_reduce(norm.square()[None], "norm of the gradient")[0].sqrt()
        if rows is not None and (squares := rows.squares()) is not None:
            norm = (norm.square() + squares).sqrt()
        factor = torch.clamp(largest / (norm + 1e-12), max=1.0)
        self.gradients.mul_(factor)
        if rows is not None:
            rows.scale(factor)


def broadcast_parameters(parameters: list[nn.Parameter], transport: Transport) -> None:
    """Give every worker rank 0's weights, in one message."""
    if not parameters:
        return
    with torch.no_grad():
        flat = torch.cat([p.reshape(-1) for p in parameters])
        transport.broadcast(flat, "broadcast of the weights")
        for parameter, piece in zip(parameters, torch.split(flat, [p.numel() for p in parameters]), strict=True):
            parameter.copy_(piece.view_as(parameter))


def cut_pieces(sizes: Sequence[int], smallest: int) -> list[int]:
    """The first parameter of every piece, from the end of the list; every piece but the first has ``smallest`` values.

    >>> cut_pieces([5, 5, 1, 1, 8], 9)
    [3, 0]
    """
    starts, gathered = [], 0
    for number in range(len(sizes) - 1, 0, -1):
        gathered += sizes[number]
        if gathered >= smallest:
            starts.append(number)
            gathered = 0
    return [*starts, 0]


def _pieces(buffer: Tensor, sizes: Sequence[int], starts: Sequence[int]) -> list[_Piece]:
    """The pieces of ``buffer`` in the order of launch; ``sizes`` are those of the extras, then of the parameters."""
    offsets = [0, *itertools.accumulate(sizes)][1:]
    stops = [len(sizes) - 1, *starts[:-1]]
    found = []
    for first, stop in zip(starts, stops, strict=True):
        begin = offsets[first] if first else 0
        found.append(_Piece(first, stop, buffer[begin : offsets[stop]]))
    return found
