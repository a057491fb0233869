"""Input features on a worker; other workers' features that the first layer needs are fetched once, before training."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor, nn

from halowire.errors import InputError
from halowire.kernels import Csr, row_range
from halowire.layers.aggregation import Aggregation, Sum
from halowire.layers.dense import affine, gradient_of
from halowire.partitioning import Shard
from halowire.wire import Arrival

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
        gathered: ``A x`` ``[n, F]``, computed once, where features are dense and not too wide and the layer is a sum.
        halo: features of the halo rows ``[h, F]``, where ``A x`` is not kept; the first layer multiplies them.
        aggregation: the edges of the part.
        own_boundary: the sums over owned rows in the boundary's rows ``[b, F]`` of ``A x``, where the policy sends
            features in every epoch.
    """

    x: Tensor | Csr
    gathered: Tensor | None = None
    halo: Columns | None = None
    aggregation: Aggregation | None = None
    own_boundary: Tensor | None = None
    _columns: dict[tuple[int, int], Columns] = field(default_factory=dict)

    @staticmethod
    def of(shard: Shard, aggregation: Aggregation, aggregates: bool) -> Inputs:
        """Make the features of ``shard`` ready; ``aggregates``: the first layer reads features over edges.

        If so, the features of the halo rows are fetched here, once, and training sends none (but see the policy's
        ``resend_input``).
        """
        if shard.x is None:
            raise InputError(f"graph {shard.graph!r} has no features; give it `x` (one row per node) to train on it")
        x, exchange = densify(shard.x), aggregation.exchange
        device = exchange.device
        # Sparse features are exchanged on the CPU.
        x = x if isinstance(x, Csr) else x.to(device)
        if not aggregates:
            return Inputs(x.to(device))
        if exchange.policy.resend_input:
            _refuse_unsendable(x, shard.graph)
        halo = exchange.fetch_sparse(x) if isinstance(x, Csr) else exchange.fetch(x)
        if isinstance(x, Csr) or x.shape[1] > WIDEST_CACHE or not isinstance(aggregation, Sum):
            return Inputs(x.to(device), None, Columns(halo.to(device)), aggregation)
        assert isinstance(halo, Tensor)
        edges = aggregation.into(slice(0, aggregation.num_rows))
        gathered = edges.own(x)
        own = gathered[: aggregation.boundary].clone() if exchange.policy.resend_input else None
        edges.add_halo(Arrival.of(halo), gathered)
        return Inputs(x, gathered, None, aggregation, own)

    @property
    def num_rows(self) -> int:
        """Number of owned rows, ``n``."""
        return self.x.num_rows if isinstance(self.x, Csr) else self.x.shape[0]

    def columns(self, at: slice) -> Columns:
        """The rows ``at`` of ``x``, ready for products from both sides."""
        key = (at.start, at.stop)
        if key not in self._columns:
            self._columns[key] = Columns(row_range(self.x, *key) if isinstance(self.x, Csr) else self.x[at])
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
    if isinstance(x, Csr) and x.nnz > SPARSE_LIMIT * x.num_rows * x.num_cols:
        return x.to_dense()
    return x
