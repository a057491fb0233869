"""A model that ``distribute`` accepts is never wrong: random models, graphs and partitions against plain PyG."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
import torch_geometric.nn as pyg
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

import halowire
from halowire.wire import run_threads
from tests.support.pyg_case import FEATURES, compare, make_graph, run_part, run_plain
from tests.support.pyg_models import EdgeGated

WIDTH, EDGE = 4, 3
NAMES = ("x", "edge_index", "edge_weight", "edge_attr")
DEGREES = torch.tensor([1, 4, 6, 5, 3, 2, 1])
"""A histogram of degrees, as PNA wants one."""


class Plain(nn.Module):
    """A layer that is called with the rows and the edges, and with the weights or features of the edges if it asks."""

    def __init__(self, conv: nn.Module, *extra: str) -> None:
        super().__init__()
        self.conv, self.extra = conv, extra

    def forward(self, x: Tensor, edge_index: Tensor, **edge: Tensor) -> Tensor:
        return self.conv(x, edge_index, *(edge[name] for name in self.extra))


class Mapped(nn.Module):
    """A layer that keeps the width of its rows, and perhaps needs the first ones, behind a linear map."""

    def __init__(self, channels: int, conv: nn.Module, initial: bool) -> None:
        super().__init__()
        self.map, self.conv, self.initial = nn.Linear(channels, WIDTH), conv, initial

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor, edge_attr: Tensor) -> Tensor:
        h = self.map(x)
        first = (h.tanh(),) if self.initial else ()
        return self.conv(h, *first, edge_index, edge_weight)


class Dropped(nn.Module):
    """A layer on some of the edges."""

    def __init__(self, conv: nn.Module, undirected: bool) -> None:
        super().__init__()
        self.drop, self.conv = halowire.DropEdges(0.3, seed=7, undirected=undirected), conv

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor, edge_attr: Tensor) -> Tensor:
        return self.conv(x, *self.drop(edge_index, edge_weight))


def zoo(kind: str, channels: int, jk: str, **options: object) -> nn.Module:
    return Plain(getattr(pyg.models, kind)(channels, WIDTH, 2, WIDTH, jk=jk, act="tanh", **options))


def pna(channels: int) -> nn.Module:
    kinds = ["mean", "max", "sum"], ["identity", "amplification", "attenuation"]
    return Plain(pyg.PNAConv(channels, WIDTH, *kinds, DEGREES, edge_dim=EDGE), "edge_attr")


SCALED = {"aggregators": ["mean", "max"], "scalers": ["identity", "attenuation"], "deg": DEGREES}
LAYERS: dict[str, Callable[[int], nn.Module]] = {
    "gcn": lambda a: Plain(pyg.GCNConv(a, WIDTH)),
    "gcn bare": lambda a: Plain(pyg.GCNConv(a, WIDTH, add_self_loops=False)),
    "gcn weighted": lambda a: Plain(pyg.GCNConv(a, WIDTH), "edge_weight"),
    "sage": lambda a: Plain(pyg.SAGEConv(a, WIDTH)),
    "sage max": lambda a: Plain(pyg.SAGEConv(a, WIDTH, aggr="max")),
    "sage sum": lambda a: Plain(pyg.SAGEConv(a, WIDTH, aggr="sum")),
    "against": lambda a: Plain(pyg.SAGEConv(a, WIDTH, flow="target_to_source", aggr="sum")),
    "gat": lambda a: Plain(pyg.GATConv(a, WIDTH // 2, heads=2)),
    "gat averaged": lambda a: Plain(pyg.GATConv(a, WIDTH, heads=2, concat=False)),
    "gat edges": lambda a: Plain(pyg.GATConv(a, WIDTH // 2, heads=2, edge_dim=EDGE), "edge_attr"),
    "gatv2": lambda a: Plain(pyg.GATv2Conv(a, WIDTH // 2, heads=2)),
    "gatv2 edges": lambda a: Plain(pyg.GATv2Conv(a, WIDTH, heads=2, concat=False, edge_dim=EDGE), "edge_attr"),
    "gin": lambda a: Plain(pyg.GINConv(nn.Sequential(nn.Linear(a, WIDTH), nn.Tanh()))),
    "graph": lambda a: Plain(pyg.GraphConv(a, WIDTH)),
    "graph weighted": lambda a: Plain(pyg.GraphConv(a, WIDTH, aggr="mean"), "edge_weight"),
    "cheb": lambda a: Plain(pyg.ChebConv(a, WIDTH, 2)),
    "tag": lambda a: Plain(pyg.TAGConv(a, WIDTH, 2)),
    "transformer": lambda a: Plain(pyg.TransformerConv(a, WIDTH, edge_dim=EDGE), "edge_attr"),
    "pna": pna,
    "gcn2": lambda a: Mapped(a, pyg.GCN2Conv(WIDTH, 0.2, 0.5, 1), True),
    "appnp": lambda a: Mapped(a, pyg.APPNP(3, 0.1), False),
    "own": lambda a: Plain(EdgeGated(a, WIDTH), "edge_attr"),
    "dropped": lambda a: Dropped(pyg.GCNConv(a, WIDTH), False),
    "dropped both ways": lambda a: Dropped(pyg.GraphConv(a, WIDTH), True),
    "GCN cat": lambda a: zoo("GCN", a, "cat"),
    "GraphSAGE max": lambda a: zoo("GraphSAGE", a, "max"),
    "GAT lstm": lambda a: zoo("GAT", a, "lstm", heads=2),
    "GIN cat": lambda a: zoo("GIN", a, "cat"),
    "PNA max": lambda a: zoo("PNA", a, "max", **SCALED),
}
NORMS: dict[str, Callable[[], nn.Module]] = {
    "none": nn.Identity, "batch": lambda: pyg.BatchNorm(WIDTH), "layer": lambda: pyg.LayerNorm(WIDTH),
    "node": lambda: pyg.LayerNorm(WIDTH, mode="node"), "graph": lambda: pyg.GraphNorm(WIDTH), "pair": pyg.PairNorm,
    "mean": pyg.MeanSubtractionNorm, "instance": lambda: pyg.InstanceNorm(WIDTH),
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A model, a graph and a partition, as drawn: (layer, norm, ReLU) for every layer."""

    layers: tuple[tuple[str, str, bool], ...]
    residual: bool
    nodes: int
    density: int
    parts: int
    seed: int


