"""PyG's ``LightGCN`` on many workers: its rows are those of this worker's nodes, its losses those of all pairs.

``get_embedding`` is a pass of the model. Scores are products of rows of any nodes, named by pairs (`Pairs`), and

    recommendation_loss = (sum over pairs of -log sigmoid(p - n) + lambda sum over named nodes of |e_v|^2) / pairs

runs over the pairs of all workers, and counts every node once that some worker's pairs name.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from halowire.errors import InputError
from halowire.pyg.any_nodes import Directory
from halowire.pyg.data_part import ShardData, part_of
from halowire.pyg.edges import Edges
from halowire.pyg.hetero_data import HeteroShardData
from halowire.pyg.pairs import Pairs

ROWS = "get_embedding"
"""The method of ``LightGCN`` that gives one row for each node."""


def rows_entry(model: nn.Module) -> str:
    """The method of ``model`` that gives rows of nodes; empty for all models whose ``forward`` does."""
    package = sys.modules.get("torch_geometric.nn")
    return ROWS if package is not None and isinstance(model, package.LightGCN) else ""


def spread_light_gcn(model: nn.Module, data: ShardData | HeteroShardData) -> None:
    """Give a ``LightGCN`` scores of pairs, losses and recommendations of the whole graph."""
    if not rows_entry(model):
        return
    if isinstance(data, HeteroShardData):
        raise InputError("LightGCN takes a graph of one node type; give halowire.shard data.to_homogeneous()")
    whole = WholeLightGcn(model, data)
    for name in ("forward", "recommend", "link_pred_loss", "recommendation_loss"):
        # An attribute of the instance comes before the method of its class.
        object.__setattr__(model, name, getattr(whole, name))


class WholeLightGcn:
    """What replaces the methods of a ``LightGCN``; arguments and results are PyG's."""

    def __init__(self, model: Any, data: ShardData) -> None:
        self._model = model
        self._data = data

    def forward(self, edge_index: Any, edge_label_index: Any = None, edge_weight: Tensor | None = None) -> Tensor:
        """The scores of this worker's pairs ``edge_label_index``, or of its edges, ``[P]``."""
        pairs = edge_index if edge_label_index is None else edge_label_index
        if isinstance(pairs, Edges):
            pairs = self._part(edge_index).edge_pairs()
        if not isinstance(pairs, Pairs):
            raise InputError(
                "LightGCN got pairs of nodes that are no attribute of the part; give data.edge_label_index, or make "
                "them pairs: data.pairs(index), which takes this worker's share of them"
            )
        out = self._model.get_embedding(edge_index, edge_weight)
        scores: Tensor = (out[pairs[0]] * out[pairs[1]]).sum(-1)
        return scores

    def recommend(
        self, edge_index: Any, edge_weight: Tensor | None = None, src_index: Tensor | None = None,
        dst_index: Tensor | None = None, k: int = 1, sorted: bool = True,
    ) -> Tensor:  # fmt: skip
        """The ``k`` best nodes of ``dst_index`` for each of ``src_index``; both hold numbers of the whole graph.

        Without ``src_index`` there is a row for each of this worker's nodes, which ``data.gather`` puts together.
        """
        part = self._part(edge_index)
        rows = self._model.get_embedding(edge_index, edge_weight)
        targets = torch.arange(part.shard.num_nodes) if dst_index is None else dst_index
        sources = rows if src_index is None else part.rows_of(rows, src_index)
        best = (sources @ part.rows_of(rows, targets).t()).topk(k, dim=-1, sorted=sorted).indices
        return targets.to(best.device)[best]

    def link_pred_loss(self, pred: Tensor, edge_label: Tensor, **options: Any) -> Tensor:
        """The binary cross entropy of the scores of all workers' pairs."""
        return self._data.binary_cross_entropy_with_logits(pred, edge_label.to(pred.dtype), **options)

    def recommendation_loss(
        self, pos_edge_rank: Tensor, neg_edge_rank: Tensor, node_id: Tensor | None = None, lambda_reg: float = 1e-4
    ) -> Tensor:
        """The BPR loss of all workers' pairs; ``node_id`` are the nodes, of the whole graph, that these pairs name."""
        values = -F.logsigmoid(pos_edge_rank - neg_edge_rank)
        rows = self._model.embedding.weight
        if node_id is not None:
            rows = rows[Directory.of(self._data.bridge).named_rows(node_id)]
        return self._data.ratio(torch.cat([values, lambda_reg * rows.square().sum(1)]), values.numel())

    def _part(self, edge_index: Any) -> ShardData:
        part = part_of((edge_index,)) or self._data
        assert isinstance(part, ShardData)
        return part
