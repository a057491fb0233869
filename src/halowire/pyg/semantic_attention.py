"""``HANConv`` weighs the edge types that lead to a node type by a mean over all nodes of that type, on all workers.

    score_r = q . mean over nodes i of tanh(W z_i^r + b),    beta = softmax over r of score_r
    out_i = sum over r of beta_r z_i^r

``z^r`` ``[n, F]`` are the aggregates of the edge type ``r``. A worker's nodes are not all nodes of the type, so the
mean is the sum over all workers, divided by their number of nodes; the rest is PyG's own layer.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from halowire.pyg.model_pass import ModelPass

ByType = dict[str, Tensor | None]


class WholeHan:
    """Replaces ``forward`` of one ``HANConv``, and uses the layer's own parameters."""

    def __init__(self, layer: Any, passing: ModelPass) -> None:
        self._layer = layer
        self._passing = passing

    def __call__(
        self,
        x_dict: dict[str, Tensor],
        edge_index_dict: dict[Any, Any],
        return_semantic_attention_weights: bool = False,
    ) -> ByType | tuple[ByType, ByType]:
        """The layer's output by node type, ``[n, F]``; None for types that no edges lead to."""
        layer = self._layer
        rows = {
            name: layer.proj[name](x).view(-1, layer.heads, layer.out_channels // layer.heads)
            for name, x in x_dict.items()
        }
        found: dict[str, list[Tensor]] = {name: [] for name in x_dict}
        for kind, edge_index in edge_index_dict.items():
            label = "__".join(kind)
            source, target = rows[kind[0]], rows[kind[-1]]
            scores = (source * layer.lin_src[label]).sum(-1), (target * layer.lin_dst[label]).sum(-1)
            found[kind[-1]].append(layer.propagate(edge_index, x=(source, target), alpha=scores).relu())
        out: ByType = {}
        weights: ByType = {}
        for name, aggregates in found.items():
            out[name], weights[name] = self._mixed(aggregates) if aggregates else (None, None)
        return (out, weights) if return_semantic_attention_weights else out

    def _mixed(self, aggregates: list[Tensor]) -> tuple[Tensor, Tensor]:
        """The weighted sum ``[n, F]`` of the edge types' aggregates, and the weights ``[r]``."""
        layer = self._layer
        together = torch.stack(aggregates)
        hidden = torch.tanh(layer.k_lin(together)).sum(1)
        sums = torch.cat([hidden.reshape(-1), hidden.new_full((1,), together.shape[1])])
        total = self._passing.whole_sum(sums)
        mean = total[:-1].view_as(hidden) / total[-1].detach()
        weights = F.softmax((layer.q * mean).sum(-1), 0)
        return (weights.view(-1, 1, 1) * together).sum(0), weights
