"""Every aggregation and norm of PyG by name, each in a model: which are equal on many workers, or refused."""

from __future__ import annotations

import torch_geometric.nn as pyg
from torch import nn
from torch_geometric.nn import aggr

from tests.support.layer_shapes import Called, aggregated
from tests.support.list_case import ATTR, PLAIN, Case, absent, elsewhere, refused
from tests.support.pyg_layers import BATCHES
from tests.support.pyg_models import HIDDEN, histogram, mlp, two

MOST = 24
"""More than the edges into any node of the list's graph."""

AGGREGATIONS: dict[str, Case] = {
    "Aggregation": absent("is the base class of the others"),
    "AttentionalAggregation": Case(
        lambda: aggregated(aggr.AttentionalAggregation(nn.Linear(HIDDEN, 1), mlp(HIDDEN, HIDDEN)))
    ),
    "DeepSetsAggregation": Case(
        lambda: aggregated(aggr.DeepSetsAggregation(nn.Linear(HIDDEN, 5), nn.Linear(5, HIDDEN)))
    ),
    "DegreeScalerAggregation": Case(
        lambda: aggregated(
            aggr.DegreeScalerAggregation(["mean", "max"], ["identity", "linear", "inverse_linear"], histogram()),
            6 * HIDDEN,
        )
    ),
    "EquilibriumAggregation": refused(
        lambda: aggregated(aggr.EquilibriumAggregation(HIDDEN, 5, [4, 4]), 5),
        "replace it, or train on one worker with plain PyG",
    ),
    "GRUAggregation": Case(lambda: aggregated(aggr.GRUAggregation(HIDDEN, 5), 5), sorted_only=True),
    "GraphMultisetTransformer": Case(
        lambda: aggregated(aggr.GraphMultisetTransformer(HIDDEN, 3, heads=2)), sorted_only=True
    ),
    "LCMAggregation": Case(lambda: aggregated(aggr.LCMAggregation(HIDDEN, 5), 5), sorted_only=True),
    "LSTMAggregation": Case(lambda: aggregated(aggr.LSTMAggregation(HIDDEN, 5), 5), sorted_only=True),
    "MLPAggregation": Case(lambda: aggregated(aggr.MLPAggregation(HIDDEN, 5, MOST, num_layers=1), 5), sorted_only=True),
    "MaxAggregation": Case(lambda: aggregated(aggr.MaxAggregation())),
    "MeanAggregation": Case(lambda: aggregated(aggr.MeanAggregation())),
    "MedianAggregation": Case(lambda: aggregated(aggr.MedianAggregation())),
    "MinAggregation": Case(lambda: aggregated(aggr.MinAggregation())),
    "MulAggregation": Case(lambda: aggregated(aggr.MulAggregation())),
    "MultiAggregation": Case(lambda: aggregated(aggr.MultiAggregation(["sum", "std", "softmax"]), 3 * HIDDEN)),
    "MultiAggregation proj": Case(
        lambda: aggregated(
            aggr.MultiAggregation(
                ["sum", "max"], mode="proj", mode_kwargs={"in_channels": HIDDEN, "out_channels": HIDDEN}
            )
        )
    ),
    "MultiAggregation attn": Case(
        lambda: aggregated(
            aggr.MultiAggregation(
                ["mean", "max"],
                mode="attn",
                mode_kwargs={"in_channels": HIDDEN, "out_channels": HIDDEN, "num_heads": 2},
            )
        )
    ),
    "PatchTransformerAggregation": Case(
        lambda: aggregated(aggr.PatchTransformerAggregation(HIDDEN, 5, 2, 6, heads=2), 5), sorted_only=True
    ),
    "PowerMeanAggregation": Case(lambda: two(pyg.GENConv, aggr="powermean", learn_p=True)),
    "QuantileAggregation": Case(lambda: aggregated(aggr.QuantileAggregation([0.25, 0.5]), 2 * HIDDEN)),
    "Set2Set": Case(lambda: aggregated(aggr.Set2Set(HIDDEN, 2), 2 * HIDDEN)),
    "SetTransformerAggregation": Case(
        lambda: aggregated(aggr.SetTransformerAggregation(HIDDEN, 2, heads=2), 2 * HIDDEN), sorted_only=True
    ),
    "SoftmaxAggregation": Case(lambda: aggregated(aggr.SoftmaxAggregation(learn=True, channels=HIDDEN))),
    "SoftmaxAggregation semi_grad": Case(lambda: aggregated(aggr.SoftmaxAggregation(semi_grad=True))),
    "SortAggregation": Case(lambda: aggregated(aggr.SortAggregation(3), 3 * HIDDEN), sorted_only=True),
    "StdAggregation": Case(lambda: aggregated(aggr.StdAggregation())),
    "SumAggregation": Case(lambda: aggregated(aggr.SumAggregation())),
    "VarAggregation": Case(lambda: aggregated(aggr.VarAggregation())),
    "VariancePreservingAggregation": Case(lambda: aggregated(aggr.VariancePreservingAggregation())),
}