class Stack(nn.Module):
    """Layers and norms as drawn, with or without residual connections.

    ReLU follows layers without a norm alone: a norm may turn equal rows into rounding about 0, where ReLU has a kink.
    """

    def __init__(self, case: Case) -> None:
        super().__init__()
        self.convs = nn.ModuleList(
            LAYERS[name](FEATURES if number == 0 else WIDTH) for number, (name, _, _) in enumerate(case.layers)
        )
        self.norms = nn.ModuleList(NORMS[norm]() for _, norm, _ in case.layers)
        self.sharp = [relu and norm == "none" for _, norm, relu in case.layers]
        self.residual = case.residual

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor, edge_attr: Tensor) -> Tensor:
        for number, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            h = norm(conv(x, edge_index, edge_weight=edge_weight, edge_attr=edge_attr))
            h = F.relu(h) if self.sharp[number] else F.softplus(h)
            x = x + h if self.residual and number else h
        return x


def check(case: Case) -> None:
    graph = make_graph(case.seed, case.nodes, case.nodes * case.density)
    owner = torch.randint(case.parts, (case.nodes,), generator=torch.Generator().manual_seed(case.seed))
    owner[: case.parts] = torch.arange(case.parts)
    with torch.random.fork_rng():
        torch.manual_seed(case.seed)
        model = Stack(case)
    double = {name: value.double() if value.is_floating_point() else value for name, value in graph.items()}
    want, exact = run_plain(model, graph, NAMES), run_plain(copy.deepcopy(model).double(), double, NAMES)
    got = run_threads(case.parts, lambda transport: run_part(transport, model, graph, owner, NAMES))
    compare(got, want, floor=1e-3, exact=exact)


def drawn(kind: str, number: int) -> Case:
    """The same case every time: a layer of ``kind``, alone or among others."""
    draw = random.Random(f"{kind} {number}")
    names = [draw.choice(sorted(LAYERS)) for _ in range(draw.choice((0, 1, 1, 2)))]
    names.insert(draw.randint(0, len(names)), kind)
    layers = tuple((name, draw.choice(("none", *sorted(NORMS))), draw.random() < 0.5) for name in names)
    nodes = draw.randint(8, 40)
    return Case(
        layers, draw.random() < 0.5, nodes, draw.randint(1, 6), draw.choice((1, 2, 3, 4)), draw.randint(0, 9999)
    )


@pytest.mark.parametrize("kind", sorted(LAYERS))
def test_accepted_models_equal_plain_pyg(kind):
    check(drawn(kind, 0))


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(LAYERS))
def test_many_accepted_models_equal_plain_pyg(kind):
    for number in range(1, 13):
        check(drawn(kind, number))


@pytest.mark.slow
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    layers=st.lists(
        st.tuples(st.sampled_from(sorted(LAYERS)), st.sampled_from(sorted(NORMS)), st.booleans()),
        min_size=1, max_size=3,
    ),
    residual=st.booleans(),
    nodes=st.integers(8, 40),
    density=st.integers(1, 6),
    parts=st.integers(1, 4),
    seed=st.integers(0, 10_000),
)  # fmt: skip
def test_any_accepted_model_equals_plain_pyg(layers, residual, nodes, density, parts, seed):
    check(Case(tuple(layers), residual, nodes, density, parts, seed))


def test_the_draws_cover_parts_norms_and_both_activations():
    cases = [drawn(kind, 0) for kind in LAYERS]
    assert {case.parts for case in cases} == {1, 2, 3, 4}
    assert {norm for case in cases for _, norm, _ in case.layers} == set(NORMS)
    assert {relu for case in cases for _, norm, relu in case.layers if norm == "none"} == {True, False}
    assert sum(case.parts > 1 for case in cases) > len(cases) / 2
