"""Fast paths: PyG layers that sum or average weighted rows, or attend, served by the native kernels."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from halowire.nn.foreign.edges import Edges, plain
from halowire.nn.foreign.native_gat import NativeGat, fits_gat
from halowire.nn.foreign.pattern import Pattern, Weighted

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


class WeightedSum(Function):
    """``out_i = sum over edges e = (j, i) of w_e x_j`` for ``x`` ``[n + h, k]``; no gradient for the weights."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, edges: Weighted) -> Tensor:
        """``A x``."""
        ctx.edges = edges
        return edges.forth.matmul(x.contiguous())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """``A^T grad``."""
        return ctx.edges.back.matmul(grads[0].contiguous()), None


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
        if self._pattern is None or not self._pattern.serves(edges):
            self._pattern = Pattern.of(edges, link)
        weights = None if weight is None else weight.detach().reshape(-1)
        matrices = self._pattern.weighted(weights, self._layer.aggr == "mean")
        out: Tensor = WeightedSum.apply(link.extend(rows, 0), matrices)  # type: ignore[no-untyped-call]
        return out

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
        elif package is not None and type(module) is package.GATConv and fits_gat(module):
            # An attribute of the instance comes before the method of its class; parameters and buffers stay.
            module.forward = NativeGat(module, partial(type(module).forward, module))
            found.append(name)
    return found
