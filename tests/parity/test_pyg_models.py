"""A distributed model equals the plain one on the whole graph, element by element, whatever its layers."""

from __future__ import annotations

import pytest

from halowire.wire import Transport, run_threads
from tests.support.pyg_case import compare, make_graph, make_owner, run_part, run_plain
from tests.support.pyg_models import MODELS, build
from tests.support.worker_counts import three_and_two


@three_and_two
@pytest.mark.parametrize("name", MODELS)
def test_parts_equal_the_whole_model(name, workers):
    model, inputs = build(name)
    graph, owner = make_graph(), make_owner(workers)
    want = run_plain(model, graph, inputs)
    compare(run_threads(workers, lambda transport: run_part(transport, model, graph, owner, inputs)), want)


CHEAP = ["GCNConv weighted", "SAGEConv mean", "SAGEConv max", "GATConv concat", "GraphConv", "GINConv", "APPNP",
         "own layer", "own arithmetic", "GCN model", "BatchNorm", "LayerNorm graph", "DropEdges"]  # fmt: skip


@pytest.mark.parametrize("parts", [1, pytest.param(2, marks=pytest.mark.slow), 4])
@pytest.mark.parametrize("name", CHEAP)
def test_any_number_of_parts_equals_the_whole(name, parts):
    model, inputs = build(name)
    graph, owner = make_graph(), make_owner(parts)
    want = run_plain(model, graph, inputs)
    compare(run_threads(parts, lambda transport: run_part(transport, model, graph, owner, inputs)), want)


def part_here(rank: int, names: list[str]) -> list[dict[str, object]]:
    transport = Transport()
    graph, owner = make_graph(), make_owner(transport.size)
    return [run_part(transport, model, graph, owner, inputs) for model, inputs in map(build, names)]


@pytest.mark.parametrize("workers", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_real_workers_equal_the_whole(on_workers, workers):
    names = ["GCNConv weighted", "SAGEConv mean", "GATConv mean, edge features", "APPNP", "PNAConv", "GIN model",
             "own layer", "own arithmetic", "BatchNorm", "LayerNorm graph"]  # fmt: skip
    found = on_workers(workers, part_here, names)
    for name, parts in zip(names, zip(*found, strict=True), strict=True):
        model, inputs = build(name)
        compare(list(parts), run_plain(model, make_graph(), inputs))
