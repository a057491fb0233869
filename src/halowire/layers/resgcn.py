"""ResGCN+ (Li et al. 2020): a deep model in which every layer adds its result to the rows that enter it."""

from __future__ import annotations

from halowire.layers.aggregation import Sum, symmetric_sum
from halowire.layers.convolution import Convolution
from halowire.layers.layer import Layer
from halowire.layers.model import Deep, register
from halowire.partitioning import Shard
from halowire.wire import HaloExchange


@register("resgcn")
class ResGCN(Deep):
    r"""``u_l = u_(l-1) + A f(u_(l-1)) W_l^T + b_l`` with ``u_0 = x W_in^T + b``; logits are ``f(u_L) W_out^T + b``."""

    @staticmethod
    def aggregation(shard: Shard, exchange: HaloExchange) -> Sum:
        """A sum with symmetric weights."""
        return symmetric_sum(shard, exchange)

    def make_layer(self, block: int, undropped: bool) -> Layer:
        """The layer of ``block``."""
        conv = self.conv(block)
        return Convolution(block + 1, self.activation(block), conv.weight, None, conv.bias, skip=1.0)
