"""Input features on a worker; other workers' features that the first layer needs are fetched once, before training."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor, nn

from halowire.errors import InputError
from halowire.kernels import Csr, row_range, side_by_side, sparse_product, stacked
from halowire.layers.aggregation import Aggregation, Sum
from halowire.layers.dense import affine, gradient_of
from halowire.partitioning import Shard
from halowire.wire import Arrival, HaloExchange, any_worker

WIDEST_CACHE = 4096
"""A cached aggregate of more columns than this costs more memory than the product it saves is worth."""
SPARSE_LIMIT = 0.25
"""Bag-of-words rows fuller than this multiply faster as a dense matrix."""


@dataclass(frozen=True, eq=False)
class Columns:
    """A feature matrix ``[rows, F]``, dense or sparse, for products with weights (forward) and gradients (backward)."""

    values: Tensor | Csr

    @cached_property
    def transposed(self) -> Csr | None:
        """The transpose of a sparse matrix, for backward; made at the first use."""
        return self.values.transpose() if isinstance(self.values, Csr) else None

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return self.values.num_rows if isinstance(self.values, Csr) else self.values.shape[0]

    def write(self, weight: Tensor, out: Tensor) -> Tensor:
        """``out = values @ weight.T``, ``[rows, out]``."""
        if isinstance(self.values, Csr):
            return self.values.matmul(weight.t().contiguous(), out=out)
        return torch.mm(self.values, weight.t(), out=out)

    def times(self, weight: Tensor) -> Tensor:
        """``values @ weight.T``, ``[rows, out]``."""
        if isinstance(self.values, Csr):
            return self.values.matmul(weight.t().contiguous())
        return torch.mm(self.values, weight.t())

    def add_times(self, weight: Tensor, out: Tensor) -> None:
        """``out += values @ weight.T``, ``[rows, out]``."""
        if isinstance(self.values, Csr):
            self.values.matmul(weight.t().contiguous(), out=out, accumulate=True)
        else:
            out.addmm_(self.values, weight.t())


@dataclass(eq=False)
class Inputs:
    """The features of a part and, for a model whose first layer aggregates features, the data of that aggregation.

    Attributes:
        x: features of the owned rows, ``[n, F]``.
        gathered: ``A x`` ``[n, F]``, computed once, where features are dense and not too wide and the layer is a sum;
            for copies of halo rows it came from their owners, and may be sparse.
        halo: features of the halo rows ``[h, F]``, where ``A x`` is not kept; the first layer multiplies them.
        aggregation: the edges of the part.
        own_boundary: the sums over owned rows in the boundary's rows ``[b, F]`` of ``A x``, where the policy sends
            features in every epoch.
        copies: what the first layer reads of the halo rows, where this worker computes their first hidden rows itself.
    """

    x: Tensor | Csr
    gathered: Columns | None = None
    halo: Columns | None = None
    aggregation: Aggregation | None = None
    own_boundary: Tensor | None = None
    copies: Inputs | None = None
    _columns: dict[tuple[str, int, int], Columns] = field(default_factory=dict)

    @staticmethod
    def of(shard: Shard, aggregation: Aggregation, aggregates: bool, copies: bool = False) -> Inputs:
        """Make the features of ``shard`` ready; ``aggregates``: the first layer reads features over edges.

        If so, the features of the halo rows are fetched here, once, and training sends none (but see the policy's
        ``resend_input``). For ``copies`` the owners also send ``A x`` of the halo rows here, once.
        """
        if shard.x is None:
            raise InputError(f"graph {shard.graph!r} has no features; give it `x` (one row per node) to train on it")
        x, exchange = densify(shard.x), aggregation.exchange
        device = exchange.device
        # Sparse features are exchanged on the CPU.
        x = x if isinstance(x, Csr) else x.to(device)
        if not aggregates:
            return Inputs(x.to(device), copies=Inputs(exchange.fetch_once(x).to(device)) if copies else None)
        if exchange.policy.resend_input:
            _refuse_unsendable(x, shard.graph)
        halo, themselves = _fetch(x, exchange, copies)
        summed = aggregation.over_rows() if isinstance(aggregation, Sum) and themselves else aggregation
        if isinstance(x, Csr) or x.shape[1] > WIDEST_CACHE or not isinstance(aggregation, Sum):
            found = Inputs(x.to(device), None, Columns(halo.to(device)), summed)
            if copies:
                assert isinstance(summed, Sum)
                found.copies = _copies(_boundary_sums(summed, x, halo), halo, exchange)
            return found
        assert isinstance(halo, Tensor) and isinstance(summed, Sum)
        edges = summed.into(slice(0, summed.num_rows))
        gathered = edges.own(x)
        own = gathered[: aggregation.boundary].clone() if exchange.policy.resend_input else None
        edges.add_halo(Arrival.of(halo), gathered)
        own_copies = _copies(gathered, halo, exchange) if copies else None
        return Inputs(x, Columns(gathered), None, aggregation, own, own_copies)

    @property
    def num_rows(self) -> int:
        """Number of owned rows, ``n``."""
        return self.x.num_rows if isinstance(self.x, Csr) else self.x.shape[0]

    def columns(self, at: slice) -> Columns:
        """The rows ``at`` of ``x``, ready for products from both sides."""
        return self._cut("x", self.x, at)

    def gathered_columns(self, at: slice) -> Columns:
        """The rows ``at`` of ``A x``, where it is kept."""
        assert self.gathered is not None
        return self._cut("gathered", self.gathered.values, at)

    def _cut(self, name: str, values: Tensor | Csr, at: slice) -> Columns:
        key = (name, at.start, at.stop)
        if key not in self._columns:
            self._columns[key] = Columns(row_range(values, *key[1:]) if isinstance(values, Csr) else values[at])
        return self._columns[key]

    def whole(self) -> Columns:
        """All rows of ``x``."""
        return self.columns(slice(0, self.num_rows))


class FeatureMap:
    """``x W^T (+ b)`` on ranges of rows; the gradient of ``W`` is summed over a pass.

    A product with the transpose of a sparse ``x`` gives the transposed gradient, ``[F, out]``; so the sum has that
    shape until the end of the pass.
    """

    def __init__(self, weight: nn.Parameter) -> None:
        self.weight = weight
        self._sum: Tensor | None = None

    def forward(self, columns: Columns, bias: Tensor | None, out: Tensor) -> None:
        """``out = x W^T + b``."""
        if isinstance(columns.values, Csr):
            columns.write(self.weight, out)
            if bias is not None:
                out += bias
        else:
            affine(columns.values, self.weight.t(), bias, out)

    def backward(self, columns: Columns, grad: Tensor) -> None:
        """Add ``grad^T x`` to the gradient of ``W``."""
        if not columns.num_rows:
            return
        if columns.transposed is None:
            assert isinstance(columns.values, Tensor)
            gradient_of(self.weight).addmm_(grad.t(), columns.values)
        elif self._sum is None:
            self._sum = columns.transposed.matmul(grad)
        else:
            columns.transposed.matmul(grad, out=self._sum, accumulate=True)

    def end(self) -> None:
        """End backward: add the sum to the gradient of ``W``."""
        if self._sum is not None:
            gradient_of(self.weight).add_(self._sum.t())
            self._sum = None


def _fetch(x: Tensor | Csr, exchange: HaloExchange, themselves: bool) -> tuple[Tensor | Csr, bool]:
    """The features of the halo, and whether they are those of its rows ``[h, F]`` themselves.

    Under a cover, partial sums may stand for rows of dense features, where they are smaller than the rows in their
    smallest exact form; not so if the rows ``themselves`` are needed, or some worker's own rows stay sparse.
    """
    if exchange.policy.cover and not themselves and not any_worker(isinstance(x, Csr), exchange.transport):
        assert isinstance(x, Tensor)
        return exchange.fetch_fewest(x)
    return exchange.fetch_once(x), True


def _boundary_sums(edges: Sum, x: Tensor | Csr, halo: Tensor | Csr) -> Tensor | Csr:
    """The boundary's rows of ``A x``, dense or sparse like ``x``."""
    boundary = edges.into(slice(0, edges.boundary))
    if isinstance(x, Tensor):
        assert isinstance(halo, Tensor)
        return boundary.sum(x, halo)
    assert isinstance(halo, Csr)
    here = torch.device("cpu")
    edges_here = side_by_side(boundary.inner.to(here), boundary.halo.to(here))
    return sparse_product(edges_here, stacked([x, halo], x.num_cols))


