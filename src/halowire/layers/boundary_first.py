"""The order of a block: boundary rows first, so that the wire works while the interior is computed.

Owned rows are cut into the head, which has to do with other workers, and the tail, which has not. Forward of layer l:

    head of l (waits for the rows of l), whose rows leave for l + 1 in pieces as they are computed  ->  tail of l

and the tail, together with what the head of l + 1 needs from this worker, hides the flight of l + 1. A block that has
nothing to launch takes the tail first, to hide the flight of l. Backward of layer l:

    tail of l  ->  add the returned gradients of l + 1  ->  head of l, halo gradients of l leave  ->  the rest of l

so that the halo gradients of l fly while the rest of l and the tail of l - 1 are computed. Nothing is approximated.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from halowire.layers.activation import Activation
from halowire.layers.dense import empty_rows
from halowire.layers.departing import Departing
from halowire.layers.departure import Following
from halowire.layers.layer_map import LayerMap
from halowire.layers.step import Step


def boundary_first(
    layer_map: LayerMap,
    x: Tensor | None,
    weights: tuple[Tensor | None, ...],
    width: int,
    activation: Activation | None,
    following: Following | None,
    step: Step,
    layer: int,
) -> Tensor:
    """``h = activation(layer_map(x))``, ``[n, width]``.

    ``weights`` are those whose gradients ``layer_map.back`` gives after that of ``x``, the matrix ``W`` first.
    ``following`` is the layer after this one, whose exchange is launched here; None: there is none, or it launches its
    own. If that layer sends ``h W^T``, this block computes it for the boundary, and so has a part in the gradient of
    that ``W``.
    """
    norm = (None, None) if activation is None else (activation.gamma, activation.beta)
    ahead = following.weight if following is not None and following.multiplies else None
    block = _Block(layer_map, width, activation, following, step, layer)
    return _BoundaryFirst.apply(block, x, *weights, *norm, ahead)  # type: ignore[no-any-return, no-untyped-call]


class _BoundaryFirst(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, block: _Block, x: Tensor | None, weight: Tensor, *rest: Tensor | None) -> Tensor:
        ctx.block = block
        return block.forward(weight)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        # The block is let go of here, so that its buffers serve the blocks before it.
        block, ctx.block = ctx.block, None
        if block is None:
            raise RuntimeError("backward ran a second time through a pass; run the model forward again first")
        return None, *block.backward(grad, ctx.needs_input_grad[1])


@dataclass(eq=False)
class _Block:
    """One pass of one block, and what its forward leaves to its backward."""

    layer_map: LayerMap
    width: int
    activation: Activation | None
    following: Following | None
    step: Step
    layer: int
    out: Tensor | None = None
    stats: dict[int, Tensor | None] = field(default_factory=dict)

    def forward(self, weight: Tensor) -> Tensor:
        """See the order above."""
        layer_map, head, tail = self.layer_map, *self._parts()
        out = empty_rows(weight, tail.stop, self.width)
        h = out if self.activation is None else empty_rows(weight, *out.shape)
        layer_map.open()
        if self.following is None:
            layer_map.tail(out[tail])
            self._activate(out, h, tail)
        layer_map.arrive(out[head])
        if self.following is None:
            layer_map.head(out[head], head)
            self._activate(out, h, head)
        else:
            self._launch_head(out, h, self.following)
            layer_map.tail(out[tail])
            self._activate(out, h, tail)
        self.out = out if self.activation is not None else None
        return h

    def backward(self, grad: Tensor, needs_x: bool) -> tuple[Tensor | None, ...]:
        """See the order above; gradients of x, the weights, gamma, beta and the next layer's W."""
        layer_map, head, tail = self.layer_map, *self._parts()
        returning = self.step.returning.pop(self.layer + 1, None)
        # A gradient that is still incomplete was made by the next block for this one alone: it may be overwritten.
        x_grad = grad if returning is not None or self.activation is None else empty_rows(grad, *grad.shape)
        norm_grads = [self._activate_back(grad, x_grad, tail)]
        layer_map.tail_back(x_grad[tail])
        late = None if returning is None else returning.land(self.step.spread.exchange, grad)
        norm_grads.append(self._activate_back(grad, x_grad, head))
        self.out = None
        gradients = layer_map.back(x_grad, needs_x)
        return *gradients, *(_sum(parts) for parts in zip(*norm_grads, strict=True)), late

    def _parts(self) -> tuple[slice, slice]:
        spread = self.step.spread
        return slice(0, spread.head), slice(spread.head, spread.inner.num_rows)

    def _launch_head(self, out: Tensor, h: Tensor, following: Following) -> None:
        """The head's rows, piece by piece, each away before the next; then those that nobody waits for."""
        exchange, head, layer = self.step.spread.exchange, self.step.spread.head, self.layer + 1
        departing = Departing(out, h, self.activation, following, self.step, layer)
        start = 0
        for stop in exchange.cuts:
            self._head_rows(out, h, slice(start, stop))
            departing.add(stop)
            start = stop
        self.step.departed[layer] = departing.departure()
        self._head_rows(out, h, slice(start, head))
        self._join_stats(head)

    def _head_rows(self, out: Tensor, h: Tensor, rows: slice) -> None:
        if rows.stop > rows.start:
            self.layer_map.head(out[: self.step.spread.head], rows)
            self._activate(out, h, rows)

    def _join_stats(self, head: int) -> None:
        """Backward takes the head as one."""
        parts = [self.stats.pop(start) for start in sorted(self.stats) if start < head]
        found = [part for part in parts if part is not None]
        if parts:
            self.stats[0] = torch.cat(found) if found else None

    def _activate(self, out: Tensor, h: Tensor, rows: slice) -> None:
        if self.activation is not None and rows.stop > rows.start:
            self.stats[rows.start] = self.activation.forward(out, h, rows)

    def _activate_back(self, grad: Tensor, x_grad: Tensor, rows: slice) -> tuple[Tensor | None, Tensor | None]:
        if self.activation is None or rows.stop == rows.start:
            return None, None
        assert self.out is not None
        return self.activation.backward(grad, self.out, self.stats[rows.start], x_grad, rows)


def _sum(parts: tuple[Tensor | None, ...]) -> Tensor | None:
    found = [part for part in parts if part is not None]
    return torch.stack(found).sum(0) if len(found) > 1 else found[0] if found else None
