"""Attention in the order of boundary first: what all GAT layers share, whatever their input is and wherever it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor

from halowire.kernels import Attended, Csr, Scores, attend, attend_sources, attend_targets
from halowire.layers.attention import Attention
from halowire.layers.dense import empty_rows, product
from halowire.layers.head_scores import by_head, score_columns
from halowire.layers.step import Step
from halowire.wire import Flight


class GatWeights(NamedTuple):
    """``W`` ``[H C, in]``, score vectors ``source``, ``target`` ``[H, C]``; ``b`` ``[H C]`` or, of a mean, ``[C]``."""

    weight: Tensor
    source: Tensor
    target: Tensor
    bias: Tensor | None


class AttendMap(ABC):
    """``out_i = (sum of a_ij z_j) + b`` with ``z = x W^T`` and the weights ``a`` of `halowire.kernels.attend`.

    Forward: ``z`` and the scores of the owned rows, then attention over the tail; the head waits for the halo's rows.
    Backward: the halo's gradients are computed first and leave; the owned rows' follow. The subclass says where ``z``
    comes from and where its gradient goes.
    """

    def __init__(self, weights: GatWeights, concat: bool, slope: float, step: Step) -> None:
        assert isinstance(step.spread, Attention)
        self._weights, self._concat, self._slope = weights, concat, slope
        self._step, self._spread = step, step.spread
        self._n, self._heads = step.spread.inner.num_rows, weights.source.shape[0]

    def open(self) -> None:
        """``z`` of the owned rows, and both of their scores by one product."""
        n, heads, training = self._n, self._heads, self._step.training
        self._z = self._own_rows()
        scores = product(self._z[:n], score_columns(*self._weights[1:3]))
        self._src = torch.empty(self._z.shape[0], heads, device=self._z.device)
        self._src[:n] = scores[:, :heads]
        self._dst = scores[:, heads:]
        self._out = empty_rows(self._z, n, self._z.shape[1])
        self._positive = empty_rows(self._z, *self._out.shape) if training else None

    def arrive(self, out: Tensor) -> None:
        """The halo's rows and their scores, then attention."""
        n = self._n
        self._halo_rows(self._z[n:])
        torch.mm(self._z[n:], score_columns(self._weights.source), out=self._src[n:])
        self._head_nodes = self._rows(out, self._spread.forth_head, slice(0, self._spread.head))

    def head(self, out: Tensor, rows: slice) -> None:
        """Nothing is left to do: the softmax of a row takes all its edges at once."""
        del out, rows

    def tail(self, out: Tensor) -> None:
        """The same without halo."""
        self._tail_nodes = self._rows(out, self._spread.forth_tail, slice(self._spread.head, self._n))

    def _rows(self, out: Tensor, matrix: Csr, rows: slice) -> Tensor:
        found, training = self._out[rows], self._step.training
        positive = None if self._positive is None else self._positive[rows]
        got = attend(matrix, self._z, self._src, self._dst[rows], self._slope, training, found, positive)
        values = found if self._concat else found.view(len(found), *self._weights.source.shape).mean(1)
        bias = self._weights.bias
        out.copy_(values) if bias is None else torch.add(values, bias, out=out)
        return got.nodes

    def tail_back(self, grad: Tensor) -> None:
        """Nothing: gradients of sources need all rows."""
        del grad

    def back(self, grad: Tensor, needs_x: bool) -> tuple[Tensor | None, ...]:
        """The halo's gradients away, then what they do not touch."""
        n, spread, weights, slope = self._n, self._spread, self._weights, self._slope
        scores = Scores(weights.source, weights.target)
        bias_grad = None if weights.bias is None else grad.sum(0)
        if not self._concat:
            grad = (grad / self._heads).repeat(1, self._heads)
        nodes = torch.cat([self._head_nodes, self._tail_nodes])
        targets = attend_targets(grad, Attended(self._out, self._positive, nodes), slope)
        z, src, z_grad = self._z, self._src, empty_rows(self._z, *self._z.shape)
        _, halo_grad = attend_sources(
            spread.halo_t, grad, z[n:], src[n:], targets, slope, scores, False, out=z_grad[n:]
        )
        flight = self._send_back(z_grad[n:])
        _, own_grad = attend_sources(spread.inner_t, grad, z[:n], src[:n], targets, slope, scores, True, out=z_grad[:n])
        source_grad = by_head(z[:n], own_grad) + by_head(z[n:], halo_grad)
        target_grad = by_head(z[:n], targets.dst_grad)
        x_grad, weight_grad = self._input_grads(z_grad, flight, needs_x)
        return x_grad, weight_grad, source_grad, target_grad, bias_grad

    @abstractmethod
    def _own_rows(self) -> Tensor:
        """``z`` ``[n + h, H C]`` with the owned rows filled; the exchange is launched."""

    @abstractmethod
    def _halo_rows(self, out: Tensor) -> None:
        """Write the halo's ``z`` ``[h, H C]``."""

    @abstractmethod
    def _send_back(self, halo_grad: Tensor) -> Flight | None:
        """Launch the gradients of the halo's ``z``."""

    @abstractmethod
    def _input_grads(self, z_grad: Tensor, flight: Flight | None, needs_x: bool) -> tuple[Tensor | None, Tensor]:
        """Gradients of ``x`` and ``W`` from that of ``z``; what returns is added to the owned rows, or left."""
