"""PyG's autoencoders learn to rebuild the edges: their losses become means over the pairs and nodes of all workers.

What they draw for nodes depends on the nodes' numbers alone, so that any number of workers draws the same.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from halowire.errors import InputError
from halowire.pyg.edges import Edges
from halowire.pyg.hetero_data import HeteroShardData
from halowire.pyg.pairs import Pairs
from halowire.pyg.random_draws import Random

if TYPE_CHECKING:
    from halowire.pyg.data_part import ShardData

EPSILON = 1e-15
LARGEST_LOGSTD = 10
"""Constants of PyG's ``autoencoder.py``."""


def spread_autoencoder(model: nn.Module, data: ShardData | HeteroShardData) -> None:
    """Give a ``GAE``, ``VGAE``, ``ARGA`` or ``ARGVA`` losses and draws of the whole graph."""
    package = sys.modules.get("torch_geometric.nn")
    if package is None or not isinstance(model, package.GAE):
        return
    if isinstance(data, HeteroShardData):
        raise InputError(
            f"{type(model).__name__} rebuilds the edges of one type of nodes; distribute its encoder, and write the "
            "loss with data.mean"
        )
    # An attribute of the instance comes before the method of its class.
    object.__setattr__(model, "recon_loss", ReconstructionLoss(model, data))
    noise = Noise(data)
    if isinstance(model, package.ARGA):
        object.__setattr__(model, "reg_loss", RegularisationLoss(model, data))
        object.__setattr__(model, "discriminator_loss", DiscriminatorLoss(model, data, noise))
    if isinstance(model, package.VGAE | package.ARGVA):
        object.__setattr__(model, "kl_loss", DivergenceLoss(model, data))
        drawing: Any = model.VGAE if isinstance(model, package.ARGVA) else model
        object.__setattr__(drawing, "reparametrize", Reparametrisation(drawing, noise))


class Noise:
    """Normal numbers for the rows of nodes, the same on any number of workers; every call draws other ones."""

    def __init__(self, data: ShardData) -> None:
        self._data = data
        self._random = Random()

    def like(self, rows: Tensor) -> Tensor:
        """Numbers of the shape and type of ``rows`` ``[n, k]``."""
        drawn = self._random.normal(self._data.edge_index, rows.shape[0], rows.shape[1])
        return drawn.to(rows.device, rows.dtype)


class Reparametrisation:
    """``mu + noise exp(logstd)`` while training, else ``mu``."""

    def __init__(self, model: nn.Module, noise: Noise) -> None:
        self._model = model
        self._noise = noise

    def __call__(self, mu: Tensor, logstd: Tensor) -> Tensor:
        """Rows drawn about ``mu``."""
        return mu + self._noise.like(logstd) * torch.exp(logstd) if self._model.training else mu


class RegularisationLoss:
    """``mean over nodes of -log D(z)``, of the whole graph: the rows are to be taken for noise."""

    def __init__(self, model: Any, data: ShardData) -> None:
        self._model = model
        self._data = data

    def __call__(self, z: Tensor) -> Tensor:
        """The loss of the rows ``z``."""
        return self._data.mean(-torch.log(torch.sigmoid(self._model.discriminator(z)) + EPSILON))


class DiscriminatorLoss:
    """``mean over nodes of -log D(noise) + mean over nodes of -log(1 - D(z))``, of the whole graph."""

    def __init__(self, model: Any, data: ShardData, noise: Noise) -> None:
        self._model = model
        self._data = data
        self._noise = noise

    def __call__(self, z: Tensor) -> Tensor:
        """The loss of the discriminator, which learns to tell noise from the rows ``z``."""
        real = torch.sigmoid(self._model.discriminator(self._noise.like(z)))
        fake = torch.sigmoid(self._model.discriminator(z.detach()))
        known, told = self._data.means([-torch.log(real + EPSILON), -torch.log(1 - fake + EPSILON)])
        return known + told


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
        kept = -torch.log(decoder(z, positive, sigmoid=True) + EPSILON)
        drawn = -torch.log(1 - decoder(z, neg_edge_index, sigmoid=True) + EPSILON)
        found, other = data.means([kept, drawn])
        return found + other


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
