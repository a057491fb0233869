"""The graph layers: GCN and GraphSAGE."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from halowire.nn.features import Features
from halowire.nn.graph_linear import Undropped, graph_linear
from halowire.nn.input_linear import input_linear
from halowire.nn.propagation import MEAN, SYMMETRIC, Propagation


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

    def forward(
        self, x: Tensor | Features, spread: Propagation, layer: int, undropped: Undropped | None = None
    ) -> Tensor:
        """Run the layer; ``layer`` names its exchange in the ledger, ``undropped`` are the rows of delta coding."""
        if isinstance(x, Features):
            return input_linear(x, self.weight, self.weight_self, self.bias, spread)
        return graph_linear(x, self.weight, self.weight_self, self.bias, spread, layer, undropped)


class GCNConv(GraphConv):
    r"""Graph convolution (Kipf and Welling 2017): ``D^-1/2 (A + I) D^-1/2 x W^T + b``, degrees of the whole graph."""


class SAGEConv(GraphConv):
    r"""GraphSAGE (Hamilton et al. 2017), mean aggregator: ``W_self x_i + W mean(x_j, j in-neighbour of i) + b``."""

    normalisation = MEAN
    self_map = True
