"""The order of graph parallelism: boundary rows first, so that they travel while the interior is computed.

The rows of a part are its boundary, which sends rows to or needs rows of other workers, and its interior, which does
neither. Forward, the segment between layers l and l + 1 runs over

    the boundary (waits for the halo rows of l), whose rows leave for l + 1 in pieces  ->  the interior

While the rows of l + 1 travel, this worker computes the interior and sums its own rows for the boundary of l + 1. The
last segment sends nothing, so it runs over the interior first, while the halo rows that it waits for travel. Backward,
the segment runs over

    the interior  ->  the boundary, when the gradients of l + 1 have returned  ->  halo gradients of l leave

While these travel, the weight gradients, the own sums of l and the interior of the segment before are computed. Nothing
is approximated. Where the first hidden rows of the halo are computed here (:mod:`halowire.schedules.halo_copies`), the
first segment sends nothing, and no gradient of its rows returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from torch import Tensor, nn

from halowire.layers import Aggregation, Entry, Gathering, Incoming, Inputs, Kept, Rows, Segment, empty_on, empty_rows
from halowire.schedules.departure import Departure
from halowire.schedules.halo_copies import HaloCopies
from halowire.schedules.stage import Stage
from halowire.wire import FORWARD, Message

Complete = Callable[[nn.Parameter], None]
"""A function that is called with every parameter whose gradient is complete."""


@dataclass(frozen=True, eq=False)
class Part:
    """A part of a graph, ready for training: the ids of its rows, its features, its edges.

    ``copies`` computes the first hidden rows of its halo, where these do not travel.
    """

    ids: Tensor
    inputs: Inputs | None
    aggregation: Aggregation
    copies: HaloCopies | None = None


@dataclass(eq=False)
class Between:
    """What one segment of a pass keeps for backward: its rows ``u``, and ``a`` and ``kept`` of the layer after it.

    ``copied`` is what the segment keeps of the halo rows, where it ran over copies of them.
    """

    u: Tensor
    a: Tensor | None = None
    kept: Kept | None = None
    gathering: Gathering | None = None
    copied: Kept | None = None


@dataclass(eq=False)
class Passed:
    """What a forward pass over a part keeps for its backward."""

    rows: Rows
    initial: Tensor | None
    segments: list[Between] = field(default_factory=list)


@dataclass(eq=False)
class _Returning:
    """Gradients on their way back through the layers: of the rows ``a`` that a layer sent, of ``v``, of its output.

    ``message`` carries the gradients that other workers return for the boundary's rows; without a message ``a_grad`` is
    complete. ``halo_grad`` is the gradient of the rows ``a`` of halo copies.
    """

    a_grad: Tensor | None
    v_grad: Tensor | None = None
    out_grad: Tensor | None = None
    message: Message | None = None
    halo_grad: Tensor | None = None


class BoundaryFirst:
    """Runs all segments of a model over a part."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def forward(self, part: Part, rows: Rows, entering: Tensor | None = None) -> tuple[Tensor, Passed]:
        """The logits ``[n, classes]`` of all ``rows`` of ``part``, and what backward needs.

        ``entering`` ``[n, k]`` are the rows that enter a stage without an entry.
        """
        stage = self._stage
        part.aggregation.exchange.begin(rows.epoch if rows.training else None)
        stage.begin(part.inputs, rows)
        initial = empty_on(rows.device, rows.count, stage.width) if stage.initial else None
        if initial is not None and stage.entry is None:
            initial.zero_()
        passed = Passed(rows, initial)
        incoming: Incoming | None = None
        for segment in stage.segments:
            before = passed.segments[-1] if passed.segments else None
            run = _ForwardSegment(segment, part, rows, before, incoming, initial)
            if before is None and entering is not None:
                run.between.u.copy_(entering)
            if before is None and part.copies is not None and segment.following is not None:
                incoming = run.with_copies(part.copies)
            elif segment.following is not None:
                travels = part.aggregation.exchange.sends(FORWARD)
                incoming = run.boundary_first() if travels else run.alone()
            else:
                run.interior_first()
            passed.segments.append(run.between)
            if before is not None:
                before.a = None  # backward does not need it
            if not rows.training:
                passed.segments = passed.segments[-1:]
        last = passed.segments[-1]
        return last.u if last.a is None else last.a, passed

    def backward(self, part: Part, passed: Passed, grad: Tensor, complete: Complete) -> None:
        """Add to all weight gradients, from ``grad``, the gradient of the logits; ``passed`` is emptied."""
        initial_grad = None if passed.initial is None else empty_rows(grad, *passed.initial.shape).zero_()
        has_output = self._stage.output is not None
        coming = _Returning(grad if has_output else None, out_grad=None if has_output else grad)
        for segment in reversed(self._stage.segments):
            between = passed.segments.pop()
            before = passed.segments[-1] if passed.segments else None
            run = _BackwardSegment(segment, part, passed.rows, before, between, initial_grad)
            coming = run.interior_first(coming, complete)


