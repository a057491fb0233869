"""The engine: all chunks forward through the stages, flush, all chunks backward in the reverse order.

With one stage and one chunk this is plain graph parallelism. Every stage holds some blocks and, of its part, all rows;
a chunk enters from the stage before, runs through the blocks, and leaves to the stage after. Receives are posted before
they are needed and sends are not waited for, so that transfers run while the next chunk is computed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from halowire.events import EVAL, SETUP
from halowire.kernels import activate, empty
from halowire.schedules.blocks import Kept
from halowire.schedules.border import Border
from halowire.schedules.chunks import Chunks
from halowire.schedules.inputs import Inputs
from halowire.schedules.mesh import Seat
from halowire.schedules.rows import Rows
from halowire.schedules.spread import Spread
from halowire.schedules.stage import Stage
from halowire.schedules.timeline import Timeline
from halowire.wire import BACKWARD, FORWARD

SEGMENT = 4
"""Blocks whose input rows are computed again together, where only aggregates are kept; those of the first are kept."""
Loss = Callable[[int, Tensor], tuple[Tensor, Tensor]]
"""(chunk, its logits) to this chunk's share of the loss and the gradient of the logits."""


@dataclass(frozen=True, eq=False)
class Side:
    """One graph on this worker: its chunks, its features (first stage only), its aggregation and stage borders."""

    chunks: Chunks
    ids: Tensor
    inputs: Inputs | None
    spread: Spread
    border: Border


@dataclass(eq=False)
class Trace:
    """What the forward of one chunk leaves to its backward."""

    kept: list[Kept] = field(default_factory=list)
    head: tuple[Tensor, Tensor | None] | None = None
    last: Tensor | None = None
    grad: Tensor | None = None


