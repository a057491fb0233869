"""The input of the first stage: features that never travel, multiplied by weights on any range of rows."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from halowire.errors import InputError
from halowire.kernels import Csr, row_range
from halowire.layers.dense import affine
from halowire.layers.features import WIDEST_CACHE, Columns, densify
from halowire.partitioning import Shard
from halowire.wire import HaloExchange, exchange_features


@dataclass(eq=False)
class Inputs:
    """Own features ``x`` ``[n, F]`` and, for a model whose first layer aggregates them, what that needs.

    That is ``gathered`` = ``A x``, computed once (dense and not too wide), or the raw halo rows with both matrices.
    """

    x: Tensor | Csr
    gathered: Tensor | None = None
    halo: Columns | None = None
    spread: tuple[Csr, Csr] | None = None
    _columns: dict[tuple[int, int], Columns] = field(default_factory=dict)
    _transposed: tuple[Csr, Csr] | None = None

    @staticmethod
    def of(shard: Shard, exchange: HaloExchange, spread: tuple[Csr, Csr] | None) -> Inputs:
        """The features of ``shard``; ``spread`` = (inner, halo) where the first layer aggregates them."""
        if shard.x is None:
            raise InputError(f"graph {shard.graph!r} has no features; give it `x` (one row per node) to train on it")
        x = densify(shard.x)
        if spread is None:
            return Inputs(x)
        halo = exchange_features(x, shard, exchange)
        if isinstance(x, Csr) or x.shape[1] > WIDEST_CACHE:
            return Inputs(x, None, Columns.of(halo, torch.device("cpu")), spread)
        assert isinstance(halo, Tensor)
        gathered = spread[0].matmul(x)
        spread[1].matmul(halo, out=gathered, accumulate=True)
        return Inputs(x, gathered)

    def columns(self, at: slice) -> Columns:
        """The rows ``at`` of ``x``, ready for products from both sides."""
        key = (at.start, at.stop)
        if key not in self._columns:
            part = row_range(self.x, *key) if isinstance(self.x, Csr) else self.x[at]
            self._columns[key] = Columns.of(part, torch.device("cpu"))
        return self._columns[key]

    def parts(self, at: slice) -> tuple[Csr, Csr]:
        """The rows ``at`` of inner and halo matrix."""
        assert self.spread is not None
        inner, halo = self.spread
        return row_range(inner, at.start, at.stop), row_range(halo, at.start, at.stop)

    def transposed(self) -> tuple[Csr, Csr]:
        """Both matrices transposed, made when first asked for."""
        assert self.spread is not None
        if self._transposed is None:
            self._transposed = self.spread[0].transpose(), self.spread[1].transpose()
        return self._transposed


class FeatureMap:
    """``x W^T (+ b)`` on ranges of rows; the gradient of ``W`` is summed over a pass, then added once.

    The transpose of a sparse ``x`` gives the gradient as ``[F, out]``, so the sum is kept that way round.
    """

    def __init__(self, weight: nn.Parameter) -> None:
        self.weight = weight
        self._sum: Tensor | None = None

    def forward(self, columns: Columns, bias: Tensor | None, out: Tensor, add: bool = False) -> None:
        """``out (+)= x W^T + b``."""
        if isinstance(columns.values, Csr):
            if not add:
                out.zero_()
            columns.times(self.weight, out=out)
            if bias is not None:
                out += bias
        elif add:
            columns.times(self.weight, out=out)
        else:
            affine(columns.values, self.weight.t(), bias, out)

    def backward(self, columns: Columns, grad: Tensor) -> None:
        """Add ``grad^T x`` to the gradient of ``W``."""
        assert self.weight.grad is not None
        if columns.transposed is None:
            assert isinstance(columns.values, Tensor)
            self.weight.grad.addmm_(grad.t(), columns.values)
        elif self._sum is None:
            self._sum = columns.transposed.matmul(grad)
        else:
            columns.transposed.matmul(grad, out=self._sum, accumulate=True)

    def end(self) -> None:
        """Backward is over: hand in what was summed."""
        if self._sum is not None:
            assert self.weight.grad is not None
            self.weight.grad.add_(self._sum.t())
            self._sum = None
