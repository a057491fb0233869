"""Attention as an aggregation: a softmax over all edges of a row, from own rows and from the halo together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from halowire.errors import InputError
from halowire.kernels import (
    Attended,
    Csr,
    Scores,
    activate,
    attend,
    attend_sources,
    attend_targets,
    row_range,
    side_by_side,
)
from halowire.layers.aggregation import Aggregation, Gathering, Incoming, boundary_of
from halowire.layers.dense import empty_rows, gradient_of, product
from halowire.layers.layer import Layer
from halowire.partitioning import Shard
from halowire.wire import HaloExchange, Message

SLOPE = 0.2
"""Slope of the leaky ReLU below zero."""


class AttentionVectors(NamedTuple):
    """The score vectors of sources and of targets, ``[H, C]`` each, with one row for each of ``H`` heads."""

    source: nn.Parameter
    target: nn.Parameter

    def add_gradients(self, source_grad: Tensor, target_grad: Tensor) -> None:
        """Add to the gradients of both vectors."""
        gradient_of(self.source).add_(source_grad)
        gradient_of(self.target).add_(target_grad)


class AttentionEdges(NamedTuple):
    """The edges of a part, ready for attention: ``forth`` ``[n, n + h]``, and its transpose in two parts.

    ``inner_t`` ``[n, n]`` has the edges from owned rows, ``halo_t`` ``[h, n]`` those from the halo.
    """

    forth: Csr
    inner_t: Csr
    halo_t: Csr

    @staticmethod
    def of(forth: Csr, back: Csr) -> AttentionEdges:
        """Cut ``back`` ``[n + h, n]``, the transpose of ``forth``."""
        n = forth.num_rows
        return AttentionEdges(forth, row_range(back, 0, n), row_range(back, n, back.num_rows))


class AttentionGradients(NamedTuple):
    """The gradients of the owned rows ``[n, H C]`` and halo rows ``[h, H C]`` of ``z``, and of both score vectors."""

    own: Tensor
    halo: Tensor
    source: Tensor
    target: Tensor


class Attending:
    """Attention over the rows ``z`` ``[n + h, H C]`` of a part and its halo; see :mod:`halowire.kernels.attend`.

    Where all rows of ``z`` are here at the start (``whole``), call :meth:`attend`, then :meth:`backward`. Where the
    halo rows arrive later, call :meth:`halo_scores` when they are written. Other workers then wait for the gradients
    of the halo rows, so backward is :meth:`halo_back` and, while those travel, :meth:`own_back`.
    """

    def __init__(
        self,
        edges: AttentionEdges,
        z: Tensor,
        vectors: tuple[Tensor, Tensor],
        slope: float,
        *,
        keep: bool,
        whole: bool,
    ) -> None:
        """``keep``: backward follows."""
        self._edges = edges
        self._slope = slope
        self._scores = Scores(*vectors)
        self._n = edges.forth.num_rows
        self._heads = vectors[0].shape[0]
        self.z = z
        self.out = empty_rows(z, self._n, z.shape[1])
        self._positive = empty_rows(z, *self.out.shape) if keep else None
        self._nodes = z.new_empty(self._n, 4, self._heads)
        own = product(z[: self._n], score_columns(*vectors))
        self._src = z.new_empty(z.shape[0], self._heads)
        self._src[: self._n] = own[:, : self._heads]
        self._dst = own[:, self._heads :]
        if whole:
            self.halo_scores()

    def halo_scores(self) -> None:
        """Compute the scores of the halo rows of ``z``, once they are written."""
        n = self._n
        torch.mm(self.z[n:], score_columns(self._scores.source), out=self._src[n:])

    def attend(self, rows: slice) -> None:
        """Attend over the edges of ``rows``, and write these rows of ``out``."""
        positive = None if self._positive is None else self._positive[rows]
        matrix = row_range(self._edges.forth, rows.start, rows.stop)
        found = attend(
            matrix, self.z, self._src, self._dst[rows], self._slope, positive is not None, self.out[rows], positive
        )
        if positive is not None:
            self._nodes[rows] = found.nodes

    def halo_back(self, grad: Tensor) -> Tensor:
        """The gradient of the halo rows of ``z``, ``[h, H C]``, from ``grad``, the gradient of ``out`` ``[n, H C]``."""
        n = self._n
        self._targets = attend_targets(grad, Attended(self.out, self._positive, self._nodes), self._slope)
        halo, self._halo_src_grad = attend_sources(
            self._edges.halo_t, grad, self.z[n:], self._src[n:], self._targets, self._slope, self._scores, False
        )
        return halo

    def own_back(self, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Gradients of the owned rows of ``z``, ``[n, H C]``, and of both score vectors; needs :meth:`halo_back`."""
        n, z = self._n, self.z
        own, own_src_grad = attend_sources(
            self._edges.inner_t, grad, z[:n], self._src[:n], self._targets, self._slope, self._scores, True
        )
        source_grad = by_head(z[:n], own_src_grad) + by_head(z[n:], self._halo_src_grad)
        return own, source_grad, by_head(z[:n], self._targets.dst_grad)

    def backward(self, grad: Tensor) -> AttentionGradients:
        """All gradients, from ``grad``, where no other worker waits for those of the halo rows."""
        halo = self.halo_back(grad)
        own, source_grad, target_grad = self.own_back(grad)
        return AttentionGradients(own, halo, source_grad, target_grad)


