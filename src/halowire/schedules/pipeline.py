"""The pipeline: all chunks go forward through the stages, then all chunks go backward in the reverse order.

Every worker holds some segments of the model, its stage, and all rows of its part; a chunk enters from the stage
before, runs through the segments, and leaves to the stage after. Receives are posted before they are needed and sends
are not waited for, so that transfers run while the next chunk is computed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from halowire.events import EVAL, SETUP
from halowire.layers import Inputs, Kept, Rows, Segment, empty_on
from halowire.schedules.border import Border
from halowire.schedules.chunks import Chunks
from halowire.schedules.mesh import Seat
from halowire.schedules.stage import Stage
from halowire.schedules.timeline import Timeline
from halowire.schedules.whole_sums import Sums
from halowire.wire import BACKWARD, FORWARD

GROUP = 4
"""Number of segments in a group: where only aggregates are kept, the rows of a group's first segment are kept too."""
Loss = Callable[[int, Tensor], tuple[Tensor, Tensor]]
"""A function of a chunk and its logits that gives the chunk's share of the loss and the gradient of the logits."""


@dataclass(frozen=True, eq=False)
class Side:
    """One graph on this worker: its chunks, its features (first stage only), its aggregation and stage borders."""

    chunks: Chunks
    ids: Tensor
    inputs: Inputs | None
    sums: Sums
    border: Border


@dataclass(eq=False)
class Trace:
    """What the forward of one chunk keeps for its backward.

    Attributes:
        kept: what each layer of the stage keeps, in their order, and then the output.
        first: the rows ``u`` of the first segment, ``[m, k]``.
        logits: the logits on the last stage, until the loss is computed; ``grad``: their gradient.
    """

    kept: list[Kept] = field(default_factory=list)
    first: Tensor | None = None
    logits: Tensor | None = None
    grad: Tensor | None = None


