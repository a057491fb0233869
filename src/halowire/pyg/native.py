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

from halowire.layers import Incoming, Summing, empty_rows, gather_whole, scatter_whole
from halowire.pyg.edges import Edges, unmarked
from halowire.pyg.layer_path import LayerPath, first_of
from halowire.pyg.native_gat import NativeGat, misfit_of_gat
from halowire.pyg.pattern import Pattern, Weighted
from halowire.wire import Crossing

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
    """``out_i = sum over edges e = (j, i) of w_e x_j``, ``inner @ x + halo @ x_halo``; no gradient for the weights.

    ``x`` is ``[n, k]`` and crosses, or ``[n + h, k]`` where all of it is held and there is nothing to send. Own edges
    are summed while messages fly: forward while the halo's rows come, backward while their gradients return.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, edges: Weighted, crossing: Crossing | None) -> Tensor:
        """Own edges are summed while the halo's rows come; those are decoded as they are added."""
        x, n = x.contiguous(), edges.inner.num_rows
        ctx.edges = edges
        if crossing is None:
            ctx.summing = None
            out = edges.inner.matmul(x[:n])
            return edges.halo.matmul(x[n:], out=out, accumulate=True) if edges.halo.nnz else out
        incoming = Incoming(crossing.start(x))
        ctx.crossing = crossing
        ctx.summing = Summing(edges.sum(crossing.exchange), crossing.number, empty_rows(x, n, x.shape[1]))
        return gather_whole(ctx.summing, x, incoming, n)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """The halo's gradients leave, own rows' are summed meanwhile, then what returns is added."""
        grad = grads[0].contiguous()
        if ctx.summing is None:  # one worker: rows that are held and have a halo have no gradient
            return ctx.edges.inner_t.matmul(grad), None, None
        with ctx.crossing.backward():
            return scatter_whole(ctx.summing, grad, None, ctx.crossing.exchange), None, None


class NativePropagate:
    """Stands in for ``propagate`` of one layer, and calls it where the fast path does not apply."""

    def __init__(self, layer: nn.Module, weight_name: str, usual: Callable[..., Tensor], path: LayerPath) -> None:
        self._layer, self._name, self._usual, self._path = layer, weight_name, usual, path
        self._pattern: Pattern | None = None

    def __call__(self, edge_index: Tensor, size: Any = None, **inputs: Any) -> Tensor:
        """The layer's aggregated messages."""
        x = inputs.get("x")
        rows = x[0] if isinstance(x, tuple) else x
        weight = inputs.get(self._name) if self._name else None
        obstacle = self._obstacle(edge_index, size, rows, weight)
        self._path.count(self._layer, obstacle)
        if obstacle:
            return self._usual(edge_index, size=size, **inputs)
        assert isinstance(edge_index, Edges) and isinstance(rows, Tensor)
        bridge, edges = edge_index.bridge, unmarked(edge_index)
        if self._pattern is None or not self._pattern.serves(edges):
            self._pattern = Pattern.of(edges, bridge)
        weights = None if weight is None else weight.detach().reshape(-1)
        matrices = self._pattern.weighted(weights, self._layer.aggr == "mean")
        held = bridge.held(rows)
        given = (rows, matrices, bridge.crossing(rows)) if held is None else (held, matrices, None)
        out: Tensor = WeightedSum.apply(*given)  # type: ignore[no-untyped-call]
        return out

    def _obstacle(self, edge_index: Any, size: Any, rows: Any, weight: Tensor | None) -> str:
        """Why the fast path does not apply to this call; empty where it does."""
        layer: Any = self._layer
        if not isinstance(edge_index, Edges):
            return "its edges are not those of the part"
        if not isinstance(rows, Tensor) or rows.dim() != 2:
            return "its input is not one row per node"
        return first_of(
            (layer.flow != "source_to_target" or edge_index.sources != (True, False), "messages go against the edges"),
            (layer.aggr not in SUMS, f"aggr is {layer.aggr}"),
            (size is not None and tuple(size) != (None, None), "it is called with size"),
            (rows.dtype != torch.float32, f"its input is {rows.dtype}"),
            (rows.shape[0] != edge_index.bridge.num_owned, "its input is not one row per node"),
            (weight is not None and weight.requires_grad, "the edges' weights are learnt"),
            (bool(layer.explain), "it is being explained"),
            (layer.decomposed_layers != 1, "it is decomposed"),
            (any(getattr(layer, name) for name in HOOKS), "it has hooks on its messages"),
        )


def use_native(model: nn.Module) -> dict[str, LayerPath]:
    """Give every layer that can have it the fast path; by name, how every PyG layer runs, counted from now on."""
    package = sys.modules.get("torch_geometric.nn")
    if package is None:
        return {}
    known = {getattr(package, name): weight for name, weight in WEIGHTS.items()}
    paths: dict[str, LayerPath] = {}
    for name, module in model.named_modules():
        if not isinstance(module, package.MessagePassing):
            continue
        kind: Any = type(module)
        misfit, path = _misfit(module, kind, known, package.GATConv), LayerPath(kind.__name__)
        paths[name] = path
        if misfit:
            path.reason, path.known = misfit, False
        elif kind is package.GATConv:
            # An attribute of the instance comes before the method of its class; parameters and buffers stay.
            module.forward = NativeGat(module, partial(kind.forward, module), path)
        else:
            usual = partial(kind.propagate, module)
            module.propagate = NativePropagate(module, known[kind], usual, path)
            path.sums = True
    return paths


def _misfit(module: nn.Module, kind: type, known: dict[type, str], gat: type) -> str:
    """Why a layer can have no fast path, whatever it is called with; empty where it can."""
    if kind is gat:
        return misfit_of_gat(module)
    if kind not in known:
        return "halowire has no kernel for this kind of layer"
    return "" if getattr(module, "aggr", None) in SUMS else f"aggr is {getattr(module, 'aggr', None)}"
