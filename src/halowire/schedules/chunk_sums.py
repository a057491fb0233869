"""Aggregation chunk by chunk: current and historical rows forward, weighted gradients backward.

Forward, ``g[c] = A[c, :] [B; B_halo]``: ``B`` holds this epoch's rows of the chunks processed so far, the chunk in work
included, and historical rows of the other chunks. Backward, in the reverse order,
``a_grad[c] = A^T[c, :] [G; G_halo]``: ``G`` holds the gradients of the aggregates of the chunks that backward has
reached. There are four rules for ``G``:

- ``double``: ``G`` is zero at first; when a chunk is done, its rows are multiplied by 2. Edges inside a chunk (and
  between chunks of different parts in work in the same step) weigh 1, edges that read current rows of other chunks 2,
  edges that read historical rows 0: in the mean over random orders every edge weighs 1. A path through m edges between
  m + 1 chunks weighs ``2^m / (m + 1)!`` in the mean.
- ``position``: the factor depends on the chunk's place in backward; paths are less biased, but not unbiased.
- ``unbiased``: the factor is larger for the next chunk and 1 for all later ones; paths weigh 1 in the mean, with more
  noise. See :mod:`halowire.schedules.hop_weight` for both.
- ``stale``: last epoch's gradients are used where this epoch's do not exist yet; there is no factor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from halowire.kernels import empty
from halowire.layers import Kept, Layer, RowEdges, Rows, Sum
from halowire.schedules.chunks import Chunks
from halowire.schedules.hop_weight import STALE, hop_weight
from halowire.schedules.timeline import Timeline
from halowire.wire import BACKWARD, FORWARD, Arrival, ChunkExchange


class History:
    """The rows that chunks aggregate: a matrix ``now`` ``[rows, width]`` of all rows, for each layer of the stage.

    Every chunk reads the whole matrix. At the start of an epoch it holds the snapshot, taken at the end of the last
    epoch ``t`` with ``(t + 1) mod period == 0`` (zeros before the first), and this epoch's rows overwrite chunk after
    chunk. With a period of 1 the snapshot is the matrix at the end of the epoch before. Where
    ``due_next`` is set, a snapshot is taken at the end of the next epoch, whatever its number.
    """

    def __init__(self, rows: int, widths: Sequence[int], period: int, device: torch.device) -> None:
        self._period = period
        self.now = [zeros(rows, width, device) for width in widths]
        self._then = [zeros(rows, width, device) for width in widths] if period > 1 else []
        self.due_next = False

    def begin(self) -> None:
        """Begin an epoch: go back to the snapshot."""
        for now, then in zip(self.now, self._then, strict=False):
            now.copy_(then)

    def end(self, epoch: int) -> None:
        """Take a snapshot, if one is due in ``epoch``."""
        if self.due_next or (epoch + 1) % self._period == 0:
            self.due_next = False
            for now, then in zip(self.now, self._then, strict=False):
                then.copy_(now)

    @property
    def matrices(self) -> list[Tensor]:
        """The matrices on which the next epoch depends."""
        return self._then if self._period > 1 else self.now


def zeros(rows: int, width: int, device: torch.device) -> Tensor:
    """float32 zeros on ``device``; on the CPU rows begin on cache lines."""
    return empty(rows, width, device=device).zero_()


@dataclass(frozen=True, eq=False)
class Way:
    """The sums of one direction: forward over the edges, or backward over the transposed ones.

    ``edges[c]`` are the edges into chunk ``c``. They read ``own[l]`` ``[n, width]``, the rows of this part in the
    ``l``-th layer of the stage, and ``others[l]``, the rows of the other parts, where there are any.
    """

    direction: str
    edges: list[RowEdges]
    own: list[Tensor]
    others: list[Tensor]


class ChunkSums:
    """The sums of all layers of a stage, chunk by chunk; ``exchange`` is None where there is one part."""

    def __init__(
        self,
        edges: Sum,
        exchange: ChunkExchange | None,
        chunks: Chunks,
        widths: Sequence[int],
        period: int,
        rule: str,
        timeline: Timeline,
    ) -> None:
        self._exchange = exchange
        self._chunks = chunks
        self._rule = rule
        self._timeline = timeline
        n, device = edges.num_rows, edges.exchange.device
        self._own = History(n, widths, period, device)
        self._grads = [zeros(n, width, device) for width in widths]
        self._others = History(0, [], period, device)
        self._other_grads: list[Tensor] = []
        if exchange is not None:
            self._others = History(exchange.routes.forward.size, widths, period, device)
            self._other_grads = [zeros(exchange.routes.backward.size, width, device) for width in widths]
        # With one part there are no edges between parts, forward or backward.
        transposed = edges.halo if exchange is None else exchange.routes.transposed
        places = [chunks.at(chunk) for chunk in range(chunks.count)]
        into = [edges.into(at) for at in places]
        back = [RowEdges.cut(edges.inner_t, transposed, at) for at in places]
        self._forward = Way(FORWARD, into, self._own.now, self._others.now)
        self._backward = Way(BACKWARD, back, self._grads, self._other_grads)
        self._order: list[int] = []
        self._step: dict[int, int] = {}
        self._orders: list[list[int]] = []
        self._epoch = 0

    def begin(self, epoch: int | None) -> None:
        """Begin an epoch: restore the historical rows, and draw the orders of all parts."""
        assert epoch is not None, "evaluation takes all rows at once"
        self._epoch = epoch
        self._own.begin()
        self._others.begin()
        self._order = self._chunks.order(epoch)
        self._step = {self._chunks.at(chunk).start: step for step, chunk in enumerate(self._order)}
        parts = 1 if self._exchange is None else len(self._exchange.routes.forward.send)
        self._orders = [self._chunks.order(epoch, part) for part in range(parts)]

    def turn(self) -> None:
        """Set all gradients to zero, unless last epoch's are to be used."""
        if self._rule != STALE:
            for matrix in (*self._grads, *self._other_grads):
                matrix.zero_()

    def room(self, place: int, layer: Layer, rows: Rows) -> Tensor:
        """The chunk's rows of ``B``."""
        return self._own.now[place][rows.at]

    def gather(self, place: int, layer: Layer, a: Tensor, kept: Kept, rows: Rows) -> Tensor:
        """Compute ``g`` of the chunk."""
        return self._sum(self._forward, place, layer, rows, None)

    def grad_room(self, place: int, layer: Layer, rows: Rows) -> Tensor:
        """The chunk's rows of ``G``."""
        return self._grads[place][rows.at]

    def scatter(self, place: int, layer: Layer, g_grad: Tensor, into: Tensor | None, rows: Rows) -> Tensor:
        """Compute ``a_grad`` of the chunk."""
        return self._sum(self._backward, place, layer, rows, into)

    def _sum(self, way: Way, place: int, layer: Layer, rows: Rows, into: Tensor | None) -> Tensor:
        """The sums of the chunk; the part's own rows are summed while the peers' rows of this step travel."""
        chunk, own, exchange = self._chunk(rows), way.own[place], self._exchange
        edges = way.edges[chunk]
        if exchange is None:
            return edges.own(own, into, into is not None)
        swap = exchange.start(own, self._in_work(rows), self._epoch, layer.number, way.direction)
        out = edges.own(own, into, into is not None)
        with self._timeline.span("exchange", chunk, layer.number):
            exchange.finish(swap, way.others[place])
        edges.add_halo(Arrival.of(way.others[place]), out)
        return out

    def done(self, rows: Rows) -> None:
        """Scale ``G`` by the gradient rule, now that the next chunks will read the gradients of the chunk ``rows``."""
        count, step = self._chunks.count, self._step[rows.at.start]
        place = count - 1 - step
        if place == count - 1:
            return
        self._scale(place, hop_weight(self._rule, count, place, place + 1))
        for earlier in range(place):
            before = hop_weight(self._rule, count, earlier, place)
            self._scale(earlier, hop_weight(self._rule, count, earlier, place + 1) / before)

    def _scale(self, place: int, factor: float) -> None:
        """Multiply the gradients of the chunks that are at ``place`` in backward's order, in all parts."""
        if factor == 1:
            return
        step = self._chunks.count - 1 - place
        at = self._chunks.at(self._order[step])
        for matrix in self._grads:
            matrix[at].mul_(factor)
        if self._exchange is not None:
            places = self._exchange.routes.backward.places(self._parts_in_work(step))
            for matrix in self._other_grads:
                matrix[places] = matrix[places] * factor

    def end(self, epoch: int) -> None:
        """Take a snapshot, if one is due in ``epoch``."""
        self._own.end(epoch)
        self._others.end(epoch)

    def forget(self) -> None:
        """Forget the historical rows and gradients, as at the start of a run; the next epoch leaves new ones."""
        for matrix in self._remembered().values():
            matrix.zero_()
        self._own.due_next = self._others.due_next = True

    def state(self) -> dict[str, Tensor]:
        """The historical rows and, where the rule uses last epoch's gradients, the gradients."""
        return {name: matrix.contiguous() for name, matrix in self._remembered().items()}

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Go on from ``state``, which :meth:`state` gave."""
        for name, matrix in self._remembered().items():
            matrix.copy_(state[name])
        self._own.due_next = self._others.due_next = False

    def _remembered(self) -> dict[str, Tensor]:
        groups = {"history.own": self._own.matrices, "history.halo": self._others.matrices}
        if self._rule == STALE:
            groups |= {"stale.own": self._grads, "stale.halo": self._other_grads}
        return {f"{name}.{number}": matrix for name, group in groups.items() for number, matrix in enumerate(group)}

    def _chunk(self, rows: Rows) -> int:
        return self._chunks.bounds.index(rows.at.start)

    def _in_work(self, rows: Rows) -> list[int]:
        return self._parts_in_work(self._step[rows.at.start])

    def _parts_in_work(self, step: int) -> list[int]:
        return [order[step] for order in self._orders]
