"""Aggregation over the edges of a part: each row sums owned rows and halo rows; gradients take the same edges back.

    g = inner @ a + halo @ a_halo            ``[n, k]``, this part's rows of the whole graph's ``A a``

``inner`` is ``[n, n]`` and needs nothing from outside, ``halo`` is ``[n, h]``. The first rows of a part, its
**boundary**, are those that others need or that need others; all others are its **interior**:

    g[:b] = inner_boundary @ a + halo_boundary @ a_halo,        g[b:] = inner_interior @ a

So the interior never waits. Backward, ``a_grad`` is ``inner_t @ g_grad`` plus the gradients that other parts return;
this part returns ``halo_t @ g_grad[:b]`` to them. In an undirected graph the boundary is exactly the rows that are
sent; in a directed graph, where rows with halo edges lie scattered, the boundary may be nearly all rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Protocol

from torch import Tensor

from halowire.kernels import Csr, Drop, row_range
from halowire.layers.dense import empty_rows
from halowire.layers.layer import Layer
from halowire.partitioning import Shard
from halowire.wire import BACKWARD, Arrival, HaloExchange, Message, Piece


@dataclass(frozen=True, eq=False)
class Incoming:
    """The message whose rows fill the halo, and the dropout that the receiver applies to them.

    Without a message there are no rows yet, as in the first epoch with delayed rows.
    """

    message: Message | None = None
    drop: Drop | None = None


class Gathering(Protocol):
    """One aggregation in one pass over a whole part; the schedule decides when each step runs."""

    g: Tensor
    """The aggregates, ``[n, width]``."""

    def own(self, a: Tensor) -> None:
        """Write to the boundary's aggregates the part that comes from owned rows, ``a`` ``[rows held, width]``."""

    def wait(self, incoming: Incoming) -> None:
        """Wait for the halo rows."""

    def complete(self, rows: slice) -> None:
        """Complete the aggregates of these boundary ``rows``, after :meth:`wait`."""

    def interior(self, a: Tensor) -> None:
        """Complete the interior, which waits for nothing."""

    def send_back(self, g_grad: Tensor) -> Message | None:
        """Launch the gradients of the halo rows, computed from ``g_grad`` ``[n, width]``."""

    def own_back(self, g_grad: Tensor, into: Tensor | None) -> Tensor:
        """The part of the gradient of ``a`` ``[n, k]`` that comes from owned rows, added to ``into`` if given."""


@dataclass(frozen=True, eq=False)
class Aggregation(ABC):
    """The edges of one part, cut into boundary and interior, and the exchange that brings the halo rows.

    The cut matrices share the memory of the whole ones.
    """

    inner: Csr
    halo: Csr
    inner_t: Csr
    halo_t: Csr
    boundary: int
    exchange: HaloExchange

    is_linear = True
    """Whether ``A (x W^T)`` equals ``(A x) W^T``."""

    @abstractmethod
    def gather(self, layer: Layer, a: Tensor, training: bool) -> Gathering:
        """Begin an aggregation of ``a`` ``[rows held, width]``, the rows that ``layer`` sends."""

    def rows_held(self, layer: Layer) -> int:
        """Number of rows of the matrix ``a`` of ``layer`` on this worker."""
        return self.inner.num_rows

    @property
    def interior_share(self) -> float:
        """The share of the rows that have nothing to do with other workers."""
        return 1 - self.boundary / max(1, self.inner.num_rows)


@dataclass(frozen=True, eq=False)
class Sum(Aggregation):
    """``g = A a`` with fixed weights."""

    inner_boundary: Csr
    inner_interior: Csr
    halo_boundary: Csr
    halo_t_pieces: tuple[tuple[Piece, Csr], ...] = ()

    @staticmethod
    def cut(inner: Csr, halo: Csr, exchange: HaloExchange) -> Sum:
        """Cut normalised matrices into boundary and interior, on the device of ``exchange``."""
        device, boundary = exchange.halo_ids.device, boundary_of(halo, exchange)
        inner_t = inner.transpose().to(device)
        halo_t = replace(halo.transpose().to(device), num_cols=boundary)
        inner, halo, rows = inner.to(device), halo.to(device), inner.num_rows
        return Sum(
            inner,
            halo,
            inner_t,
            halo_t,
            boundary,
            exchange,
            row_range(inner, 0, boundary),
            row_range(inner, boundary, rows),
            row_range(halo, 0, boundary),
            tuple((piece, row_range(halo_t, piece.start, piece.stop)) for piece in exchange.halo_pieces),
        )

    def gather(self, layer: Layer, a: Tensor, training: bool) -> Gathering:
        """Begin a sum over owned rows and halo rows."""
        return Summing(self, layer.number, empty_rows(a, *a.shape))


