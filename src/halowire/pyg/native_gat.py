"""The fast path of PyG's ``GATConv``: attention by the native kernels, with the layer's own parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from halowire.kernels import MOST_HEADS, row_range
from halowire.layers import Attending
from halowire.pyg.edges import Edges, unmarked
from halowire.pyg.layer_path import LayerPath, first_of
from halowire.pyg.pattern import Pattern

HOOKS = (
    "_propagate_forward_pre_hooks", "_propagate_forward_hooks", "_message_forward_pre_hooks", "_message_forward_hooks",
    "_aggregate_forward_pre_hooks", "_aggregate_forward_hooks", "_edge_update_forward_pre_hooks",
    "_edge_update_forward_hooks",
)  # fmt: skip


class Attend(Function):
    """``z`` ``[n + h, H C]`` and the score vectors ``[H, C]`` to ``[n, H C]``; see `halowire.kernels.attend`."""

    @staticmethod
    def forward(
        ctx: Any, z: Tensor, source: Tensor, target: Tensor, pattern: Pattern, slope: float, backward: bool
    ) -> Tensor:
        """One softmax over own and halo edges."""
        forth, back = pattern.forth.matrix(None), pattern.back.matrix(None)
        n = forth.num_rows
        transposed = row_range(back, 0, n), row_range(back, n, back.num_rows)
        attending = Attending(forth, *transposed, z, (source, target), slope, backward)
        attending.halo_scores()
        attending.attend(slice(0, n))
        if backward:
            ctx.save_for_backward(z, source, target)  # so that a change in place is noticed
            ctx.attending = attending
        return attending.out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of ``z`` and of both score vectors."""
        _ = ctx.saved_tensors
        halo = ctx.attending.halo_back(grads[0])
        own, source_grad, target_grad = ctx.attending.own_back(grads[0])
        return torch.cat([own, halo]), source_grad, target_grad, None, None, None


class NativeGat:
    """Stands in for ``forward`` of one ``GATConv``, and calls it where the fast path does not apply."""

    def __init__(self, layer: nn.Module, usual: Callable[..., Any], path: LayerPath) -> None:
        self._layer, self._usual, self._path = layer, usual, path
        self._pattern: Pattern | None = None

    def __call__(
        self,
        x: Any,
        edge_index: Any,
        edge_attr: Any = None,
        size: Any = None,
        return_attention_weights: bool | None = None,
    ) -> Any:
        """The layer's output, ``[n, H C]`` or, of averaged heads, ``[n, C]``."""
        layer: Any = self._layer
        others = (edge_attr, size, return_attention_weights)
        obstacle = self._obstacle(x, edge_index) or _asked_for(*others)
        self._path.count(layer, obstacle)
        if obstacle:
            return self._usual(x, edge_index, *others)
        bridge, edges = edge_index.bridge, unmarked(edge_index)
        if self._pattern is None or not self._pattern.serves(edges):
            self._pattern = Pattern.of(edges, bridge, loops=layer.add_self_loops)
        held = bridge.extend(layer.lin(x), 0)
        scores = layer.att_src[0], layer.att_dst[0]
        backward = torch.is_grad_enabled()
        out: Tensor = Attend.apply(held, *scores, self._pattern, layer.negative_slope, backward)  # type: ignore[no-untyped-call]
        if not layer.concat:
            out = out.view(len(out), layer.heads, layer.out_channels).mean(1)
        if layer.res is not None:
            out = out + layer.res(x)
        # What backward needs is not handed out: the model may change its rows in place.
        return out.clone() if layer.bias is None else out + layer.bias

    def _obstacle(self, x: Any, edge_index: Any) -> str:
        """Why the fast path does not apply to this call; empty where it does."""
        layer: Any = self._layer
        if not isinstance(edge_index, Edges):
            return "its edges are not those of the part"
        if not isinstance(x, Tensor) or x.dim() != 2:
            return "its input is not one row per node"
        return first_of(
            (edge_index.sources != (True, False), "messages go against the edges"),
            (x.dtype != torch.float32, f"its input is {x.dtype}"),
            (x.shape[0] != edge_index.bridge.num_owned, "its input is not one row per node"),
            (layer.training and layer.dropout > 0, "dropout of attention while training"),
            (bool(layer.explain), "it is being explained"),
            (any(getattr(layer, name) for name in HOOKS), "it has hooks on its messages"),
        )


def _asked_for(edge_attr: Any, size: Any, weights: Any) -> str:
    return first_of(
        (edge_attr is not None, "edge features"),
        (size is not None, "it is called with size"),
        (weights is not None, "its attention weights are asked for"),
    )


def misfit_of_gat(layer: Any) -> str:
    """Why a ``GATConv`` has options that the kernels do not know; empty where they know all."""
    return first_of(
        (layer.lin is None, "sources and targets have different widths"),
        (layer.lin_edge is not None, "edge features"),
        (layer.aggr not in ("add", "sum"), f"aggr is {layer.aggr}"),
        (layer.flow != "source_to_target", "messages go against the edges"),
        (layer.decomposed_layers != 1, "it is decomposed"),
        (layer.heads > MOST_HEADS, f"more than {MOST_HEADS} heads"),
        (not 0 <= layer.negative_slope <= 1, f"negative_slope is {layer.negative_slope}"),
    )