@dataclass(frozen=True, eq=False)
class Attention(Aggregation):
    """Attention over the edges from owned and from halo nodes; every node has one self loop.

    One softmax runs over all edges of a row, so unlike a sum it cannot take owned rows first and halo rows later. There
    are no edge weights.
    """

    edges: AttentionEdges

    @staticmethod
    def of(shard: Shard, exchange: HaloExchange) -> Attention:
        """The edges of ``shard``, with the self loops of PyG's ``GATConv``."""
        if shard.inner.weight is not None or shard.halo.weight is not None:
            raise InputError(
                f"graph {shard.graph!r} has edge weights, which attention does not use; leave them out, or use "
                "--model.name gcn or sage"
            )
        (inner, halo), device = shard.looped(), exchange.device
        forth = side_by_side(inner, halo)
        edges = AttentionEdges.of(forth.to(device), forth.transpose().to(device))
        return Attention(boundary_of(halo, exchange), exchange, edges)

    @property
    def num_rows(self) -> int:
        """Number of owned rows, ``n``."""
        return self.edges.forth.num_rows

    @property
    def num_held(self) -> int:
        """Number of owned and halo rows, ``n + h``."""
        return self.edges.forth.num_cols

    def rows_held(self, layer: Layer) -> int:
        """Number of owned and halo rows, ``n + h``, where ``a`` is ``z``; otherwise of owned rows."""
        return self.num_held if layer.multiplies else self.num_rows

    def gather(self, layer: Layer, a: Tensor, training: bool) -> Gathering:
        """Begin attention with the score vectors of ``layer``."""
        assert isinstance(layer, AttentionLayer)
        return _AttendingLayer(self, layer, a, training)

    def attending(self, z: Tensor, vectors: AttentionVectors, training: bool, whole: bool) -> Attending:
        """Begin attention over the rows ``z`` ``[n + h, H C]``; only the owned rows are here, or the ``whole``."""
        return Attending(self.edges, z, vectors, SLOPE, keep=training, whole=whole)


class AttentionLayer(Layer):
    """A layer whose aggregation is attention, over ``z = v W^T``.

    Attributes:
        vectors: the score vectors.
        late_weight: ``W`` ``[H C, in]`` where ``v`` travels and the receiver multiplies it by ``W``; None where ``z``
            travels.
    """

    vectors: AttentionVectors
    late_weight: nn.Parameter | None


