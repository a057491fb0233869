"""PyG's autoencoders learn to rebuild the edges: their losses become means over the pairs and nodes of all workers."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from halowire.errors import InputError
from halowire.pyg.edges import Edges
from halowire.pyg.hetero_data import HeteroShardData
from halowire.pyg.pairs import Pairs

if TYPE_CHECKING:
    from halowire.pyg.data_part import ShardData

EPSILON = 1e-15
LARGEST_LOGSTD = 10
"""Constants of PyG's ``autoencoder.py``."""


def spread_autoencoder(model: nn.Module, data: ShardData | HeteroShardData) -> None:
    """Give a ``GAE`` or ``VGAE`` losses of the whole graph."""
    package = sys.modules.get("torch_geometric.nn")
    if package is None or not isinstance(model, package.GAE):
        return
    if isinstance(data, HeteroShardData):
        raise InputError(
            f"{type(model).__name__} rebuilds the edges of one type of nodes; distribute its encoder, and write the "
            "loss with data.mean"
        )
    if isinstance(model, package.ARGA):
        raise InputError(
            f"{type(model).__name__} learns against a discriminator, by a loss of this worker's rows alone; use GAE or "
            "VGAE, or write both losses with data.mean"
        )
    # An attribute of the instance comes before the method of its class.
    object.__setattr__(model, "recon_loss", ReconstructionLoss(model, data))
    if isinstance(model, package.VGAE):
        object.__setattr__(model, "kl_loss", DivergenceLoss(model, data))


class ReconstructionLoss:
    """``mean over edges of -log d(z, u, v) + mean over drawn pairs of -log(1 - d(z, u, v))``, of the whole graph."""

    def __init__(self, model: Any, data: ShardData) -> None:
        self._model = model
        self._data = data

    def __call__(self, z: Tensor, pos_edge_index: Tensor, neg_edge_index: Tensor | None = None) -> Tensor:
        """The loss of the rows ``z``; as many pairs without an edge as there are edges are drawn, if none are given."""
        data, decoder = self._data, self._model.decoder
        positive = pos_edge_index
        if isinstance(positive, Edges):
            positive = data.edge_pairs()
        if not isinstance(positive, Pairs):
            raise InputError(
                "recon_loss got pairs that are no attribute of the part; give data.pos_edge_label_index or "
                "data.edge_index, or make them pairs: data.pairs(index)"
            )
        if neg_edge_index is None:
            count = data.transport.all_reduce(torch.tensor([positive.shape[1]]), "count of the edges", account=None)
            neg_edge_index = data.negative_sampling(int(count))
        found = -torch.log(decoder(z, positive, sigmoid=True) + EPSILON)
        other = -torch.log(1 - decoder(z, neg_edge_index, sigmoid=True) + EPSILON)
        return data.mean(found) + data.mean(other)


class DivergenceLoss:
    """``-1/2 mean over nodes of sum(1 + 2 s - mu^2 - exp(s)^2)``, of the whole graph."""

    def __init__(self, model: Any, data: ShardData) -> None:
        self._model = model
        self._data = data

    def __call__(self, mu: Tensor | None = None, logstd: Tensor | None = None) -> Tensor:
        """The loss of the last encoding, or of ``mu`` and ``logstd``."""
        mu = self._model.__mu__ if mu is None else mu
        logstd = self._model.__logstd__ if logstd is None else logstd.clamp(max=LARGEST_LOGSTD)
        return -0.5 * self._data.mean(torch.sum(1 + 2 * logstd - mu**2 - logstd.exp() ** 2, dim=1))
