"""The ends of a model: what turns features into hidden rows, and hidden rows into logits, without the wire."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn

from halowire.kernels import empty
from halowire.layers.dense import affine, product
from halowire.schedules.inputs import FeatureMap, Inputs
from halowire.schedules.rows import Activate, Rows, gradient_of


class Entry(Protocol):
    """The first thing that the first stage does."""

    width: int

    def begin(self, inputs: Inputs) -> None:
        """A pass over all rows begins."""

    def forward(self, rows: Rows, out: Tensor) -> None:
        """Write the rows ``[m, width]`` that enter the first block after it."""

    def backward(self, rows: Rows, grad: Tensor) -> None:
        """Add to the weight gradients what these rows' ``grad`` ``[m, width]`` gives."""

    def end(self, inputs: Inputs) -> None:
        """Backward is over for all rows."""


class Projection:
    """``u_0 = x W^T + b``: the features never change, so nothing of them travels."""

    def __init__(self, weight: nn.Parameter, bias: nn.Parameter | None) -> None:
        self._map, self._bias, self.width = FeatureMap(weight), bias, weight.shape[0]

    def begin(self, inputs: Inputs) -> None:
        """Nothing to prepare."""

    def forward(self, rows: Rows, out: Tensor) -> None:
        """The product with these rows' features."""
        assert rows.inputs is not None
        self._map.forward(rows.inputs.columns(rows.at), self._bias, out)

    def backward(self, rows: Rows, grad: Tensor) -> None:
        """The gradients of ``W`` and ``b``."""
        assert rows.inputs is not None
        self._map.backward(rows.inputs.columns(rows.at), grad)
        if self._bias is not None:
            gradient_of(self._bias).add_(grad.sum(0))

    def end(self, inputs: Inputs) -> None:
        """Hand in the sums."""
        self._map.end()


class InputConv:
    """Layer 0 of GCN and GraphSAGE, ``u = A x W^T + x W_self^T + b``: exact whatever the chunks, as ``x`` is fixed.

    Dense features: ``A x`` was computed once. Sparse or very wide ones: ``z = x W^T`` of own and halo rows at the
    beginning of a pass, ``A z`` on the rows in work; backward collects their gradients and multiplies once, at the end.
    """

    def __init__(self, weight: nn.Parameter, weight_self: nn.Parameter | None, bias: nn.Parameter | None) -> None:
        self._map, self._bias, self.width = FeatureMap(weight), bias, weight.shape[0]
        self._self = None if weight_self is None else FeatureMap(weight_self)
        self._z: tuple[Tensor, Tensor] | None = None
        self._grad: Tensor | None = None

    def begin(self, inputs: Inputs) -> None:
        """``z`` of all rows, where ``A x`` is not cached."""
        self._z = None
        if inputs.halo is not None:
            whole = inputs.columns(slice(0, _count(inputs)))
            self._z = whole.times(self._map.weight), inputs.halo.times(self._map.weight)

    def forward(self, rows: Rows, out: Tensor) -> None:
        """See above."""
        inputs = rows.inputs
        assert inputs is not None
        if inputs.gathered is not None:
            affine(inputs.gathered[rows.at], self._map.weight.t(), self._bias, out)
        else:
            assert self._z is not None and inputs.spread is not None
            for matrix, z, add in zip(inputs.parts(rows.at), self._z, (False, True), strict=True):
                matrix.matmul(z, out=out, accumulate=add)
            if self._bias is not None:
                out += self._bias
        if self._self is not None:
            self._self.forward(inputs.columns(rows.at), None, out, add=True)

    def backward(self, rows: Rows, grad: Tensor) -> None:
        """The gradients that need no other rows; the others' rows are collected."""
        inputs = rows.inputs
        assert inputs is not None
        if inputs.gathered is not None:
            gradient_of(self._map.weight).addmm_(grad.t(), inputs.gathered[rows.at])
        else:
            if self._grad is None:
                self._grad = empty(_count(inputs), self.width)
            self._grad[rows.at] = grad
        if self._self is not None:
            self._self.backward(inputs.columns(rows.at), grad)
        if self._bias is not None:
            gradient_of(self._bias).add_(grad.sum(0))

    def end(self, inputs: Inputs) -> None:
        """``weight_grad += (inner^T grad)^T x + (halo^T grad)^T x_halo`` of what was collected."""
        if self._grad is not None:
            assert inputs.halo is not None
            inner_t, halo_t = inputs.transposed()
            self._map.backward(inputs.columns(slice(0, _count(inputs))), inner_t.matmul(self._grad))
            if inputs.halo.num_rows:
                self._map.backward(inputs.halo, halo_t.matmul(self._grad))
            self._grad = None
        self._z = None
        for one in (self._map, self._self):
            if one is not None:
                one.end()


class Head:
    """``logits = f(u) W^T + b`` after the last block of a deep model."""

    def __init__(self, activate: Activate, weight: nn.Parameter, bias: nn.Parameter | None) -> None:
        self._activate, self._weight, self._bias = activate, weight, bias
        self.width = weight.shape[0]

    def forward(self, u: Tensor, rows: Rows) -> tuple[Tensor, Tensor, Tensor | None]:
        """Logits ``[m, classes]``, and what backward needs: ``v`` and its statistics."""
        v = empty(*u.shape)
        stats = self._activate.forward(u, rows, v)
        logits = affine(v, self._weight.t(), self._bias, torch.empty(u.shape[0], self.width))
        return logits, v, stats

    def backward(self, grad: Tensor, u: Tensor, v: Tensor, stats: Tensor | None, rows: Rows) -> Tensor:
        """The gradient of ``u``, ``[m, k]``, from that of the logits."""
        gradient_of(self._weight).addmm_(grad.t(), v)
        if self._bias is not None:
            gradient_of(self._bias).add_(grad.sum(0))
        out = product(grad, self._weight)
        self._activate.backward(out, u, stats, rows)
        return out


def _count(inputs: Inputs) -> int:
    return inputs.x.shape[0] if isinstance(inputs.x, Tensor) else inputs.x.num_rows
