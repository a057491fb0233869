"""The graph layers that are linear in the aggregate: GCN and GraphSAGE."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from halowire.layers.activation import Activation
from halowire.layers.aggregate_first import AggregateFirst
from halowire.layers.boundary_first import boundary_first
from halowire.layers.departure import Following, narrows
from halowire.layers.features import Features
from halowire.layers.input_map import input_map
from halowire.layers.layer_map import Weights
from halowire.layers.propagation import MEAN, SYMMETRIC
from halowire.layers.step import Step
from halowire.layers.weights_first import WeightsFirst


class GraphConv(nn.Module):
    """``A x W^T [+ x W_self^T] + b`` on a shard; the subclass says which ``A`` and whether there is a self map.

    Shapes: ``[n, in_channels]`` (or the prepared input :class:`Features` of layer 0) to ``[n, out_channels]``.
    """

    normalisation = SYMMETRIC
    self_map = False

    def __init__(self, in_channels: int, out_channels: int, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(out_channels, in_channels))
        self.weight_self = nn.Parameter(torch.empty(out_channels, in_channels)) if self.self_map else None
        self.bias = nn.Parameter(torch.empty(out_channels)) if bias else None

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Glorot for the maps, zero for the bias, from ``generator`` alone."""
        for weight in (self.weight, self.weight_self):
            if weight is not None:
                nn.init.xavier_uniform_(weight, generator=generator)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def followed(self, step: Step) -> Following:
        """What the block before must know of this layer to launch its exchange."""
        return Following(self.weight, narrows(self.weight))

    def forward(
        self,
        x: Tensor | Features,
        step: Step,
        layer: int,
        activation: Activation | None = None,
        following: Following | None = None,
    ) -> Tensor:
        """Run the layer and ``activation`` after it; ``layer`` names its exchange in the ledger.

        Given the layer after it, ``following``, it also launches that layer's exchange.
        """
        weights, width = Weights(self.weight, self.weight_self, self.bias), self.weight.shape[0]
        if isinstance(x, Features):
            first = input_map(x, weights, step, layer)
            return boundary_first(first, None, weights, width, activation, following, step, layer)
        departure = step.departed.pop(layer, None)
        multiplies = narrows(self.weight) if departure is None else departure.product is not None
        kind = WeightsFirst if multiplies else AggregateFirst
        layer_map = kind(x, weights, departure, step, layer)
        return boundary_first(layer_map, x, weights, width, activation, following, step, layer)


class GCNConv(GraphConv):
    r"""Graph convolution (Kipf and Welling 2017): ``D^-1/2 (A + I) D^-1/2 x W^T + b``, degrees of the whole graph."""


class SAGEConv(GraphConv):
    r"""GraphSAGE (Hamilton et al. 2017), mean aggregator: ``W_self x_i + W mean(x_j, j in-neighbour of i) + b``."""

    normalisation = MEAN
    self_map = True