def symmetric(shard: Shard, exchange: HaloExchange) -> Sum:
    """The sum with ``D^-1/2 (A + I) D^-1/2`` and the degrees of the whole graph, as in GCN."""
    return Sum.cut(*shard.symmetric(), exchange)


def mean(shard: Shard, exchange: HaloExchange) -> Sum:
    """The sum with ``D^-1 A`` and the degrees of the whole graph, as in GraphSAGE."""
    return Sum.cut(*shard.mean(), exchange)


class Summing:
    """One sum in one pass, written to ``g`` ``[n, width]``; see :class:`Gathering`."""

    def __init__(self, edges: Sum, number: int, g: Tensor) -> None:
        """``number`` is that of the layer, which names the exchange."""
        self._edges = edges
        self._number = number
        self._arrival: Arrival | None = None
        self.g = g

    def own(self, a: Tensor) -> None:
        """``inner_boundary @ a``."""
        self._edges.inner_boundary.matmul(a, out=self.g[: self._edges.boundary])

    def wait(self, incoming: Incoming) -> None:
        """Wait for the message; its rows are not decoded yet."""
        self._arrival = self._edges.exchange.arrive(incoming.message, incoming.drop)

    def complete(self, rows: slice) -> None:
        """Add the halo rows; packed rows are decoded as they are added."""
        assert self._arrival is not None
        self._arrival.add(row_range(self._edges.halo_boundary, rows.start, rows.stop), self.g[rows])

    def interior(self, a: Tensor) -> None:
        """``inner_interior @ a``, where there is an interior."""
        if self._edges.inner_interior.num_rows:
            self._edges.inner_interior.matmul(a, out=self.g[self._edges.boundary :])

    def send_back(self, g_grad: Tensor) -> Message | None:
        """Send ``halo_t @ g_grad`` piece by piece: each piece leaves before the next one is computed."""
        edges, exchange = self._edges, self._edges.exchange
        grad = g_grad[: edges.boundary]
        if not edges.halo_t_pieces:
            return exchange.start_back(edges.halo_t.matmul(grad), self._number)
        loading = exchange.load(self._number, grad.shape[1], direction=BACKWARD)
        halo_grad = empty_rows(grad, edges.halo_t.num_rows, grad.shape[1])
        for piece, matrix in edges.halo_t_pieces:
            matrix.matmul(grad, out=halo_grad[piece.start : piece.stop])
            if loading.pieces_back:
                loading.add_piece(halo_grad, piece)
        return exchange.launch(loading, halo_grad)

    def own_back(self, g_grad: Tensor, into: Tensor | None) -> Tensor:
        """``inner_t @ g_grad``."""
        return self._edges.inner_t.matmul(g_grad, out=into, accumulate=into is not None)


def boundary_of(halo: Csr, exchange: HaloExchange) -> int:
    """Number of boundary rows: no row behind them is sent or has an edge from the halo."""
    reached = halo.indptr.diff().nonzero()
    return max(exchange.num_boundary, int(reached[-1]) + 1 if reached.numel() else 0)


def gather_whole(gathering: Gathering, a: Tensor, incoming: Incoming, boundary: int) -> Tensor:
    """The aggregates of all rows: owned rows are summed while the halo rows are under way, then the halo rows."""
    gathering.own(a)
    gathering.interior(a)
    gathering.wait(incoming)
    gathering.complete(slice(0, boundary))
    return gathering.g


def scatter_whole(gathering: Gathering, g_grad: Tensor, into: Tensor | None, exchange: HaloExchange) -> Tensor:
    """The gradients of all rows: send the halo's, compute the own ones meanwhile, and add the gradients that arrive."""
    message = gathering.send_back(g_grad)
    a_grad = gathering.own_back(g_grad, into)
    exchange.finish_back(message, a_grad)
    return a_grad
