"""Fast paths: PyG layers that sum or average weighted rows, served by the native kernels."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function

from halowire.kernels import Csr
from halowire.nn.foreign.edges import Edges, plain
from halowire.nn.foreign.link import Link

WEIGHTS = {
    "GCNConv": "edge_weight", "GCN2Conv": "edge_weight", "GraphConv": "edge_weight", "APPNP": "edge_weight",
    "SGConv": "edge_weight", "SSGConv": "edge_weight", "TAGConv": "edge_weight", "LGConv": "edge_weight",
    "ChebConv": "norm", "SAGEConv": "", "GINConv": "",
}  # fmt: skip
"""Layers of ``torch_geometric.nn`` with messages ``weight_e x_j``, and what their weight is called (none: 1)."""
SUMS = ("add", "sum", "mean")
HOOKS = (
    "_propagate_forward_pre_hooks", "_propagate_forward_hooks", "_message_forward_pre_hooks", "_message_forward_hooks",
    "_aggregate_forward_pre_hooks", "_aggregate_forward_hooks",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Sorted:
    """Edges sorted by one end: where each row starts, the other ends, and the places of the edges before."""

    indptr: Tensor
    indices: Tensor
    order: Tensor
    num_cols: int

    @staticmethod
    def of(rows: Tensor, cols: Tensor, num_rows: int, num_cols: int) -> _Sorted:
        order = torch.argsort(rows, stable=True)
        indptr = torch.zeros(num_rows + 1, dtype=torch.int64, device=rows.device)
        torch.cumsum(torch.bincount(rows, minlength=num_rows), 0, out=indptr[1:])
        return _Sorted(indptr, cols[order].int(), order, num_cols)

    def matrix(self, weight: Tensor | None) -> Csr:
        return Csr(self.indptr, self.indices, None if weight is None else weight[self.order], self.num_cols)


@dataclass(frozen=True, eq=False)
class Pattern:
    """The edges of one layer as a matrix ``[n, n + h]`` and its transpose."""

    edges: Tensor
    forth: _Sorted
    back: _Sorted

    @staticmethod
    def of(edges: Tensor, link: Link) -> Pattern:
        """Sort ``edges`` ``[2, E]`` by destination and by source."""
        rows, cols = link.num_owned, link.num_owned + link.num_halo
        return Pattern(edges, _Sorted.of(edges[1], edges[0], rows, cols), _Sorted.of(edges[0], edges[1], cols, rows))


class WeightedSum(Function):
    """``out_i = sum over edges e = (j, i) of w_e x_j`` for ``x`` ``[n + h, k]``; no gradient for the weights."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, pattern: Pattern, weight: Tensor | None) -> Tensor:
        """``A x``."""
        ctx.pattern, ctx.weight = pattern, weight
        return pattern.forth.matrix(weight).matmul(x.contiguous())

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """``A^T grad``."""
        return ctx.pattern.back.matrix(ctx.weight).matmul(grads[0].contiguous()), None, None


class NativePropagate:
    """Stands in for ``propagate`` of one layer, and calls it where the fast path does not apply."""

    def __init__(self, layer: nn.Module, weight_name: str, usual: Callable[..., Tensor]) -> None:
        self._layer, self._name, self._usual = layer, weight_name, usual
        self._pattern: Pattern | None = None

    def __call__(self, edge_index: Tensor, size: Any = None, **inputs: Any) -> Tensor:
        """The layer's aggregated messages."""
        x = inputs.get("x")
        rows = x[0] if isinstance(x, tuple) else x
        weight = inputs.get(self._name) if self._name else None
        if not self._applies(edge_index, size, rows, weight):
            return self._usual(edge_index, size=size, **inputs)
        assert isinstance(edge_index, Edges) and isinstance(rows, Tensor)
        link, edges = edge_index.link, plain(edge_index)
        if self._pattern is None or not _equal(self._pattern.edges, edges):
            self._pattern = Pattern.of(edges, link)
        weights = None if weight is None else weight.detach().reshape(-1)
        out: Tensor = WeightedSum.apply(link.extend(rows, 0), self._pattern, weights)  # type: ignore[no-untyped-call]
        if self._layer.aggr != "mean":
            return out
        return out / self._pattern.forth.indptr.diff().clamp(min=1).to(out.dtype)[:, None]

    def _applies(self, edge_index: Tensor, size: Any, rows: Any, weight: Tensor | None) -> bool:
        layer: Any = self._layer
        return (
            isinstance(edge_index, Edges)
            and edge_index.sources == (True, False)
            and layer.flow == "source_to_target"
            and layer.aggr in SUMS
            and (size is None or tuple(size) == (None, None))
            and isinstance(rows, Tensor)
            and rows.dim() == 2
            and rows.dtype == torch.float32
            and rows.shape[0] == edge_index.link.num_owned
            and (weight is None or not weight.requires_grad)
            and not layer.explain
            and layer.decomposed_layers == 1
            and not any(getattr(layer, name) for name in HOOKS)
        )


def use_native(model: nn.Module) -> list[str]:
    """Give every layer that can have it the fast path; their names."""
    package = sys.modules.get("torch_geometric.nn")
    known = {} if package is None else {getattr(package, name): weight for name, weight in WEIGHTS.items()}
    found = []
    for name, module in model.named_modules():
        weight = known.get(type(module))
        if weight is not None and getattr(module, "aggr", None) in SUMS:
            usual = partial(type(module).propagate, module)
            module.propagate = NativePropagate(module, weight, usual)
            found.append(name)
    return found


def _equal(first: Tensor, second: Tensor) -> bool:
    return first is second or (first.shape == second.shape and torch.equal(first, second))
