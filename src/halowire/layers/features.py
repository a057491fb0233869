"""Input features on a worker: what layer 0 needs from other workers is fetched once, before training."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.kernels import Csr, row_range
from halowire.layers.attention import Attention
from halowire.layers.dense import add_product
from halowire.layers.propagation import Propagation
from halowire.partitioning import Shard
from halowire.wire import HaloExchange, exchange_features

# A cached aggregate of more columns than this costs more memory than the product it saves is worth.
WIDEST_CACHE = 4096
# Bag-of-words rows fuller than this multiply faster as a dense matrix.
SPARSE_LIMIT = 0.25


@dataclass(frozen=True, eq=False)
class Columns:
    """A feature matrix ``[rows, F]``, dense or sparse, that multiplies weights from the right and from the left."""

    values: Tensor | Csr
    transposed: Csr | None = None

    @staticmethod
    def of(values: Tensor | Csr, device: torch.device) -> Columns:
        """Keep ``values``, and the transpose that backward needs if they are sparse."""
        if isinstance(values, Csr):
            return Columns(values.to(device), values.transpose().to(device))
        return Columns(values.to(device))

    @property
    def num_cols(self) -> int:
        """Number of features, ``F``."""
        return self.values.num_cols if isinstance(self.values, Csr) else self.values.shape[1]

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return self.values.num_rows if isinstance(self.values, Csr) else self.values.shape[0]

    def rows(self, rows: slice) -> Columns:
        """Some of the rows, for :meth:`times` alone; nothing is copied but row pointers."""
        if isinstance(self.values, Csr):
            return Columns(row_range(self.values, rows.start, rows.stop))
        return Columns(self.values[rows])

    def times(self, weight: Tensor, out: Tensor | None = None) -> Tensor:
        """``values @ weight.T``, added to ``out`` if given: ``[rows, out]``."""
        if isinstance(self.values, Csr):
            return self.values.matmul(weight.t().contiguous(), out=out, accumulate=out is not None)
        return torch.mm(self.values, weight.t()) if out is None else out.addmm_(self.values, weight.t())

    def write(self, weight: Tensor, out: Tensor) -> None:
        """``out = values @ weight.T``, ``[rows, out]``."""
        if isinstance(self.values, Csr):
            self.values.matmul(weight.t().contiguous(), out=out)
        else:
            torch.mm(self.values, weight.t(), out=out)

    def weight_grad(self, grad: Tensor, total: Tensor | None = None) -> Tensor:
        """``grad.T @ values``, added to ``total`` if given: ``[out, F]``, for ``grad`` ``[rows, out]``."""
        if total is not None and not self.num_rows:
            return total
        if self.transposed is not None:
            out = None if total is None else total.t()
            return self.transposed.matmul(grad, out=out, accumulate=out is not None).t()
        assert isinstance(self.values, Tensor)
        return add_product(total, grad.t(), self.values)


@dataclass(frozen=True, eq=False)
class Features:
    """The input of layer 0: own rows, and either the finished aggregate or the raw halo rows.

    - ``gathered`` ``[n, F]`` is ``A x``, computed once (dense inputs): layer 0 becomes a plain linear map of
      ``[x, A x]``.
    - ``halo`` ``[h, F]`` are the raw halo rows (sparse or very wide inputs, attention): layer 0 multiplies them by its
      weights locally. Neither needs the wire during training.
    - ``inner_head`` ``[head, F]`` is ``inner_head @ x``, kept where the policy sends the halo's part in every epoch.

    ``head`` and ``tail`` are the two parts of the own rows, cut where ``spread`` is.
    """

    own: Columns
    head: Columns
    tail: Columns
    gathered: Tensor | None
    halo: Columns | None
    inner_head: Tensor | None = None

    @staticmethod
    def of(shard: Shard, spread: Propagation, exchange: HaloExchange, device: torch.device) -> Features:
        """Exchange the features of ``shard`` once and prepare layer 0."""
        if shard.x is None:
            raise InputError(f"graph {shard.graph!r} has no features; give it `x` (one row per node) to train on it")
        x = densify(shard.x)
        # Sparse features are transposed before they move.
        x = x if isinstance(x, Csr) else x.to(device)
        if exchange.policy.resend_input:
            _refuse_unsendable(x, shard.graph)
        halo = exchange_features(x, shard, exchange)
        own = Columns(x.to(device))
        head, tail = (Columns.of(part, device) for part in _cut(x, spread.head))
        # Attention is not linear in the rows: there is no aggregate to cache.
        if isinstance(own.values, Csr) or own.values.shape[1] > WIDEST_CACHE or isinstance(spread, Attention):
            return Features(own, head, tail, None, Columns.of(halo, device))
        assert isinstance(halo, Tensor)
        gathered = spread.inner.matmul(own.values)
        inner = gathered[: spread.head].clone() if exchange.policy.resend_input else None
        spread.halo.matmul(halo, out=gathered, accumulate=True)
        return Features(own, head, tail, gathered, None, inner)


def _refuse_unsendable(x: Tensor | Csr, graph: str) -> None:
    width = x.num_cols if isinstance(x, Csr) else x.shape[1]
    if isinstance(x, Csr) or width > WIDEST_CACHE:
        kind = "sparse" if isinstance(x, Csr) else "dense"
        raise InputError(
            f"--rate.resend-input needs dense features of at most {WIDEST_CACHE} columns, but those of graph {graph!r} "
            f"are {kind} with {width}; leave it out"
        )


def _cut(x: Tensor | Csr, head: int) -> tuple[Tensor | Csr, Tensor | Csr]:
    if isinstance(x, Csr):
        return row_range(x, 0, head), row_range(x, head, x.num_rows)
    return x[:head], x[head:]


def densify(x: Tensor | Csr) -> Tensor | Csr:
    """Bag-of-words rows as they are while they are sparse enough to gain from it, else as a dense matrix."""
    if isinstance(x, Csr) and x.nnz > SPARSE_LIMIT * x.num_rows * x.num_cols:
        return x.to_dense()
    return x
