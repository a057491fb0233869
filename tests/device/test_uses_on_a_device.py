"""Whatever else the CPU's tests compare with plain PyG, on the simulated device in two real processes.

Weights per node, pairs, outputs of edges, autoencoders, rows of more dimensions, other types than float32, several
node types, draws, and all listed models: the CPU's results, element by element, and few host waits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from halowire.events import LOCAL, TRAIN
from halowire.training import recipe_config
from tests.support.allowed import allowed
from tests.support.device_case import few_waits, same_run
from tests.support.device_pyg import IN_A_LOOP, OF_USES
from tests.support.device_uses import USES, use_on_both
from tests.support.layer_tables import TABLES
from tests.support.list_case import EQUAL
from tests.support.three_layers import KINDS

MOST_WAITS = 6
MORE_WAITS = {
    # PyG lays the rows out as a batch of dense matrices, for which it reads sizes and masks in every pass.
    "batches: Polynormer": 7,
    # New edges in every pass, which two layers drop, part from self loops, and sort.
    "model: DropEdges": 12,
    # The same for each of 8 edge types, once; joined in forward, the model copies the shift of each type to the device,
    # which is read to tell whose rows the edges name, and the layer picks each type by a mask.
    "types: edge features and DropEdges": 10,
    "types: joined in forward": 27,
}
"""Uses that read more in every epoch: what they do needs numbers that only the device knows."""
QUICK = ["weights: embedding by number", "LightGCN: ranking", "precision: bf16"]
CODED = [
    "weights: LightGCN", "LightGCN: ranking", "typed pairs: hetero_link_pred.py", "typed pairs: encode and decode",
    "edges: scores", "typed edges: scores of one type", "autoencoder: GAE", "batches: GraphNorm",
    "batches: GCNConv over time", "precision: bf16", "precision: reversible",
]  # fmt: skip


EXCHANGE = {"wire.first_layer": "exchange"}
"""Left to its price, the first layer of some of these models would be at home, and no row be left to travel."""
SAVINGS: dict[str, dict[str, Any]] = {
    "cover": {"wire.cover": "on"} | EXCHANGE,
    "hosts": {"mesh.hosts": 2} | EXCHANGE,
    "both": {"wire.cover": "on", "mesh.hosts": 2} | EXCHANGE,
    "sums": {"wire.cover": "on", "rate.bits": 1, "rate.sums": 4} | EXCHANGE,
    "plain": {"wire.plain": True},
}
SAVED = ["model: GCNConv", "model: SAGEConv mean", "model: GINConv", "model: GraphConv"]
AT_HOME: dict[str, dict[str, Any]] = {
    "home": {"wire.first_layer": "local", "wire.cover": "off"},
    "home and cover": {"wire.first_layer": "local", "wire.cover": "on"},
    "home and hosts": {"wire.first_layer": "local", "wire.cover": "off", "mesh.hosts": 2},
    "all": {"wire.first_layer": "local", "wire.cover": "on", "mesh.hosts": 2},
}
"""Every other way to leave out what need not travel, with the first layer at home."""


def _workers(settings: dict[str, Any]) -> int:
    """Two machines have two workers each, so that rows are handed on."""
    return 4 if "mesh.hosts" in settings else 2


def _let_in(recipe: str, saving: str) -> bool:
    settings = (SAVINGS | AT_HOME)[saving]
    return allowed(recipe_config(recipe, own_model=True).replace(settings), _workers(settings), "distribute")


RECIPES_OF_SAVINGS = ("exact", "halowire", "sylvie-a")
OF_SAVINGS = [
    (name, saving, recipe)
    for names, savings in ((SAVED, SAVINGS), ([f"three layers: {kind}" for kind in KINDS], AT_HOME))
    for name in names
    for saving in savings
    for recipe in RECIPES_OF_SAVINGS
    if _let_in(recipe, saving)
]
QUICK_SAVINGS = [
    ("model: GINConv", "both", "sylvie-a"),
    ("three layers: GraphConv", "home", "halowire"),
    ("three layers: GCNConv", "all", "exact"),
]


def _check(on_sim: Callable[..., list[Any]], name: str, recipe: str = "exact", saving: str = "") -> None:
    settings = (SAVINGS | AT_HOME).get(saving, {})
    both = on_sim(use_on_both, name, recipe, settings, workers=_workers(settings))
    same_run(both)
    few_waits(both, MORE_WAITS.get(name, MOST_WAITS), first=1)  # the first epoch sorts the edges
    if saving:  # at home the rows of one layer are left out, those of the last one travel
        assert all(device.sent[TRAIN] for device, _ in both)
    if "mesh.hosts" in settings:
        assert all(device.sent[LOCAL] for device, _ in both)


@pytest.mark.parametrize("name", QUICK)
def test_a_use_on_a_device(on_sim: Callable[..., list[Any]], name: str) -> None:
    _check(on_sim, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", USES)
def test_every_use_on_a_device(on_sim: Callable[..., list[Any]], name: str) -> None:
    _check(on_sim, name)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["halowire", "sylvie-a"])
@pytest.mark.parametrize("name", CODED)
def test_coded_rows_on_a_device(on_sim: Callable[..., list[Any]], name: str, recipe: str) -> None:
    _check(on_sim, name, recipe)


@pytest.mark.parametrize(("name", "saving", "recipe"), QUICK_SAVINGS)
def test_a_saving_on_a_device(on_sim: Callable[..., list[Any]], name: str, saving: str, recipe: str) -> None:
    _check(on_sim, name, recipe, saving)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "saving", "recipe"), OF_SAVINGS)
def test_what_need_not_travel_is_left_out(
    on_sim: Callable[..., list[Any]], name: str, saving: str, recipe: str
) -> None:
    _check(on_sim, name, recipe, saving)


def test_recipes_may_use_every_saving_but_sums_of_rows_that_drop_late() -> None:
    left_out = {saving for saving in SAVINGS | AT_HOME if not _let_in("halowire", saving)}
    assert left_out == {"cover", "both", "sums", "home and cover", "all"}
    assert all(_let_in(recipe, saving) for recipe in ("exact", "sylvie-a") for saving in SAVINGS | AT_HOME)
    assert set(QUICK_SAVINGS) <= set(OF_SAVINGS)


def test_every_model_that_equals_plain_pyg_is_tried() -> None:
    listed = {name for table in TABLES.values() for name, case in table.items() if case.outcome == EQUAL}
    tried = {name.partition(": ")[2] for name in USES} | set(IN_A_LOOP)
    assert listed <= tried and set(OF_USES) <= tried
    assert {*MORE_WAITS, *QUICK, *CODED} <= USES.keys()
