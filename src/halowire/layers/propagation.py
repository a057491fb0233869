"""A normalised adjacency spread over the workers, with its transpose and the exchange that feeds it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.kernels import Csr
from halowire.kernels.csr import row_range
from halowire.layers.dense import empty_rows
from halowire.partitioning import Shard
from halowire.wire import Flight, HaloExchange, Piece

SYMMETRIC, MEAN = "symmetric", "mean"


@dataclass(frozen=True, eq=False)
class Propagation:
    """``y = inner @ x + halo @ x_halo``: this worker's rows of the whole graph's ``A x``.

    ``inner`` is ``[n, n]`` and needs nothing from outside; ``halo`` is ``[n, h]``. The first ``head`` rows are those
    that are sent or have an edge from the halo, the rest (the tail) has nothing to do with other workers:

        y[:head] = inner_head @ x + halo_head @ x_halo,    y[head:] = inner_tail @ x

    The transposes serve backward: ``x_grad = inner_t @ y_grad`` and what the owners add to it, of which
    ``halo_t @ y_grad[:head]`` is this worker's part. In an undirected graph the head is the boundary; where the rows
    with halo edges lie scattered (directed graphs) it may be nearly all rows. The parts share the memory of the whole.
    ``halo_t_pieces`` are the rows of ``halo_t`` whose products leave one after another.
    """

    inner: Csr
    halo: Csr
    inner_t: Csr
    halo_t: Csr
    inner_head: Csr
    inner_tail: Csr
    halo_head: Csr
    head: int
    exchange: HaloExchange
    halo_t_pieces: tuple[tuple[Piece, Csr], ...]

    @property
    def num_rows_held(self) -> int:
        """Rows that a matrix of a layer's input has on this worker: the owned ones."""
        return self.inner.num_rows

    @staticmethod
    def of(shard: Shard, kind: str, exchange: HaloExchange, device: torch.device) -> Propagation:
        """Normalise ``shard`` (``symmetric`` for GCN, ``mean`` for GraphSAGE) by whole-graph degrees."""
        if kind not in (SYMMETRIC, MEAN):
            raise InputError(f"normalisation {kind!r} is unknown; use {SYMMETRIC!r} or {MEAN!r}")
        inner, halo = shard.symmetric() if kind == SYMMETRIC else shard.mean()
        return Propagation.cut(inner, halo, exchange, device)

    @staticmethod
    def cut(inner: Csr, halo: Csr, exchange: HaloExchange, device: torch.device) -> Propagation:
        """Find the head of normalised matrices and cut them there."""
        head = head_of(halo, exchange)
        inner_t = inner.transpose().to(device)
        halo_t = replace(halo.transpose().to(device), num_cols=head)
        inner, halo = inner.to(device), halo.to(device)
        rows = inner.num_rows
        parts = row_range(inner, 0, head), row_range(inner, head, rows), row_range(halo, 0, head)
        pieces = tuple((piece, row_range(halo_t, piece.start, piece.stop)) for piece in exchange.halo_pieces)
        return Propagation(inner, halo, inner_t, halo_t, *parts, head, exchange, pieces)

    def send_back(self, grad: Tensor, layer: int) -> Flight | None:
        """Launch the gradients of the halo rows, ``halo_t @ grad`` for ``grad`` ``[head, k]``, piece by piece."""
        if not self.halo_t_pieces:
            return self.exchange.start_back(self.halo_t.matmul(grad), layer)
        loading = self.exchange.load_back(layer, grad.shape[1])
        halo_grad = empty_rows(grad, self.halo_t.num_rows, grad.shape[1])
        for piece, matrix in self.halo_t_pieces:
            matrix.matmul(grad, out=halo_grad[piece.start : piece.stop])
            if loading.pieces_back:
                loading.add_piece(halo_grad, piece)
        return self.exchange.launch(loading, halo_grad)


def head_of(halo: Csr, exchange: HaloExchange) -> int:
    """How many rows come before the first of those that are neither sent nor have an edge from the halo."""
    reached = halo.indptr.diff().nonzero()
    return max(exchange.num_boundary, int(reached[-1]) + 1 if reached.numel() else 0)