TYPED = (*PLAIN, "node_type")
"""The inputs of norms by the types of nodes."""


def typed(norm: nn.Module) -> nn.Module:
    """A layer, and then a norm by the types of nodes."""
    layers = nn.ModuleList([pyg.GraphConv(HIDDEN, HIDDEN), norm])
    return Called(layers, lambda layers, h, x, edge_index, kind: layers[1](layers[0](h, edge_index), kind))


NORMS: dict[str, Case] = {
    "BatchNorm": Case(lambda: two(pyg.GraphConv, pyg.BatchNorm(HIDDEN))),
    "BatchNorm single element": Case(lambda: two(pyg.GraphConv, pyg.BatchNorm(HIDDEN, allow_single_element=True))),
    "DiffGroupNorm": Case(lambda: two(pyg.GraphConv, pyg.DiffGroupNorm(HIDDEN, 3))),
    "GraphNorm": Case(lambda: two(pyg.GraphConv, pyg.GraphNorm(HIDDEN))),
    "GraphSizeNorm": Case(lambda: two(pyg.GraphConv, pyg.GraphSizeNorm())),
    "HeteroBatchNorm": Case(lambda: typed(pyg.HeteroBatchNorm(HIDDEN, 3)), TYPED),
    "HeteroBatchNorm all passes": Case(
        lambda: typed(pyg.HeteroBatchNorm(HIDDEN, 2, momentum=None, affine=False)), TYPED
    ),
    "HeteroBatchNorm untracked": Case(lambda: typed(pyg.HeteroBatchNorm(HIDDEN, 2, track_running_stats=False)), TYPED),
    "HeteroLayerNorm": Case(lambda: typed(pyg.HeteroLayerNorm(HIDDEN, 2)), TYPED),
    "InstanceNorm": Case(lambda: two(pyg.GraphConv, pyg.InstanceNorm(HIDDEN))),
    "InstanceNorm affine": Case(
        lambda: two(pyg.GraphConv, pyg.InstanceNorm(HIDDEN, affine=True, track_running_stats=True))
    ),
    "LayerNorm": Case(lambda: two(pyg.GraphConv, pyg.LayerNorm(HIDDEN))),
    "LayerNorm node": Case(lambda: two(pyg.GraphConv, pyg.LayerNorm(HIDDEN, mode="node"))),
    "MeanSubtractionNorm": Case(lambda: two(pyg.GraphConv, pyg.MeanSubtractionNorm())),
    "MessageNorm": Case(lambda: two(pyg.GENConv, msg_norm=True, learn_msg_scale=True, edge_dim=3), ATTR),
    "PairNorm": Case(lambda: two(pyg.GraphConv, pyg.PairNorm())),
    "PairNorm each": Case(lambda: two(pyg.GraphConv, pyg.PairNorm(scale_individually=True))),
    "norms with a batch of graphs": elsewhere(BATCHES),
}