def _copies(sums: Tensor | Csr, halo: Tensor | Csr, exchange: HaloExchange) -> Inputs:
    """What the first layer reads of the halo rows: their features ``halo``, and ``A x`` from their owners' ``sums``."""
    device = exchange.device
    return Inputs(halo.to(device), Columns(densify(exchange.fetch_once(sums)).to(device)))


def _refuse_unsendable(x: Tensor | Csr, graph: str) -> None:
    width = x.num_cols if isinstance(x, Csr) else x.shape[1]
    if isinstance(x, Csr) or width > WIDEST_CACHE:
        kind = "sparse" if isinstance(x, Csr) else "dense"
        raise InputError(
            f"--rate.resend-input needs dense features of at most {WIDEST_CACHE} columns, but those of graph {graph!r} "
            f"are {kind} with {width}; leave it out"
        )


def densify(x: Tensor | Csr) -> Tensor | Csr:
    """Keep bag-of-words features sparse if that makes products faster, else make them a dense matrix."""
    return x.to_dense() if isinstance(x, Csr) and not stays_sparse(x) else x


def stays_sparse(x: Tensor | Csr | None) -> bool:
    """Whether products with the features ``x`` are faster while they are sparse."""
    return isinstance(x, Csr) and x.nnz <= SPARSE_LIMIT * x.num_rows * x.num_cols
