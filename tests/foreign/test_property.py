"""A model that ``distribute`` accepts is never wrong: random models, graphs and partitions against plain PyG."""

from __future__ import annotations

import torch
import torch_geometric.nn as pyg
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from halowire.exchange.in_process import run_threads
from tests.foreign.case import FEATURES, compare, make_graph, run_part, run_plain

WIDTH = 4
LAYERS = {
    "gcn": lambda a: pyg.GCNConv(a, WIDTH), "gcn bare": lambda a: pyg.GCNConv(a, WIDTH, add_self_loops=False),
    "sage": lambda a: pyg.SAGEConv(a, WIDTH), "sage max": lambda a: pyg.SAGEConv(a, WIDTH, aggr="max"),
    "gat": lambda a: pyg.GATConv(a, 2, heads=2), "gatv2": lambda a: pyg.GATv2Conv(a, 2, heads=2),
    "gin": lambda a: pyg.GINConv(nn.Sequential(nn.Linear(a, WIDTH), nn.Tanh())),
    "graph": lambda a: pyg.GraphConv(a, WIDTH), "cheb": lambda a: pyg.ChebConv(a, WIDTH, 2),
    "tag": lambda a: pyg.TAGConv(a, WIDTH, 2), "transformer": lambda a: pyg.TransformerConv(a, WIDTH),
    "against": lambda a: pyg.SAGEConv(a, WIDTH, flow="target_to_source", aggr="sum"),
}  # fmt: skip
NORMS = {
    "none": nn.Identity, "batch": lambda: pyg.BatchNorm(WIDTH), "layer": lambda: pyg.LayerNorm(WIDTH),
    "node": lambda: pyg.LayerNorm(WIDTH, mode="node"), "graph": lambda: pyg.GraphNorm(WIDTH), "pair": pyg.PairNorm,
    "mean": pyg.MeanSubtractionNorm, "instance": lambda: pyg.InstanceNorm(WIDTH),
}  # fmt: skip


class Stack(nn.Module):
    """Layers and norms as drawn, with or without residual connections."""

    def __init__(self, layers: list[tuple[str, str]], residual: bool) -> None:
        super().__init__()
        self.convs = nn.ModuleList(
            LAYERS[name](FEATURES if number == 0 else WIDTH) for number, (name, _) in enumerate(layers)
        )
        self.norms = nn.ModuleList(NORMS[norm]() for _, norm in layers)
        self.residual = residual

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        for number, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            h = torch.nn.functional.softplus(norm(conv(x, edge_index)))
            x = x + h if self.residual and number else h
        return x


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    layers=st.lists(st.tuples(st.sampled_from(sorted(LAYERS)), st.sampled_from(sorted(NORMS))), min_size=1, max_size=3),
    residual=st.booleans(),
    nodes=st.integers(8, 40),
    density=st.integers(1, 6),
    parts=st.integers(1, 4),
    seed=st.integers(0, 10_000),
)
def test_accepted_models_equal_plain_pyg(layers, residual, nodes, density, parts, seed):
    graph = make_graph(seed, nodes, nodes * density)
    owner = torch.randint(parts, (nodes,), generator=torch.Generator().manual_seed(seed))
    owner[:parts] = torch.arange(parts)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = Stack(layers, residual)
    names = ("x", "edge_index")
    want = run_plain(model, graph, names)
    compare(run_threads(parts, lambda transport: run_part(transport, model, graph, owner, names)), want, floor=1.0)
