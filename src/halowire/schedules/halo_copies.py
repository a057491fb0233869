"""Copies of the halo: their owners' first hidden rows, computed here from features, so that these rows never travel.

Raw features never change, so neither does a halo node's first aggregate ``m_j = (A x)_j``. Its owner sends it once, and
the receiver then computes in every epoch what the owner computes, with the same weights and the owner's dropout:

    u_j = m_j W^T + x_j W_self^T + b,    a_j = f(u_j)  or  f(u_j) W_1^T

Backward, the gradient of ``a_j`` that this worker's edges make goes through the same activation here and is added to
this worker's weight gradients. Backward is linear in that gradient, so the sum of the weight gradients over all workers
is the exact one.
"""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from halowire.layers import Aggregation, Entry, Inputs, Kept, Layer, Rows, Segment, empty_on


class HaloCopies:
    """Runs a model's first segment over the halo rows of a part."""

    def __init__(self, entry: Entry, inputs: Inputs, ids: Tensor, aggregation: Aggregation) -> None:
        """``entry`` is one of its own on the model's parameters; ``inputs`` and ``ids`` belong to the halo rows.

        ``aggregation`` reads the halo rows themselves, also where later layers receive partial sums of them.
        """
        self._entry = entry
        self._inputs = inputs
        self._ids = ids
        self.aggregation = aggregation

    def forward(self, segment: Segment, rows: Rows) -> tuple[Tensor, Kept]:
        """The rows ``a`` ``[h, width]`` that ``segment`` prepares, in the pass of ``rows``, and what backward needs."""
        layer, here = _following(segment), self._rows(rows)
        self._entry.begin(self._inputs, here)
        u = empty_on(here.device, here.count, segment.width)
        a = empty_on(here.device, here.count, layer.width)
        kept = layer.keep(u, a)
        copied = replace(segment, first=self._entry)
        copied.finish(here, None, None, u)
        copied.prepare(here, kept, a)
        return a, kept

    def backward(self, segment: Segment, rows: Rows, kept: Kept, a_grad: Tensor) -> None:
        """Add to the weight gradients of the first segment, from the gradient ``[h, width]`` of its rows ``a``."""
        layer, here = _following(segment), self._rows(rows)
        assert kept.u is not None
        u_grad = layer.input_grad(a_grad, None)
        # A skip and a product with the row itself belong to the owner of a row, who adds their gradients.
        layer.prepare_back(kept, here, a_grad, u_grad, adds=False)
        self._entry.backward(here, kept.u, u_grad, None)
        self._entry.end(None)
        layer.prepare_weights(kept, a_grad)

    def _rows(self, rows: Rows) -> Rows:
        return Rows.whole(self._ids, rows.seed, rows.epoch, rows.training)


def _following(segment: Segment) -> Layer:
    assert segment.following is not None, "copies are made of rows that a layer sends"
    return segment.following