class _AttendingLayer:
    """One attention in one pass; see :class:`Gathering`."""

    def __init__(self, edges: Attention, layer: AttentionLayer, a: Tensor, training: bool) -> None:
        self._edges = edges
        self._layer = layer
        self._a = a
        self._n = edges.num_rows
        self._a_halo: Tensor | None = None
        z = a
        if layer.late_weight is not None:
            z = empty_rows(a, edges.num_held, layer.late_weight.shape[0])
            product(a, layer.late_weight.t(), out=z[: self._n])
        self._attending = edges.attending(z, layer.vectors, training, whole=False)
        self.g = self._attending.out

    def own(self, a: Tensor) -> None:
        """Do nothing: the softmax of a row needs all its edges at once."""

    def wait(self, incoming: Incoming) -> None:
        """Wait for the halo rows of ``z``, or compute them from the rows of ``v`` that arrive; compute their scores."""
        exchange, weight = self._edges.exchange, self._layer.late_weight
        rows = incoming.rows
        if rows is None:
            rows = exchange.finish_rows(incoming.message, self._a.shape[1])
        halo = self._attending.z[self._n :]
        if weight is None:
            halo.copy_(rows)
        else:
            dropped = None if incoming.drop is None else activate(rows, None, None, False, incoming.drop)[0]
            self._a_halo = rows.clone() if dropped is None else dropped
            product(self._a_halo, weight.t(), out=halo)
        self._attending.halo_scores()

    def complete(self, rows: slice) -> None:
        """Attend over the edges of these rows."""
        self._attending.attend(rows)

    def interior(self, a: Tensor) -> None:
        """Attend over the edges of the interior."""
        self._attending.attend(slice(self._edges.boundary, self._n))

    def send_back(self, g_grad: Tensor) -> Message | None:
        """Compute and launch the gradients of the halo rows first, because their owners wait for them."""
        return self._edges.exchange.start_back(self.halo_back(g_grad), self._layer.number)

    def halo_back(self, g_grad: Tensor) -> Tensor:
        """The gradients of the halo rows of ``z``, or of ``v`` where these travelled."""
        weight = self._layer.late_weight
        self._halo_grad = self._attending.halo_back(g_grad)
        return self._halo_grad if weight is None else product(self._halo_grad, weight)

    def own_back(self, g_grad: Tensor, into: Tensor | None) -> Tensor:
        """Compute the gradients of the owned rows, of the score vectors and, where ``v`` travelled, of ``W``."""
        assert into is None, "attention has no product of a row with itself beside its self loop"
        z_grad, source_grad, target_grad = self._attending.own_back(g_grad)
        self._layer.vectors.add_gradients(source_grad, target_grad)
        weight = self._layer.late_weight
        if weight is None:
            return z_grad
        assert self._a_halo is not None
        gradient_of(weight).addmm_(z_grad.t(), self._a).addmm_(self._halo_grad.t(), self._a_halo)
        return product(z_grad, weight)


def score_columns(*parts: Tensor) -> Tensor:
    """Score vectors ``[H, C]`` as ``[H C, parts H]``: column ``h`` has the part of head ``h``, zeros elsewhere.

    ``z @ score_columns(a, b)`` gives ``<z, a>`` and ``<z, b>``, head by head.
    """
    heads, cols = parts[0].shape
    out = parts[0].new_zeros(heads, cols, len(parts) * heads)
    for number, part in enumerate(parts):
        out[:, :, number * heads : (number + 1) * heads].diagonal(dim1=0, dim2=2).copy_(part.t())
    return out.view(heads * cols, -1)


def by_head(z: Tensor, grad: Tensor) -> Tensor:
    """``sum over rows of grad[i, h] z[i, h, c]``, ``[H, C]``, for ``z`` ``[m, H C]`` and ``grad`` ``[m, H]``."""
    heads = grad.shape[1]
    return (grad.t() @ z).view(heads, heads, -1).diagonal().t()
