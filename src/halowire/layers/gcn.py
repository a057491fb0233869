"""GCN: the graph convolutional network (Kipf and Welling 2017)."""

from __future__ import annotations

import torch
from torch import nn

from halowire.layers.activation import Activation
from halowire.layers.aggregation import Sum, symmetric_sum
from halowire.layers.convolution import Convolution
from halowire.layers.entry import Entry, FeatureSum
from halowire.layers.layer import Layer
from halowire.layers.model import Linear, Stack, register
from halowire.partitioning import Shard
from halowire.wire import HaloExchange


@register("gcn")
class GCN(Stack):
    r"""``u' = D^-1/2 (A + I) D^-1/2 v W^T + b``, with the degrees of the whole graph."""

    takes_residual = True
    sums_input = True
    self_map = False

    @staticmethod
    def aggregation(shard: Shard, exchange: HaloExchange) -> Sum:
        """A sum with symmetric weights."""
        return symmetric_sum(shard, exchange)

    def new_conv(self, in_channels: int, out_channels: int, last: bool, seeds: torch.Generator) -> nn.Module:
        """The parameters of a layer."""
        return Linear(in_channels, out_channels, seeds, self_map=self.self_map)

    def entry_of(self, conv: nn.Module) -> Entry:
        """The first layer, on features."""
        assert isinstance(conv, Linear)
        return FeatureSum(conv.weight, conv.weight_self, conv.bias)

    def layer_of(self, conv: nn.Module, number: int, activation: Activation, undropped: bool) -> Layer:
        """A later layer; a hidden layer's output is mixed with a share ``residual`` of its input."""
        assert isinstance(conv, Linear)
        share = 0.0 if number == len(self.blocks) - 1 else self.shape.residual
        own = conv.weight, conv.weight_self, conv.bias
        return Convolution(number, activation, *own, 1 - share, share, self.shape.narrow)
