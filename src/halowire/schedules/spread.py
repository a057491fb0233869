"""The aggregation of a part: what the engine asks of it, and the exact one over all rows at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from torch import Tensor

from halowire.kernels import Drop, empty
from halowire.layers.propagation import Propagation
from halowire.schedules.blocks import GraphBlock, Kept
from halowire.schedules.rows import Rows
from halowire.schedules.timeline import Timeline
from halowire.wire import Flight


class Spread(Protocol):
    """``g = A a`` and ``a_grad = A^T g_grad`` on the rows in work, for every block of a stage.

    Forward, the rows of a chunk are written to ``room``, then gathered; backward, ``g_grad`` is written to
    ``grad_room``, then scattered. Chunks come in one order forward and in the reverse order backward.
    """

    def begin(self, epoch: int | None) -> None:
        """A forward pass begins; None: evaluation."""

    def turn(self) -> None:
        """Forward is over, backward begins."""

    def room(self, number: int, block: GraphBlock, rows: Rows) -> Tensor:
        """Where ``a`` of these rows belongs, ``[m, width]``."""

    def gather(self, number: int, block: GraphBlock, a: Tensor, kept: Kept, rows: Rows) -> Tensor:
        """``g`` of these rows."""

    def grad_room(self, number: int, block: GraphBlock, rows: Rows) -> Tensor:
        """Where ``g_grad`` of these rows belongs."""

    def scatter(self, number: int, block: GraphBlock, g_grad: Tensor, into: Tensor | None, rows: Rows) -> Tensor:
        """``a_grad`` of these rows, added to ``into`` where that is given."""

    def done(self, rows: Rows) -> None:
        """Backward of these rows is over in all blocks of the stage."""

    def end(self, epoch: int) -> None:
        """The epoch is over."""

    def state(self) -> dict[str, Tensor]:
        """What the next epoch depends on."""

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Go on from :meth:`state`."""


class WholeSpread:
    """All rows of the part at once: exact, with the halo exchange in any code and freshness."""

    def __init__(self, propagation: Propagation, timeline: Timeline) -> None:
        self._p, self._exchange, self._timeline = propagation, propagation.exchange, timeline

    def begin(self, epoch: int | None) -> None:
        """Tell the exchange."""
        self._exchange.begin(epoch)

    def turn(self) -> None:
        """Nothing to do."""

    def room(self, number: int, block: GraphBlock, rows: Rows) -> Tensor:
        """A pooled buffer."""
        return empty(rows.count, block.width)

    def gather(self, number: int, block: GraphBlock, a: Tensor, kept: Kept, rows: Rows) -> Tensor:
        """Boundary rows away, ``inner @ a`` while they fly, then the halo."""
        p = self._p
        flight, drop = self._depart(block, a, kept, rows)
        g = p.inner.matmul(a)
        with self._timeline.span("exchange", 0, block.layer):
            self._exchange.finish(flight, p.halo_head, g[: p.head], drop)
        return g

    def _depart(self, block: GraphBlock, a: Tensor, kept: Kept, rows: Rows) -> tuple[Flight | None, Drop | None]:
        """Delta coding sends rows before dropout, which change slowly; the receiver drops them."""
        if not (rows.training and self._exchange.sends_undropped) or block.multiplies:
            return self._exchange.start(a, block.layer), None
        drop = rows.drop(block.activate.p, block.activate.layer)
        if drop is None:
            return self._exchange.start(a, block.layer, delta=True), None
        assert kept.u is not None
        boundary = kept.u[: self._exchange.num_boundary]
        undropped = empty(*boundary.shape)
        block.activate.forward(boundary, rows, undropped, dropped=False)
        flight = self._exchange.start(undropped, block.layer, delta=True)
        return flight, replace(drop, ids=self._exchange.halo_ids)

    def grad_room(self, number: int, block: GraphBlock, rows: Rows) -> Tensor:
        """A pooled buffer."""
        return empty(rows.count, block.width)

    def scatter(self, number: int, block: GraphBlock, g_grad: Tensor, into: Tensor | None, rows: Rows) -> Tensor:
        """Halo gradients away, ``inner^T @ g_grad`` while they fly, then what returned."""
        p = self._p
        flight = self._exchange.start_back(p.halo_t.matmul(g_grad[: p.head]), block.layer)
        a_grad = p.inner_t.matmul(g_grad, out=into, accumulate=into is not None)
        with self._timeline.span("exchange", 0, block.layer):
            self._exchange.finish_back(flight, a_grad)
        return a_grad

    def done(self, rows: Rows) -> None:
        """Nothing is kept."""

    def end(self, epoch: int) -> None:
        """Nothing is kept."""

    def state(self) -> dict[str, Tensor]:
        """The exchange remembers for itself."""
        return {}

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Nothing is kept."""
