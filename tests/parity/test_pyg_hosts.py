"""PyG models on several machines: rows that cross the network once, and all that saves beside, equal plain PyG."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_geometric.nn as pyg

import halowire
from halowire.errors import InputError
from halowire.events import LOCAL
from halowire.wire import Machines, run_threads
from tests.support import home_models as at_home
from tests.support import sum_layers as covered
from tests.support.fit_case import make_data
from tests.support.pyg_case import assert_close, compare, make_graph, run_plain, seeded

SUMS = ("GCNConv", "SAGEConv mean", "GraphConv, weights", "TAGConv", "GATConv, then SAGEConv", "GCN2Conv")
QUICK = ("SAGEConv mean", "GATConv, then SAGEConv")
EXCHANGE = {"wire.first_layer": "exchange"}
COVERS = (EXCHANGE | {"wire.cover": "off"}, EXCHANGE | {"wire.cover": "on"})
NAMES = ("x", "edge_index")


MANY = r"--mesh\.hosts 3 asks for more machines than there are workers, 2"


def hosted(train: Callable[[Any], dict[str, Any]], workers: int, hosts: int) -> list[dict[str, Any]]:
    """What the workers give on so many machines, and the halo bytes of training that stayed within these."""

    def work(transport: Any) -> dict[str, Any]:
        transport.machines = Machines.split(transport.size, hosts)
        return train(transport) | {"local": transport.ledger.totals[LOCAL]}

    return run_threads(workers, work)


def summing(name: str, settings: dict[str, Any], workers: int, hosts: int, method: str = "random") -> None:
    """A model whose layers add rows up equals plain PyG, and rows were handed on."""
    names = (*NAMES, "edge_weight") if "weights" in name else NAMES
    model = seeded(covered.LAYERS[name])
    parts = hosted(lambda t: covered.train_here(t, model, settings, method, names=names), workers, hosts)
    compare(parts, run_plain(model, make_graph(), names))
    assert sum(part["local"] for part in parts) > 0


@pytest.mark.parametrize("name", QUICK)
def test_layers_that_add_rows_up(name):
    summing(name, COVERS[1], 4, 2)


@pytest.mark.slow
@pytest.mark.parametrize("settings", COVERS, ids=["rows", "partial sums"])
@pytest.mark.parametrize(("workers", "hosts"), [(3, 2), (4, 2)])
@pytest.mark.parametrize("method", ["random", "metis", "hypergraph"])
@pytest.mark.parametrize("name", SUMS)
def test_every_layer_and_cut(name, method, workers, hosts, settings):
    summing(name, settings, workers, hosts, method)


@pytest.mark.slow
@pytest.mark.parametrize("settings", [at_home.LOCAL, at_home.ALL], ids=["at home", "with partial sums"])
@pytest.mark.parametrize("name", at_home.MODELS)
def test_the_first_layer_at_home(name, settings):
    make, columns = at_home.MODELS[name]
    if settings is at_home.ALL and (not columns or name == "GATConv"):
        pytest.skip("no layer that adds rows up is left to send any")
    model = seeded(make)
    parts = hosted(lambda t: at_home.train_here(t, model, settings), 4, 2)
    compare(parts, run_plain(model, make_graph(), NAMES))


def test_the_setting_tells_machines_apart_or_not():
    """Two machines of two workers: fewer bytes cross the network; on one, all of them do."""
    model = seeded(covered.LAYERS["SAGEConv mean"])
    want, sent = run_plain(model, make_graph(), NAMES), {}
    for hosts in (1, 2):
        settings = COVERS[0] | {"mesh.hosts": hosts}
        # The transport comes with other machines than the setting asks for.
        parts = hosted(lambda t, given=settings: covered.train_here(t, model, given), 4, 3 - hosts)
        compare(parts, want)
        assert (sum(part["local"] for part in parts) > 0) == (hosts == 2)
        sent[hosts] = sum(part["sent"] for part in parts)
    assert sent[2] < 0.7 * sent[1]


def test_more_machines_than_workers_are_refused():
    def here(transport: Any) -> None:
        covered.train_here(transport, seeded(covered.LAYERS["GCNConv"]), {"mesh.hosts": 3})

    with pytest.raises(InputError, match=MANY):
        run_threads(2, here)
    with pytest.raises(InputError, match=MANY):
        halowire.fit(pyg.models.GraphSAGE(5, 8, 2, 3), make_data(), 2, settings={"mesh.hosts": 3})
    with pytest.raises(InputError, match=r"the setting mesh\.stages has no effect on a model of one's own"):
        halowire.fit(pyg.models.GraphSAGE(5, 8, 2, 3), make_data(), 2, settings={"mesh.stages": 2})


@pytest.mark.slow
def test_fit_hands_rows_on_and_predicts_as_without(tmp_path):
    torch.manual_seed(5)
    model, data = pyg.models.GraphSAGE(5, 8, 3, 3), make_data()

    def fit(hosts: int) -> Any:
        settings = {"epochs": 3, "eval.every": 2, "threads": 1, "mesh.hosts": hosts}
        return halowire.fit(model, data, 4, settings=settings, out=tmp_path / str(hosts), quiet=True)

    two, one = fit(2), fit(1)
    assert_close("predictions", two.predictions, one.predictions)
    assert two.summary["local_bytes_per_epoch"] > 0 and not one.summary.get("local_bytes_per_epoch")
    assert two.summary["wire_bytes_per_epoch"] < one.summary["wire_bytes_per_epoch"]
    assert json.loads((tmp_path / "2/config.json").read_text())["mesh"]["hosts"] == 2
