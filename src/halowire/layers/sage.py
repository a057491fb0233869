"""GraphSAGE (Hamilton et al. 2017) with the mean aggregator."""

from __future__ import annotations

from halowire.layers.aggregation import Sum, mean_sum
from halowire.layers.gcn import GCN
from halowire.layers.model import register
from halowire.partitioning import Shard
from halowire.wire import HaloExchange


@register("sage")
class SAGE(GCN):
    r"""``u'_i = W_self v_i + W mean(v_j, j in-neighbour of i) + b``."""

    self_map = True

    @staticmethod
    def aggregation(shard: Shard, exchange: HaloExchange) -> Sum:
        """The sum whose weights make a mean."""
        return mean_sum(shard, exchange)
