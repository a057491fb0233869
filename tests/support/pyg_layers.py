"""Every layer of ``torch_geometric.nn.conv`` by name, with its options: which are equal on many workers, or refused."""

from __future__ import annotations

import torch_geometric.nn as pyg
from torch import nn

from tests.support.layer_shapes import Called, One, histories, initial, oriented, points, signed
from tests.support.list_case import ATTR, PLAIN, TYPE, WEIGHT, Case, absent, elsewhere, refused
from tests.support.pyg_case import CLASSES, FEATURES
from tests.support.pyg_models import HIDDEN, gat, mlp, pna, two

HETERO = "tests/parity/test_hetero_models.py::test_every_model_on_any_number_of_parts"
NEIGHBOURS = "PyG makes it with pyg-lib only; it finds neighbours itself and is refused: give it the edges instead"
DRAWS = "tests/parity/test_random_draws.py::test_draws_equal_those_of_plain_pyg"
BATCHES = "tests/parity/test_graph_batches.py::test_equal_to_plain_pyg"


def heat() -> nn.Module:
    """``HEATConv``, which takes the types of nodes and edges."""
    layer = pyg.HEATConv(HIDDEN, HIDDEN, 2, 3, 4, 3, 4, heads=2, concat=False)
    return Called(layer, lambda layer, h, x, *more: layer(h, *more))


def rgat(width: int, out: int, **options: object) -> nn.Module:
    """``RGATConv`` of three relations, whose weight ``l2`` PyG leaves as the memory was."""
    layer = pyg.RGATConv(width, out, 3, **options)
    nn.init.constant_(layer.l2, 1 / layer.out_channels)
    return layer


def hypergraph(**options: object) -> nn.Module:
    """``HypergraphConv`` with a hyperedge for each node: the nodes that have an edge to it."""
    layer = pyg.HypergraphConv(HIDDEN, HIDDEN, **options)
    return Called(layer, lambda layer, h, x, edge_index: layer(h, edge_index, num_edges=h.size(0)))


def gps(attention: str) -> nn.Module:
    return One(pyg.GPSConv(HIDDEN, pyg.SAGEConv(HIDDEN, HIDDEN), heads=2, attn_type=attention))


