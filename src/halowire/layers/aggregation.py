"""Aggregation over the edges of a part: each row sums owned rows and halo rows; gradients take the same edges back.

    g = inner @ a + halo @ a_halo            ``[n, k]``, this part's rows of the whole graph's ``A a``

``inner`` is ``[n, n]`` and needs nothing from outside, ``halo`` is ``[n, h]``. The first rows of a part, its
**boundary**, are those that others need or that need others; all others are its **interior**:

    g[:b] = inner_boundary @ a + halo_boundary @ a_halo,        g[b:] = inner_interior @ a

So the interior never waits. The same sum serves any rows of a part: its boundary, its interior, a chunk, or all of them
(:class:`RowEdges`). Backward, ``a_grad`` is ``inner_t @ g_grad`` plus the gradients that other parts return;
this part returns ``halo_t @ g_grad[:b]`` to them. In an undirected graph the boundary is exactly the rows that are
sent; in a directed graph, where rows with halo edges lie scattered, the boundary may be nearly all rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Protocol

from torch import Tensor

from halowire.kernels import Csr, Drop, row_range
from halowire.layers.dense import empty_rows
from halowire.layers.layer import Layer
from halowire.partitioning import Shard
from halowire.wire import BACKWARD, Arrival, Cover, HaloExchange, Message, Piece


@dataclass(frozen=True, eq=False)
class Incoming:
    """The message whose rows fill the halo, and the dropout that the receiver applies to them.

    Where the receiver computed its halo rows itself, these are ``rows`` ``[h, width]``, and there is no message.
    Without rows and without a message there are no rows yet, as in the first epoch with delayed rows.
    """

    message: Message | None = None
    drop: Drop | None = None
    rows: Tensor | None = None


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

    def halo_back(self, g_grad: Tensor) -> Tensor:
        """The gradients of the halo rows ``[h, k]``, computed from ``g_grad`` ``[n, width]``, which stay here."""

    def own_back(self, g_grad: Tensor, into: Tensor | None) -> Tensor:
        """The part of the gradient of ``a`` ``[n, k]`` that comes from owned rows, added to ``into`` if given."""


@dataclass(frozen=True, eq=False)
class Aggregation(ABC):
    """The edges of one part, and the exchange that brings the halo rows.

    Attributes:
        boundary: number of rows of the boundary.
        exchange: carries rows to other parts' halos, and gradients back.
    """

    boundary: int
    exchange: HaloExchange

    @property
    @abstractmethod
    def num_rows(self) -> int:
        """Number of owned rows, ``n``."""

    @abstractmethod
    def gather(self, layer: Layer, a: Tensor, training: bool) -> Gathering:
        """Begin an aggregation of ``a`` ``[rows held, width]``, the rows that ``layer`` sends."""

    def rows_held(self, layer: Layer) -> int:
        """Number of rows of the matrix ``a`` of ``layer`` on this worker."""
        return self.num_rows

    @property
    def interior_share(self) -> float:
        """The share of the rows that have nothing to do with other workers."""
        return 1 - self.boundary / max(1, self.num_rows)


@dataclass(frozen=True, eq=False)
class RowEdges:
    """The edges into ``m`` rows: ``inner`` ``[m, n]`` from owned rows, ``halo`` ``[b, h]`` from halo rows.

    Only the first ``b`` of the rows may have edges from the halo. All sums over edges with fixed weights are computed
    here, whatever the rows and the schedule.
    """

    inner: Csr
    halo: Csr

    @staticmethod
    def cut(inner: Csr, halo: Csr, at: slice) -> RowEdges:
        """The edges into the rows ``at``, in the memory of the whole matrices ``inner`` and ``halo``."""
        stop = min(at.stop, halo.num_rows)
        return RowEdges(row_range(inner, at.start, at.stop), row_range(halo, min(at.start, stop), stop))

    def own(self, a: Tensor, out: Tensor | None = None, accumulate: bool = False) -> Tensor:
        """``out (+)= inner @ a``, ``[m, width]``, from the owned rows ``a`` ``[n, width]``."""
        return self.inner.matmul(a, out=out, accumulate=accumulate)

    def add_halo(self, arrival: Arrival, out: Tensor) -> None:
        """``out += halo @ a_halo``; packed rows are decoded as they are added."""
        if self.halo.nnz:
            arrival.add(self.halo, out[: self.halo.num_rows])

    def sum(self, a: Tensor, a_halo: Tensor, out: Tensor | None = None) -> Tensor:
        """``out = inner @ a + halo @ a_halo``, where the halo rows ``a_halo`` ``[h, width]`` are here already."""
        out = self.own(a, out)
        self.add_halo(Arrival.of(a_halo), out)
        return out


@dataclass(frozen=True, eq=False)
class Sum(Aggregation):
    """``g = A a`` with fixed weights.

    Where partial sums travel in the place of halo rows, ``halo`` and ``halo_t`` are the matrices of what arrives, and
    ``uncovered`` is that of the halo rows themselves.
    """

    inner: Csr
    halo: Csr
    inner_t: Csr
    halo_t: Csr
    halo_t_pieces: tuple[tuple[Piece, Csr], ...] = ()
    uncovered: Csr | None = None
    _cut: dict[tuple[int, int], RowEdges] = field(default_factory=dict)

    @staticmethod
    def of_shard(shard: Shard, inner: Csr, halo: Csr, exchange: HaloExchange) -> Sum:
        """Make the normalised matrices of ``shard`` ready; under a cover, the workers agree on partial sums here."""
        if not exchange.policy.cover:
            return Sum.of(inner, halo, exchange)
        cover = Cover.agree(shard, halo, exchange.transport, exchange.policy.once_per_machine)
        exchange.cover(cover)
        return replace(Sum.of(inner, cover.halo, exchange), uncovered=halo)

    def over_rows(self) -> Sum:
        """The sum over the halo rows themselves, for rows that are here already, such as sparse features."""
        if self.uncovered is None:
            return self
        device, halo = self.exchange.device, row_range(self.uncovered, 0, self.boundary)
        return Sum(self.boundary, self.exchange, self.inner, halo.to(device), self.inner_t, halo.transpose().to(device))

    @staticmethod
    def of(inner: Csr, halo: Csr, exchange: HaloExchange) -> Sum:
        """Make normalised matrices ready, on the device of ``exchange``; no halo edge lies behind the boundary."""
        device, boundary = exchange.device, boundary_of(halo, exchange)
        halo = row_range(halo, 0, boundary)
        halo_t = halo.transpose().to(device)
        pieces = tuple((piece, row_range(halo_t, piece.start, piece.stop)) for piece in exchange.halo_pieces)
        inner_t = inner.transpose().to(device)
        return Sum(boundary, exchange, inner.to(device), halo.to(device), inner_t, halo_t, pieces)

    @property
    def num_rows(self) -> int:
        """Number of owned rows, ``n``."""
        return self.inner.num_rows

    def into(self, at: slice) -> RowEdges:
        """The edges into the rows ``at``; they are cut once, and share the memory of the whole matrices."""
        key = (at.start, at.stop)
        if key not in self._cut:
            self._cut[key] = RowEdges.cut(self.inner, self.halo, at)
        return self._cut[key]

    def gather(self, layer: Layer, a: Tensor, training: bool) -> Gathering:
        """Begin a sum over owned rows and halo rows."""
        return Summing(self, layer.number, empty_rows(a, *a.shape))

    def own_back(self, g_grad: Tensor, into: Tensor | None = None) -> Tensor:
        """``inner_t @ g_grad``, ``[n, width]``, added to ``into`` if given."""
        return self.inner_t.matmul(g_grad, out=into, accumulate=into is not None)

    def halo_back(self, g_grad: Tensor) -> Tensor:
        """``halo_t @ g_grad[:b]``, ``[h, width]``."""
        return self.halo_t.matmul(g_grad[: self.boundary])


def symmetric_sum(shard: Shard, exchange: HaloExchange) -> Sum:
    """The sum with ``D^-1/2 (A + I) D^-1/2`` and the degrees of the whole graph, as in GCN."""
    return Sum.of_shard(shard, *shard.symmetric(), exchange)


def mean_sum(shard: Shard, exchange: HaloExchange) -> Sum:
    """The sum with ``D^-1 A`` and the degrees of the whole graph, as in GraphSAGE."""
    return Sum.of_shard(shard, *shard.mean(), exchange)


class Summing:
    """One sum in one pass, written to ``g`` ``[n, width]``; see :class:`Gathering`."""

    def __init__(self, edges: Sum, number: int, g: Tensor) -> None:
        """``number`` is that of the layer, which names the exchange."""
        self._edges = edges
        self._number = number
        self._arrival: Arrival | None = None
        self.g = g

    def own(self, a: Tensor) -> None:
        """Sum the owned rows for the boundary."""
        boundary = slice(0, self._edges.boundary)
        self._edges.into(boundary).own(a, self.g[boundary])

    def wait(self, incoming: Incoming) -> None:
        """Wait for the message; its rows are not decoded yet."""
        if incoming.rows is not None:
            self._arrival = Arrival.of(incoming.rows)
        else:
            self._arrival = self._edges.exchange.arrive(incoming.message, incoming.drop)

    def complete(self, rows: slice) -> None:
        """Add the halo rows."""
        assert self._arrival is not None
        self._edges.into(rows).add_halo(self._arrival, self.g[rows])

    def interior(self, a: Tensor) -> None:
        """Sum the owned rows for the interior, where there is one."""
        interior = slice(self._edges.boundary, self._edges.num_rows)
        if interior.stop > interior.start:
            self._edges.into(interior).own(a, self.g[interior])

    def send_back(self, g_grad: Tensor) -> Message | None:
        """Send ``halo_t @ g_grad`` piece by piece: each piece leaves before the next one is computed."""
        edges, exchange = self._edges, self._edges.exchange
        if not exchange.sends(BACKWARD):
            return None
        if not edges.halo_t_pieces:
            return exchange.start_back(edges.halo_back(g_grad), self._number)
        grad = g_grad[: edges.boundary]
        message = exchange.load(self._number, grad.shape[1], direction=BACKWARD)
        halo_grad = empty_rows(grad, edges.halo_t.num_rows, grad.shape[1])
        for piece, matrix in edges.halo_t_pieces:
            matrix.matmul(grad, out=halo_grad[piece.start : piece.stop])
            if message.pieces_back:
                message.add_piece(halo_grad, piece)
        return exchange.launch(message, halo_grad)

    def halo_back(self, g_grad: Tensor) -> Tensor:
        """The sum over the transposed edges from halo rows."""
        return self._edges.halo_back(g_grad)

    def own_back(self, g_grad: Tensor, into: Tensor | None) -> Tensor:
        """The sum over the transposed edges between owned rows."""
        return self._edges.own_back(g_grad, into)


def boundary_of(halo: Csr, exchange: HaloExchange) -> int:
    """Number of boundary rows: no row behind them is sent or has an edge from the halo."""
    reached = halo.indptr.diff().nonzero()
    return max(exchange.num_boundary, int(reached[-1]) + 1 if reached.numel() else 0)


def gather_whole(
    gathering: Gathering,
    a: Tensor,
    incoming: Incoming,
    boundary: int,
    waiting: AbstractContextManager[None] | None = None,
) -> Tensor:
    """The aggregates of all rows: owned rows are summed while the halo rows are under way, then the halo rows.

    ``waiting`` is entered while the halo rows are waited for and added.
    """
    gathering.own(a)
    gathering.interior(a)
    with waiting or nullcontext():
        gathering.wait(incoming)
        gathering.complete(slice(0, boundary))
    return gathering.g


def scatter_whole(
    gathering: Gathering,
    g_grad: Tensor,
    into: Tensor | None,
    exchange: HaloExchange,
    waiting: AbstractContextManager[None] | None = None,
) -> Tensor:
    """The gradients of all rows: send the halo's, compute the own ones meanwhile, and add the gradients that arrive."""
    message = gathering.send_back(g_grad)
    a_grad = gathering.own_back(g_grad, into)
    with waiting or nullcontext():
        exchange.finish_back(message, a_grad)
    return a_grad