class Pipeline:
    """Trains and evaluates one stage of a model on one part, in step with the other workers of the mesh."""

    def __init__(
        self, seat: Seat, stage: Stage, train: Side, evaluation: Side, loss: Loss, keep_all: bool, timeline: Timeline
    ) -> None:
        """``keep_all``: keep the rows of every segment; else keep only aggregates, and compute the rows again."""
        self.seat = seat
        self.stage = stage
        self.train = train
        self.evaluation = evaluation
        self.timeline = timeline
        self._loss = loss
        self._keep_all = keep_all
        self._ledger = seat.world.ledger

    def forward_backward(self, seed: int, epoch: int, record: bool = False) -> Tensor:
        """Run one epoch, which adds to the weight gradients; returns this worker's share of the loss."""
        side = self.train
        order = side.chunks.order(epoch)
        places = [side.chunks.at(chunk) for chunk in order]
        whole = Rows.whole(side.ids, seed, epoch, training=True)
        if record and self.seat.mesh.workers > 1:
            with self._ledger.account(SETUP):  # so that the lines of all workers begin together
                self.seat.world.barrier(f"epoch {epoch}, start of the timeline")
        self.timeline.begin(record)
        with torch.no_grad():
            with self._ledger.phase("forward"):
                total, traces = self._all_forward(side, whole, order, places)
            with self._ledger.phase("backward"):
                self._all_backward(side, whole, order, places, traces)
        return total

    def _all_forward(
        self, side: Side, whole: Rows, order: list[int], places: list[slice]
    ) -> tuple[Tensor, dict[int, Trace]]:
        """Run all chunks forward; returns this worker's share of the loss, and what backward needs."""
        traces: dict[int, Trace] = {}
        total = torch.zeros((), device=whole.device)
        with self.timeline.span("forward", -1):
            self._begin(side, whole)
        with self.timeline.span("transfer", -1):
            side.border.expect(places, FORWARD, whole.epoch)
        for number, chunk in enumerate(order):
            at = places[number]
            traces[chunk] = trace = self._forward(side, whole.range(at.start, at.stop), number, chunk)
            if self.seat.last:
                assert trace.logits is not None
                with self.timeline.span("forward", -1):
                    loss, trace.grad = self._loss(chunk, trace.logits)
                total += loss
                trace.logits = None
        return total, traces

    def _all_backward(
        self, side: Side, whole: Rows, order: list[int], places: list[slice], traces: dict[int, Trace]
    ) -> None:
        """Run all chunks backward, in the reverse order."""
        entry = self.stage.entry
        with self.timeline.span("wait", -1):
            side.border.settle()  # gradients arrive in the memory from which rows were sent forward
        with self.timeline.span("transfer", -1):
            side.border.expect(places[::-1], BACKWARD, whole.epoch)
        with self.timeline.span("backward", -1):
            side.sums.turn()
        collected = None
        if entry is not None and entry.needs_all_rows:
            collected = empty_on(whole.device, whole.count, entry.width)
        for number, chunk in enumerate(reversed(order)):
            at = side.chunks.at(chunk)
            self._backward(side, whole.range(at.start, at.stop), traces.pop(chunk), number, chunk, collected)
        if entry is not None:
            with self.timeline.span("backward", -1):
                entry.end(collected)
        with self.timeline.span("wait", -1):
            side.border.settle()
        with self.timeline.span("backward", -1):
            side.sums.end(whole.epoch)

    def logits(self) -> Tensor:
        """The exact logits ``[n, classes]`` of the part's rows on the last stage; an empty matrix on the others."""
        side = self.evaluation
        rows = Rows.whole(side.ids)
        with torch.no_grad(), self._ledger.account(EVAL):
            self._begin(side, rows)
            side.border.expect([rows.at], FORWARD, None)
            trace = self._forward(side, rows, 0, 0)
            side.border.settle()
        if self.seat.last:
            assert trace.logits is not None
            return trace.logits
        return torch.zeros(0, 0, device=rows.device)

    def _begin(self, side: Side, whole: Rows) -> None:
        side.sums.begin(whole.epoch if whole.training else None)
        self.stage.begin(side.inputs, whole)

    def _forward(self, side: Side, rows: Rows, number: int, chunk: int) -> Trace:
        """Run one chunk through the stage, and send it to the next one."""
        border, epoch = side.border, rows.epoch if rows.training else None
        with self.timeline.span("wait", chunk):
            border.take(number, FORWARD)
        if not self.seat.first:
            with self.timeline.span("transfer", chunk):
                border.unpack(rows.at, FORWARD, epoch)
        trace = Trace()
        with self.timeline.span("forward", chunk):
            kept: Kept | None = None
            for place, segment in enumerate(self.stage.segments):
                kept = self._segment(side, rows, segment, place, kept, trace)
        if not self.seat.last:
            with self.timeline.span("transfer", chunk):
                border.send(number, rows.at, FORWARD, epoch)
        return trace

    def _segment(
        self, side: Side, rows: Rows, segment: Segment, place: int, before: Kept | None, trace: Trace
    ) -> Kept | None:
        """Run one chunk through a segment and the aggregation after it; returns what the next segment finishes."""
        u = self._room(side, rows, segment)
        segment.finish(rows, before, side.border.initial_rows(rows.at), u)
        if rows.training and before is not None:
            self._lighten(before, place - 1)
        if place == 0:
            trace.first = u
        second = segment.second
        if second is None:
            trace.logits = u if self.seat.last else None
            return None
        following = segment.following
        if following is None:
            a = torch.empty(rows.count, second.width, device=rows.device)
        else:
            a = side.sums.room(place, following, rows)
        kept = second.keep(u, a[: rows.count])
        segment.prepare(rows, kept, a[: rows.count])
        if rows.training:
            trace.kept.append(kept)
        if following is None:
            trace.logits = a
            self._lighten_output(kept, place)
        else:
            kept.g = side.sums.gather(place, following, a, kept, rows)
        return kept

    def _room(self, side: Side, rows: Rows, segment: Segment) -> Tensor:
        """The matrix for the rows of a segment: where they arrived, from where they leave, or a buffer."""
        if segment.first is None:
            return side.border.arrived(rows.at)
        if segment.second is None and not self.seat.last:
            return side.border.room(rows.at)
        return empty_on(rows.device, rows.count, segment.width)

    def _lighten(self, kept: Kept, place: int) -> None:
        """Drop what backward computes again: the rows of all segments except those that begin a group."""
        if not self._keep_all:
            kept.v = None
            if place % GROUP:
                kept.u = None

    def _lighten_output(self, kept: Kept, place: int) -> None:
        """Drop the rows before the output; its activated rows stay, as they need little memory beside all layers."""
        if not self._keep_all and place % GROUP:
            kept.u = None

    def _refill(self, rows: Rows, trace: Trace, place: int) -> None:
        """Compute the rows of a group up to segment ``place`` again, from the kept aggregates."""
        for at in range(place - place % GROUP, place + 1):
            kept, layer = trace.kept[at], self.stage.segments[at].following
            if kept.u is None:
                before = self.stage.layers[at - 1]
                kept.u = empty_on(rows.device, rows.count, before.out_width)
                before.finish_own(trace.kept[at - 1], kept.u)
                before.finish(trace.kept[at - 1], kept.u)
            if kept.v is None and layer is not None and (layer.needs_v or layer.multiplies):
                kept.v = empty_on(rows.device, *kept.u.shape)
                layer.activation.forward(kept.u, rows, kept.v, None)

    def _backward(
        self, side: Side, rows: Rows, trace: Trace, number: int, chunk: int, collected: Tensor | None
    ) -> None:
        """Run one chunk backward through the stage, and send its gradient to the stage before."""
        border = side.border
        with self.timeline.span("wait", chunk):
            border.take(number, BACKWARD)
        if not self.seat.last:
            with self.timeline.span("transfer", chunk):
                border.unpack(rows.at, BACKWARD, rows.epoch)
        with self.timeline.span("backward", chunk):
            grad = trace.grad if self.seat.last else border.grad(rows.at)
            assert grad is not None
            grad = self._segments_back(side, rows, trace, grad)
            if self.stage.entry is not None:
                assert trace.first is not None
                self.stage.entry.backward(rows, trace.first, grad, border.initial_grad(rows.at))
                if collected is not None:
                    collected[rows.at] = grad
            side.sums.done(rows)
        if self.stage.entry is None:
            with self.timeline.span("transfer", chunk):
                border.arrived(rows.at).copy_(grad)
                border.send(number, rows.at, BACKWARD, rows.epoch)

    def _segments_back(self, side: Side, rows: Rows, trace: Trace, grad: Tensor) -> Tensor:
        """The gradient of the rows that entered the stage, from that of the rows that left it."""
        if self.stage.output is not None:
            place = len(self.stage.layers)
            if not self._keep_all:
                self._refill(rows, trace, place)
            grad = self._prepare_back(rows, trace, place, grad, None, None)
        for place in reversed(range(len(self.stage.layers))):
            if not self._keep_all:
                self._refill(rows, trace, place)
            layer, kept = self.stage.layers[place], trace.kept[place]
            g_grad = side.sums.grad_room(place, layer, rows)
            layer.finish_back(grad, g_grad)
            layer.finish_weights(kept, grad, g_grad, side.border.initial_grad(rows.at))
            v_grad = layer.direct_back(grad)
            a_grad = side.sums.scatter(place, layer, g_grad, None if layer.multiplies else v_grad, rows)
            grad = self._prepare_back(rows, trace, place, a_grad, v_grad if layer.multiplies else None, grad)
            trace.kept[place] = Kept()
        return grad

    def _prepare_back(
        self, rows: Rows, trace: Trace, place: int, a_grad: Tensor, v_grad: Tensor | None, out_grad: Tensor | None
    ) -> Tensor:
        segment, kept = self.stage.segments[place], trace.kept[place]
        assert segment.second is not None
        u_grad = segment.second.input_grad(a_grad, v_grad)
        segment.prepare_back(rows, kept, a_grad, u_grad, out_grad, v_grad is not None)
        segment.second.prepare_weights(kept, a_grad)
        return u_grad
