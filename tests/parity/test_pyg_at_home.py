"""PyG models whose first rows are computed at home: nothing of them travels, and many workers equal plain PyG."""

from __future__ import annotations

import pytest
import torch
import torch_geometric.nn as pyg
from torch import nn

import halowire
from halowire.errors import InputError
from halowire.pyg.home_rows import Home, HomeRows, bare
from halowire.wire import HEADER_BYTES, run_threads
from tests.support.home_models import ALL, HIDDEN, LOCAL, MODELS, Net, Sorted, train_here
from tests.support.pyg_case import (
    CLASSES,
    FEATURES,
    assert_close,
    compare,
    make_graph,
    run_plain,
    seeded,
)

CUTS = [(2, "random"), *(pytest.param(workers, method, marks=pytest.mark.slow) for workers, method in (
    (3, "random"), (4, "random"), (2, "metis"), (3, "metis"), (4, "metis"), (3, "hypergraph"), (4, "hypergraph"),
))]  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(("workers", "method"), CUTS)
def test_workers_equal_plain_pyg_and_send_only_later_layers(name, workers, method):
    make, columns = MODELS[name]
    model = seeded(make)
    parts = run_threads(workers, lambda transport: train_here(transport, model, LOCAL, method=method))
    compare(parts, run_plain(model, make_graph(), ("x", "edge_index")))
    for part in parts:
        rows, out, back = part["rows_sent"] + part["asked"], *part["peers"]
        assert part["sent"] == (4 * columns * rows + (out + back) * HEADER_BYTES if columns else 0)
        assert part["eval_sent"] == (4 * columns * part["rows_sent"] + out * HEADER_BYTES if columns else 0)


class Drawn(nn.Module):
    """Dropout that draws by the ids of nodes and of edges, so that one process draws what many workers do."""

    def __init__(self) -> None:
        super().__init__()
        self.random, self.drop = halowire.Random(seed=3), halowire.DropEdges(0.3)
        self.one, self.two = pyg.SAGEConv(FEATURES, HIDDEN), pyg.GCNConv(HIDDEN, HIDDEN)
        self.three, self.four = pyg.SAGEConv(HIDDEN, HIDDEN), pyg.SAGEConv(HIDDEN, CLASSES)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        h = self.one(x, edge_index).relu()
        h = self.three(self.two(h, edge_index).relu(), edge_index).relu()
        kept = self.random.nodes(edge_index, x.size(0), HIDDEN) > 0.4
        edges = self.drop(edge_index)
        return self.four(h * kept / 0.6, edges)


@pytest.mark.parametrize(("workers", "method", "settings"), [
    (3, "metis", ALL), *(pytest.param(*case, marks=pytest.mark.slow) for case in (
        (2, "random", LOCAL), (4, "metis", LOCAL), (4, "hypergraph", ALL), (4, "random", ALL | {"mesh.hosts": 2}),
    )),
])  # fmt: skip
def test_dropout_that_draws_by_node_is_that_of_one_process(workers, method, settings):
    model = seeded(Drawn)
    parts = run_threads(workers, lambda t: train_here(t, model, settings, passes=1, method=method))
    compare(parts, run_plain(model, make_graph(), ("x", "edge_index")))


@pytest.mark.parametrize("first", [0.0, 0.4], ids=["hidden rows", "features"])
def test_dropout_is_that_of_the_node_whoever_computes_it(first):
    """A node's values are dropped alike on all workers, so that the number of workers changes nothing."""
    model = seeded(lambda: Net(pyg.SAGEConv, drop=0.0 if first else 0.5, first=first))
    outs = []
    for workers in (2, 3):
        parts = run_threads(workers, lambda transport: train_here(transport, model, LOCAL))
        whole = torch.empty(len(make_graph()["x"]), CLASSES)
        for part in parts:
            whole[part["rows"]] = part["out"]
        outs.append((whole, parts[0]["grads"], [part["sent"] for part in parts]))
    assert_close("output", outs[1][0], outs[0][0])
    for name, grad in outs[0][1].items():
        assert_close(name, outs[1][1][name], grad)
    # Features that are dropped have another sum in every pass, so their layer is exchanged after it.
    assert (outs[0][2] == [0, 0]) == (first == 0)


@pytest.mark.parametrize("workers", [2, pytest.param(4, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", [n for n, case in MODELS.items() if case[1] and n != "GATConv"])
def test_later_layers_send_partial_sums(name, workers):
    model = seeded(MODELS[name][0])
    both = run_threads(workers, lambda transport: train_here(transport, model, ALL))
    compare(both, run_plain(model, make_graph(), ("x", "edge_index")))
    home = run_threads(workers, lambda transport: train_here(transport, model, LOCAL))
    assert 0 < sum(part["sent"] for part in both) < sum(part["sent"] for part in home)


def test_a_model_that_sends_all_its_rows_is_refused_with_local_and_trained_with_auto():
    with pytest.raises(InputError, match="this model sends all of its rows all the same"):
        run_threads(2, lambda transport: train_here(transport, seeded(Sorted), LOCAL, 1))
    parts = run_threads(2, lambda transport: train_here(transport, seeded(Sorted), {}, 1))
    assert all(part["sent"] > 0 for part in parts)


def test_rows_that_were_changed_in_place_no_longer_know_their_halo():
    class Part:
        passing = None

    home = Home(Part())
    rows = HomeRows.of(torch.ones(3, 2), torch.ones(4, 2), home)
    assert rows.knows(home.bridge) and isinstance(rows + 1, HomeRows) and not isinstance(rows[0], HomeRows)
    assert isinstance(torch.cat([rows, rows], 1), HomeRows) and not isinstance(torch.cat([rows, rows]), HomeRows)
    assert not isinstance(rows + torch.ones(3, 2), HomeRows), "a tensor of this worker's rows has none of the halo's"
    later = rows.relu_()
    bare(rows).mul_(2)
    assert not rows.knows(home.bridge) and not isinstance(rows + 1, HomeRows)
    assert isinstance(later, HomeRows)