class Engine:
    """Trains and evaluates one stage of a model on one part, in step with the other workers of the mesh."""

    def __init__(
        self, seat: Seat, stage: Stage, train: Side, evaluation: Side, loss: Loss, keep_all: bool, timeline: Timeline
    ) -> None:
        """``keep_all``: keep the input rows of every block; else aggregates, and compute the rows again, segment by
        segment."""
        self.seat, self.stage, self.train, self.evaluation = seat, stage, train, evaluation
        self._loss, self._keep_all = loss, keep_all
        self.timeline = timeline
        self._ledger = seat.world.ledger

    def forward_backward(self, seed: int, epoch: int, record: bool = False) -> Tensor:
        """One epoch; this worker's share of the loss. Weight gradients are added to ``parameter.grad``."""
        side, stage = self.train, self.stage
        chunks, order = side.chunks, side.chunks.order(epoch)
        traces: dict[int, Trace] = {}
        total = torch.zeros(())
        if record and self.seat.mesh.workers > 1:
            with self._ledger.account(SETUP):  # so that the lines of all workers begin together
                self.seat.world.barrier(f"epoch {epoch}, start of the timeline")
        self.timeline.begin(record)
        with torch.no_grad():
            places = [chunks.at(chunk) for chunk in order]
            with self._ledger.phase("forward"):
                with self.timeline.span("forward", -1):
                    self._begin(side, epoch)
                with self.timeline.span("transfer", -1):
                    side.border.expect(places, FORWARD, epoch)
                for number, chunk in enumerate(order):
                    rows = self._rows(side, chunk, seed, epoch)
                    traces[chunk] = trace = self._forward(side, rows, number, chunk)
                    if self.seat.last:
                        assert trace.last is not None
                        with self.timeline.span("forward", -1):
                            loss, trace.grad = self._loss(chunk, trace.last)
                        total += loss
                        trace.last = None
            with self._ledger.phase("backward"):
                with self.timeline.span("wait", -1):
                    side.border.turn()
                with self.timeline.span("transfer", -1):
                    side.border.expect(places[::-1], BACKWARD, epoch)
                with self.timeline.span("backward", -1):
                    side.spread.turn()
                for number, chunk in enumerate(reversed(order)):
                    self._backward(side, self._rows(side, chunk, seed, epoch), traces.pop(chunk), number, chunk)
                if stage.entry is not None:
                    assert side.inputs is not None
                    with self.timeline.span("backward", -1):
                        stage.entry.end(side.inputs)
                with self.timeline.span("wait", -1):
                    side.border.settle()
                with self.timeline.span("backward", -1):
                    side.spread.end(epoch)
        return total

    def logits(self) -> Tensor:
        """Logits of the part's rows on the last stage, ``[n, classes]``, exactly; no rows on the others."""
        side = self.evaluation
        with torch.no_grad(), self._ledger.account(EVAL):
            self._begin(side, None)
            whole = slice(0, side.ids.numel())
            side.border.expect([whole], FORWARD, None)
            rows = Rows(whole, side.ids, side.inputs)
            trace = self._forward(side, rows, 0, 0, keep=False)
            side.border.settle()
        if self.seat.last:
            assert trace.last is not None
            return trace.last
        return torch.zeros(0, 0)

    def _begin(self, side: Side, epoch: int | None) -> None:
        if self.stage.entry is not None:
            assert side.inputs is not None
            self.stage.entry.begin(side.inputs)
        for block in self.stage.blocks:
            block.begin()
        side.spread.begin(epoch)

    def _rows(self, side: Side, chunk: int, seed: int, epoch: int) -> Rows:
        at = side.chunks.at(chunk)
        return Rows(at, side.ids[at], side.inputs, seed, epoch, training=True)

    def _forward(self, side: Side, rows: Rows, number: int, chunk: int, keep: bool = True) -> Trace:
        """One chunk through the stage, and on to the next."""
        border, epoch = side.border, rows.epoch if rows.training else None
        with self.timeline.span("wait", chunk):
            border.take(number, FORWARD)
        if not self.seat.first:
            with self.timeline.span("transfer", chunk):
                border.unpack(rows.at, FORWARD, epoch)
        trace = Trace()
        with self.timeline.span("forward", chunk):
            u = self._enter(side, rows)
            for place, block in enumerate(self.stage.blocks):
                a = side.spread.room(place, block, rows)
                kept = block.before(u, rows, a)
                g = side.spread.gather(place, block, a, kept, rows)
                block.mix(kept, g, border.initial_rows(rows.at))
                last = place == len(self.stage.blocks) - 1
                u = border.room(rows.at) if last and not self.seat.last else empty(rows.count, block.out_width)
                block.after(kept, u)
                if keep:
                    trace.kept.append(self._lighten(kept, place))
            if self.stage.head is not None:
                logits, v, stats = self.stage.head.forward(u, rows)
                trace.head = (v, stats)
                trace.kept.append(self._lighten(Kept(u, None, None), len(self.stage.blocks)))
                u = logits
        trace.last = u if self.seat.last else None
        if not self.seat.last:
            with self.timeline.span("transfer", chunk):
                border.send(number, rows.at, FORWARD, epoch)
        return trace

    def _enter(self, side: Side, rows: Rows) -> Tensor:
        """The rows that the first block takes: from the features, or from the stage before."""
        stage, border = self.stage, side.border
        if stage.entry is None:
            return border.arrived(rows.at)
        alone = not stage.blocks and not self.seat.last
        u = border.room(rows.at) if alone else empty(rows.count, stage.entry.width)
        stage.entry.forward(rows, u)
        if stage.initial:
            initial = border.initial_rows(rows.at)
            assert initial is not None
            activate(u, None, None, True, None, out=initial)
        return u

    def _lighten(self, kept: Kept, place: int) -> Kept:
        """Let go of what backward computes again: the rows between the blocks, but those that begin a segment."""
        if not self._keep_all:
            kept.v = None
            if place % SEGMENT:
                kept.u = None
        return kept

    def _refill(self, rows: Rows, trace: Trace, place: int) -> None:
        """Compute the rows of a segment up to those that enter block ``place`` again, from the kept aggregates."""
        first, blocks = place - place % SEGMENT, self.stage.blocks
        for at in range(first, place + 1):
            kept = trace.kept[at]
            if kept.u is None:
                kept.u = empty(rows.count, blocks[at - 1].out_width)
                blocks[at - 1].after(trace.kept[at - 1], kept.u)
            if at < len(blocks) and kept.v is None and (blocks[at].uses_v or blocks[at].multiplies):
                kept.v = empty(*kept.u.shape)
                blocks[at].activate.forward(kept.u, rows, kept.v)

    def _backward(self, side: Side, rows: Rows, trace: Trace, number: int, chunk: int) -> None:
        """One chunk back through the stage, and on to the stage before."""
        border, stage = side.border, self.stage
        with self.timeline.span("wait", chunk):
            border.take(number, BACKWARD)
        if not self.seat.last:
            with self.timeline.span("transfer", chunk):
                border.unpack(rows.at, BACKWARD, rows.epoch)
        with self.timeline.span("backward", chunk):
            grad = trace.grad if self.seat.last else border.grad(rows.at)
            assert grad is not None
            if stage.head is not None:
                assert trace.head is not None
                if not self._keep_all:
                    self._refill(rows, trace, len(stage.blocks))
                u = trace.kept[-1].u
                assert u is not None
                grad = stage.head.backward(grad, u, *trace.head, rows)
            initial_grad = border.initial_grad(rows.at)
            for place in reversed(range(len(stage.blocks))):
                block, kept = stage.blocks[place], trace.kept[place]
                if not self._keep_all:
                    self._refill(rows, trace, place)
                g_grad = side.spread.grad_room(place, block, rows)
                v_grad = block.after_back(kept, grad, g_grad, initial_grad)
                into = None if block.multiplies else v_grad
                a_grad = side.spread.scatter(place, block, g_grad, into, rows)
                grad = block.before_back(kept, a_grad, v_grad, grad, rows)
                if place:
                    trace.kept[place] = Kept(None, None, None)
            if stage.entry is not None:
                self._leave(rows, trace, grad, initial_grad)
            side.spread.done(rows)
        if stage.entry is None:
            with self.timeline.span("transfer", chunk):
                border.arrived(rows.at).copy_(grad)
                border.send(number, rows.at, BACKWARD, rows.epoch)

    def _leave(self, rows: Rows, trace: Trace, grad: Tensor, initial_grad: Tensor | None) -> None:
        """Into the features' weights; the initial rows were ``relu(u_0)``."""
        assert self.stage.entry is not None
        if initial_grad is not None:
            u = trace.kept[0].u
            assert u is not None
            grad.addcmul_(initial_grad, (u > 0).float())
        self.stage.entry.backward(rows, grad)