class _ForwardSegment:
    """One segment in one forward pass."""

    def __init__(
        self,
        segment: Segment,
        part: Part,
        rows: Rows,
        before: Between | None,
        incoming: Incoming | None,
        initial: Tensor | None,
    ) -> None:
        self._segment = segment
        self._rows = rows
        self._aggregation = part.aggregation
        self._incoming = incoming
        self._initial = initial
        self._gathering = None if before is None else before.gathering
        self._kept = None if before is None else before.kept
        self._sent = rows.part_ids if before is None or before.a is None else before.a
        if self._kept is not None and self._gathering is not None:
            self._kept.g = self._gathering.g
        self.between = self._make()

    def _make(self) -> Between:
        """Memory for the rows of the segment, and for the rows that the layer after it sends."""
        count, device, second = self._rows.count, self._rows.device, self._segment.second
        u = empty_on(device, count, self._segment.width)
        if second is None:
            return Between(u)
        following = self._segment.following
        held = count if following is None else self._aggregation.rows_held(following)
        a = empty_on(device, held, second.width)
        return Between(u, a, second.keep(u, a[:count]))

    def boundary_first(self) -> Incoming:
        """Run over the boundary, whose rows leave in pieces, then over the interior; returns what fills the halo."""
        layer, between, exchange = self._segment.following, self.between, self._aggregation.exchange
        assert layer is not None and between.a is not None and between.kept is not None
        self._arrive()
        departure = Departure(layer, between.kept, between.a[: self._rows.count], self._rows, exchange)
        start = 0
        for stop in exchange.cuts:
            self._boundary(start, stop)
            departure.add(stop)
            start = stop
        incoming = departure.close()
        self._boundary(start, self._aggregation.boundary)
        self._interior()
        between.gathering = self._aggregation.gather(layer, between.a, self._rows.training)
        return incoming

    def with_copies(self, copies: HaloCopies) -> Incoming:
        """Run over all rows, and over copies of the halo rows: nothing travels."""
        layer, between = self._segment.following, self.between
        assert layer is not None and between.a is not None
        self._run(0, self._rows.count, own=True)
        between.gathering = copies.aggregation.gather(layer, between.a, self._rows.training)
        rows, between.copied = copies.forward(self._segment, self._rows)
        return Incoming(rows=rows)

    def alone(self) -> Incoming:
        """Run over all rows; nothing travels, and the sums after it go without halo rows."""
        layer, between = self._segment.following, self.between
        assert layer is not None and between.a is not None
        self.interior_first()
        between.gathering = self._aggregation.gather(layer, between.a, self._rows.training)
        return Incoming()

    def interior_first(self) -> None:
        """Run over the interior while the halo rows travel, then over the boundary."""
        self._interior()
        self._arrive()
        self._boundary(0, self._aggregation.boundary)

    def _arrive(self) -> None:
        """Compute what the boundary needs from this worker, then wait for the halo rows."""
        layer, gathering = self._segment.layer, self._gathering
        if layer is None or gathering is None:
            return
        assert self._kept is not None and self._incoming is not None
        boundary = slice(0, self._aggregation.boundary)
        gathering.own(self._sent)
        layer.finish_own(self._kept.part(boundary), self.between.u[boundary])
        gathering.wait(self._incoming)

    def _boundary(self, start: int, stop: int) -> None:
        if stop > start:
            if self._gathering is not None:
                self._gathering.complete(slice(start, stop))
            self._run(start, stop, own=False)

    def _interior(self) -> None:
        start, stop = self._aggregation.boundary, self._rows.count
        if stop > start:
            if self._gathering is not None:
                self._gathering.interior(self._sent)
            self._run(start, stop, own=True)

    def _run(self, start: int, stop: int, own: bool) -> None:
        at, between = slice(start, stop), self.between
        rows = self._rows.range(start, stop)
        self._segment.finish(rows, _part(self._kept, at), _slice(self._initial, at), between.u[at], own)
        self._segment.prepare(rows, _part(between.kept, at), _slice(between.a, at))