LAYERS: dict[str, Case] = {
    "AGNNConv": Case(lambda: One(pyg.AGNNConv())),
    "AGNNConv without loops": Case(lambda: One(pyg.AGNNConv(requires_grad=False, add_self_loops=False))),
    "APPNP": Case(lambda: One(pyg.APPNP(3, 0.1)), WEIGHT),
    "APPNP cached": Case(lambda: One(pyg.APPNP(3, 0.1, cached=True)), WEIGHT),
    "ARMAConv": Case(lambda: two(pyg.ARMAConv), WEIGHT),
    "ARMAConv stacks": Case(lambda: two(pyg.ARMAConv, num_stacks=2, num_layers=2, shared_weights=True)),
    "AntiSymmetricConv": Case(lambda: One(pyg.AntiSymmetricConv(HIDDEN, num_iters=2))),
    "CGConv": Case(lambda: One(pyg.CGConv(HIDDEN, 3)), ATTR),
    "CGConv batch_norm": Case(lambda: One(pyg.CGConv(HIDDEN, 3, batch_norm=True)), ATTR),
    "ChebConv": Case(lambda: two(pyg.ChebConv, K=3), WEIGHT),
    "ChebConv rw": Case(lambda: two(pyg.ChebConv, K=2, normalization="rw"), WEIGHT),
    "ChebConv without normalization": refused(
        lambda: two(pyg.ChebConv, K=2, normalization=None), 'use normalization="sym" or "rw"'
    ),
    "ClusterGCNConv": Case(lambda: two(pyg.ClusterGCNConv)),
    "ClusterGCNConv diag_lambda": Case(lambda: two(pyg.ClusterGCNConv, diag_lambda=1.0)),
    "CuGraphGATConv": absent("needs pylibcugraphops"),
    "CuGraphRGCNConv": absent("needs pylibcugraphops"),
    "CuGraphSAGEConv": absent("needs pylibcugraphops"),
    "DNAConv": Case(lambda: histories(pyg.DNAConv(HIDDEN, heads=2, groups=2))),
    "DirGNNConv": Case(lambda: One(pyg.DirGNNConv(pyg.SAGEConv(HIDDEN, HIDDEN)))),
    "DirGNNConv GCN": Case(lambda: One(pyg.DirGNNConv(pyg.GCNConv(HIDDEN, HIDDEN), 0.3, False))),
    "DynamicEdgeConv": absent(NEIGHBOURS),
    "EGConv": Case(lambda: two(pyg.EGConv, num_heads=2)),
    "EGConv symnorm": Case(lambda: two(pyg.EGConv, aggregators=["symnorm", "max", "std"], num_heads=2, num_bases=2)),
    "EGConv without loops": Case(lambda: two(pyg.EGConv, aggregators=["min"], num_heads=2, add_self_loops=False)),
    "EGConv max": refused(
        lambda: two(pyg.EGConv, aggregators=["max"], num_heads=2),
        "add_self_loops=False and AddSelfLoops before the graph is cut",
    ),
    "EdgeConv": Case(lambda: two(lambda a, b: pyg.EdgeConv(nn.Linear(2 * a, b)))),
    "EdgeConv mean": Case(lambda: two(lambda a, b: pyg.EdgeConv(mlp(2 * a, b), aggr="mean"))),
    "FAConv": Case(lambda: initial(pyg.FAConv(HIDDEN))),
    "FastRGCNConv": Case(lambda: two(lambda a, b: pyg.FastRGCNConv(a, b, 3)), TYPE),
    "FastRGCNConv bases": Case(lambda: two(lambda a, b: pyg.FastRGCNConv(a, b, 3, num_bases=2)), TYPE),
    "FeaStConv": Case(lambda: two(pyg.FeaStConv, heads=2)),
    "FiLMConv": Case(lambda: two(pyg.FiLMConv)),
    "FiLMConv relations": Case(lambda: two(lambda a, b: pyg.FiLMConv(a, b, num_relations=3)), TYPE),
    "FusedGATConv": absent("needs dgNN"),
    "GATConv": Case(lambda: gat(pyg.GATConv, True)),
    "GATConv edge features": Case(lambda: gat(pyg.GATConv, False, edge_dim=3), ATTR),
    "GATConv residual": Case(lambda: gat(pyg.GATConv, True, residual=True, add_self_loops=False)),
    "GATv2Conv": Case(lambda: gat(pyg.GATv2Conv, True, edge_dim=3), ATTR),
    "GATv2Conv shared weights": Case(lambda: gat(pyg.GATv2Conv, False, share_weights=True, residual=True)),
    "GCN2Conv": Case(lambda: initial(pyg.GCN2Conv(HIDDEN, 0.2))),
    "GCN2Conv two weights": Case(lambda: initial(pyg.GCN2Conv(HIDDEN, 0.2, 0.5, 2, shared_weights=False))),
    "GCNConv": Case(lambda: two(pyg.GCNConv), WEIGHT),
    "GCNConv cached": Case(lambda: two(pyg.GCNConv, cached=True)),
    "GCNConv improved": Case(lambda: two(pyg.GCNConv, improved=True), WEIGHT),
    "GCNConv without loops": Case(lambda: two(pyg.GCNConv, add_self_loops=False)),
    "GCNConv without normalize": Case(lambda: two(pyg.GCNConv, normalize=False), WEIGHT),
    "GCNConv target_to_source": Case(lambda: two(pyg.GCNConv, flow="target_to_source"), WEIGHT),
    "GCNConv max": Case(lambda: two(pyg.GCNConv, aggr="max")),
    "GENConv": Case(lambda: two(pyg.GENConv, edge_dim=3), ATTR),
    "GENConv learnt": Case(lambda: two(pyg.GENConv, learn_t=True, learn_msg_scale=True, msg_norm=True)),
    "GENConv powermean": Case(lambda: two(pyg.GENConv, aggr="powermean", learn_p=True)),
    "GINConv": Case(lambda: two(lambda a, b: pyg.GINConv(mlp(a, b), train_eps=True))),
    "GINEConv": Case(lambda: two(lambda a, b: pyg.GINEConv(nn.Linear(a, b), edge_dim=3)), ATTR),
    "GMMConv": Case(lambda: two(pyg.GMMConv, dim=3, kernel_size=2), ATTR),
    "GMMConv separate": Case(lambda: two(pyg.GMMConv, dim=3, kernel_size=2, separate_gaussians=True), ATTR),
    "GPSConv": refused(lambda: gps("multihead"), "use TransformerConv"),
    "GPSConv performer": refused(lambda: gps("performer"), "use TransformerConv"),
    "GatedGraphConv": Case(lambda: One(pyg.GatedGraphConv(HIDDEN, 2)), WEIGHT),
    "GeneralConv": Case(lambda: two(pyg.GeneralConv)),
    "GeneralConv attention": Case(
        lambda: two(pyg.GeneralConv, in_edge_channels=3, attention=True, heads=2, l2_normalize=True), ATTR
    ),
    "GeneralConv dot product": Case(
        lambda: two(pyg.GeneralConv, attention=True, attention_type="dot_product", directed_msg=False)
    ),
    "GraphConv": Case(lambda: two(pyg.GraphConv), WEIGHT),
    "GraphConv max": Case(lambda: two(pyg.GraphConv, aggr="max"), WEIGHT),
    "GraphConv mean": Case(lambda: two(pyg.GraphConv, aggr="mean"), WEIGHT),
    "GravNetConv": absent(NEIGHBOURS),
    "HANConv": elsewhere(HETERO),
    "HEATConv": Case(heat, (*PLAIN, "node_type", "edge_type", "edge_attr")),
    "HGTConv": elsewhere(HETERO),
    "HeteroConv": elsewhere(HETERO),
    "HypergraphConv": Case(hypergraph),
    "LEConv": Case(lambda: two(pyg.LEConv), WEIGHT),
    "LGConv": Case(lambda: One(pyg.LGConv()), WEIGHT),
    "LGConv without normalize": Case(lambda: One(pyg.LGConv(normalize=False)), WEIGHT),
    "MFConv": Case(lambda: two(pyg.MFConv)),
    "MeshCNNConv": refused(lambda: One(pyg.MeshCNNConv(HIDDEN, HIDDEN)), "use EdgeConv or train on one worker"),
    "MessagePassing": elsewhere("tests/parity/test_pyg_models.py::test_parts_equal_the_whole_model"),
    "MixHopConv": Case(lambda: One(pyg.MixHopConv(HIDDEN, HIDDEN), 3 * HIDDEN), WEIGHT),
    "NNConv": Case(lambda: two(lambda a, b: pyg.NNConv(a, b, nn.Linear(3, a * b))), ATTR),
    "NNConv mean": Case(lambda: two(lambda a, b: pyg.NNConv(a, b, nn.Linear(3, a * b), aggr="mean")), ATTR),
    "PANConv": absent("needs torch_sparse"),
    "PDNConv": Case(lambda: two(pyg.PDNConv, edge_dim=3, hidden_channels=5), ATTR),
    "PNAConv": Case(lambda: two(pna, edge_dim=3), ATTR),
    "PNAConv towers": Case(lambda: two(lambda a, b: pna(a, b, towers=2, divide_input=True))),
    "PPFConv": Case(lambda: oriented(pyg.PPFConv(nn.Linear(HIDDEN + 4, HIDDEN), nn.Linear(HIDDEN, HIDDEN)))),
    "PointGNNConv": Case(lambda: points(pyg.PointGNNConv(nn.Linear(HIDDEN, 3), mlp(HIDDEN + 3, 5), mlp(5, HIDDEN)))),
    "PointNetConv": Case(lambda: points(pyg.PointNetConv(nn.Linear(HIDDEN + 3, HIDDEN)))),
    "PointTransformerConv": Case(lambda: points(pyg.PointTransformerConv(HIDDEN, HIDDEN))),
    "RGATConv": Case(lambda: two(rgat), TYPE),
    "RGATConv multiplicative": Case(
        lambda: two(rgat, attention_mechanism="within-relation", attention_mode="multiplicative-self-attention"),
        TYPE,
    ),
    "RGCNConv": Case(lambda: two(lambda a, b: pyg.RGCNConv(a, b, 3)), TYPE),
    "RGCNConv bases": Case(lambda: two(lambda a, b: pyg.RGCNConv(a, b, 3, num_bases=2)), TYPE),
    "RGCNConv blocks": Case(lambda: One(pyg.RGCNConv(HIDDEN, HIDDEN, 3, num_blocks=2)), TYPE),
    "ResGatedGraphConv": Case(lambda: two(pyg.ResGatedGraphConv)),
    "ResGatedGraphConv edge features": Case(lambda: two(pyg.ResGatedGraphConv, edge_dim=3), ATTR),
    "SAGEConv": Case(lambda: two(pyg.SAGEConv)),
    "SAGEConv max": Case(lambda: two(pyg.SAGEConv, aggr="max", project=True)),
    "SAGEConv normalize": Case(lambda: two(pyg.SAGEConv, aggr="sum", normalize=True)),
    "SAGEConv lstm": Case(lambda: two(pyg.SAGEConv, aggr="lstm"), sorted_only=True),
    "SGConv": Case(lambda: two(pyg.SGConv, K=2), WEIGHT),
    "SGConv cached": Case(lambda: pyg.SGConv(FEATURES, CLASSES, K=2, cached=True), WEIGHT),
    "SSGConv": Case(lambda: two(pyg.SSGConv, alpha=0.2, K=2), WEIGHT),
    "SignedConv": Case(lambda: signed(pyg.SignedConv(HIDDEN, 5, True), 10), TYPE),
    "SimpleConv": Case(lambda: One(pyg.SimpleConv("mean", "cat"), 2 * HIDDEN)),
    "SimpleConv self loops": Case(lambda: One(pyg.SimpleConv("max", "self_loop"))),
    "SplineConv": absent("needs pyg-lib or torch_spline_conv"),
    "SuperGATConv": refused(lambda: two(pyg.SuperGATConv), "draw them with halowire.Random"),
    "SuperGATConv with halowire.Random": elsewhere(DRAWS),
    "TAGConv": Case(lambda: two(pyg.TAGConv), WEIGHT),
    "TransformerConv": Case(lambda: gat(pyg.TransformerConv, True, edge_dim=3, beta=True), ATTR),
    "TransformerConv mean": Case(lambda: gat(pyg.TransformerConv, False, root_weight=False)),
    "WLConv": refused(pyg.WLConv, "do everything else before the graph is cut", ("colour", "edge_index")),
    "WLConvContinuous": Case(lambda: One(pyg.WLConvContinuous()), WEIGHT),
    "XConv": absent(NEIGHBOURS),
}
"""By name, and the option after it."""
