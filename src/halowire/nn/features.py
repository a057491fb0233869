"""Input features on a worker: what layer 0 needs from other workers is fetched once, before training."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from halowire.exchange import HaloExchange, exchange_features
from halowire.kernels import Csr, InputError
from halowire.nn.propagation import Propagation
from halowire.partition import Shard

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

    def times(self, weight: Tensor, out: Tensor | None = None) -> Tensor:
        """``values @ weight.T``, added to ``out`` if given: ``[rows, out]``."""
        if isinstance(self.values, Csr):
            return self.values.matmul(weight.t().contiguous(), out=out, accumulate=out is not None)
        return torch.mm(self.values, weight.t()) if out is None else out.addmm_(self.values, weight.t())

    def weight_grad(self, grad: Tensor) -> Tensor:
        """``grad.T @ values``: ``[out, F]``, for ``grad`` ``[rows, out]``."""
        if self.transposed is not None:
            return self.transposed.matmul(grad).t()
        assert isinstance(self.values, Tensor)
        return grad.t() @ self.values


@dataclass(frozen=True, eq=False)
class Features:
    """The input of layer 0: own rows, and either the finished aggregate or the raw halo rows.

    - ``gathered`` ``[n, F]`` is ``A x``, computed once (dense inputs): layer 0 becomes a plain linear map of
      ``[x, A x]``.
    - ``halo`` ``[h, F]`` are the raw halo rows (sparse or very wide inputs): layer 0 multiplies them by its weights
      locally. Neither needs the wire during training.
    """

    own: Columns
    gathered: Tensor | None
    halo: Columns | None

    @staticmethod
    def of(shard: Shard, spread: Propagation, exchange: HaloExchange, device: torch.device) -> Features:
        """Exchange the features of ``shard`` once and prepare layer 0."""
        if shard.x is None:
            raise InputError(f"graph {shard.graph!r} has no features; give it `x` (one row per node) to train on it")
        x = _densify(shard.x)
        halo = exchange_features(x if isinstance(x, Csr) else x.to(device), shard, exchange)
        own = Columns.of(x, device)
        if isinstance(own.values, Csr) or own.values.shape[1] > WIDEST_CACHE:
            return Features(own, None, Columns.of(halo, device))
        assert isinstance(halo, Tensor)
        gathered = spread.inner.matmul(own.values)
        spread.halo.matmul(halo, out=gathered, accumulate=True)
        return Features(own, gathered, None)


def _densify(x: Tensor | Csr) -> Tensor | Csr:
    if isinstance(x, Csr) and x.nnz > SPARSE_LIMIT * x.num_rows * x.num_cols:
        return x.to_dense()
    return x