class _BackwardSegment:
    """One segment in one backward pass."""

    def __init__(
        self,
        segment: Segment,
        part: Part,
        rows: Rows,
        before: Between | None,
        between: Between,
        initial_grad: Tensor | None,
    ) -> None:
        self._segment = segment
        self._part = part
        self._aggregation = part.aggregation
        self._rows = rows
        self._before = before
        self._between = between
        self._initial_grad = initial_grad

    def interior_first(self, coming: _Returning, complete: Complete) -> _Returning:
        """Run over the interior, then, when its gradients have arrived, over the boundary.

        Returns the gradients for the segment before.
        """
        segment, layer, count = self._segment, self._segment.layer, self._rows.count
        u_grad = self._input_grad(coming)
        g_grad = None if layer is None else empty_on(self._rows.device, count, layer.sum_width)
        if coming.message is None and layer is not None:
            self._run(0, count, coming, u_grad, g_grad)
        else:  # an entry is always cut there: the features of its boundary may be those that arrived in this epoch
            self._run(self._aggregation.boundary, count, coming, u_grad, g_grad)
            if coming.message is not None:
                assert coming.a_grad is not None
                self._aggregation.exchange.finish_back(coming.message, coming.a_grad)
            self._run(0, self._aggregation.boundary, coming, u_grad, g_grad)
        if coming.halo_grad is not None:
            assert self._part.copies is not None and self._between.copied is not None
            self._part.copies.backward(segment, self._rows, self._between.copied, coming.halo_grad)
        returning = _Returning(None)
        if layer is not None:
            assert g_grad is not None
            returning = self._halo_before(g_grad)
        self._weights_after(coming, complete)
        if isinstance(segment.first, Entry):
            segment.first.end(u_grad)
            _tell(complete, segment.first.parameters)
        if layer is not None:
            self._layer_before(u_grad, g_grad, returning, complete)
        return returning

    def _halo_before(self, g_grad: Tensor) -> _Returning:
        """Launch the gradients of the halo rows that the layer summed; where these are copies, keep the gradients."""
        assert self._before is not None and self._before.gathering is not None
        if self._before.copied is not None:
            return _Returning(None, halo_grad=self._before.gathering.halo_back(g_grad))
        return _Returning(None, message=self._before.gathering.send_back(g_grad))

    def _input_grad(self, coming: _Returning) -> Tensor:
        """The matrix in which the gradient of the segment's rows ``u`` is computed."""
        if self._segment.second is None:
            assert coming.out_grad is not None
            return coming.out_grad
        assert coming.a_grad is not None
        return self._segment.second.input_grad(coming.a_grad, coming.v_grad)

    def _run(self, start: int, stop: int, coming: _Returning, u_grad: Tensor, g_grad: Tensor | None) -> None:
        if stop == start:
            return
        at, segment, between = slice(start, stop), self._segment, self._between
        rows = self._rows.range(start, stop)
        a_grad, out_grad = _slice(coming.a_grad, at), _slice(coming.out_grad, at)
        adds = coming.v_grad is not None
        segment.prepare_back(rows, _part(between.kept, at), a_grad, u_grad[at], out_grad, adds)
        if segment.layer is not None:
            assert g_grad is not None
            segment.layer.finish_back(u_grad[at], g_grad[at])
        elif isinstance(segment.first, Entry):
            segment.first.backward(rows, between.u[at], u_grad[at], _slice(self._initial_grad, at))

    def _weights_after(self, coming: _Returning, complete: Complete) -> None:
        """Add to the weight gradients of the layer (or output) that this segment prepares."""
        second, kept = self._segment.second, self._between.kept
        if second is not None:
            assert kept is not None and coming.a_grad is not None
            second.prepare_weights(kept, coming.a_grad)
            _tell(complete, second.prepare_parameters)

    def _layer_before(self, u_grad: Tensor, g_grad: Tensor | None, returning: _Returning, complete: Complete) -> None:
        """Add to the weight gradients of the layer that this segment finishes; note the gradients of its rows."""
        layer, before = self._segment.layer, self._before
        assert layer is not None and g_grad is not None
        assert before is not None and before.kept is not None and before.gathering is not None
        layer.finish_weights(before.kept, u_grad, g_grad, self._initial_grad)
        v_grad = layer.direct_back(u_grad)
        returning.a_grad = before.gathering.own_back(g_grad, None if layer.multiplies else v_grad)
        returning.v_grad = v_grad if layer.multiplies else None
        returning.out_grad = u_grad
        before.gathering = None
        _tell(complete, layer.finish_parameters)


def _tell(complete: Complete, parameters: Iterable[nn.Parameter]) -> None:
    for parameter in parameters:
        complete(parameter)


def _part(kept: Kept | None, at: slice) -> Kept | None:
    return None if kept is None else kept.part(at)


def _slice(matrix: Tensor | None, at: slice) -> Tensor | None:
    return None if matrix is None else matrix[at]
