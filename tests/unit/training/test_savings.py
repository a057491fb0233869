"""What need not travel is chosen by rows saved and by predicted cost, with prices that can be counted by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from halowire.errors import InputError
from halowire.events import SETUP
from halowire.graph import Graph
from halowire.kernels import Csr
from halowire.layers import stays_sparse
from halowire.partitioning import Partition, cut, machine_rows
from halowire.schedules import Stage
from halowire.training import RECIPES, Config, GraphParallel, Surroundings, recipe_config, refuse
from halowire.training.first_layer_choice import asked
from halowire.training.home_price import EPOCHS, HomePrice
from halowire.training.model_setup import build_model
from halowire.training.savings import Savings, choose_savings
from halowire.wire import HEADER_BYTES, InProcessTransport, Machines, run_threads
from tests.support.parity_graphs import CLASSES, FEATURES, NODES, cut_graph, make_graph

OURS = {"exact", "half", "isolated", "halowire-classic", "two-levels", "delta", "pipeline", "hybrid", "gnnpipe-1bit"}
AT_HOME = {"first-layer", "halowire", "halowire-late"}


def choose(settings: dict[str, Any], case: str = "plain", around: Surroundings | None = None) -> Savings:
    """What two workers choose; both choose the same."""
    config = Config().replace({"model.hidden": 16} | settings)
    shards = cut_graph(make_graph(case), 2)

    def here(transport: InProcessTransport) -> Savings:
        model = build_model(config.model, FEATURES, CLASSES, 0)
        stage = Stage.of(model, 0, len(model.blocks), config.rate.decay >= 0)
        return choose_savings(shards[transport.rank], config, transport, stage, around or Surroundings())

    one, other = run_threads(2, here)
    assert one == other
    return one


def price_of(settings: dict[str, Any], case: str = "plain") -> HomePrice:
    found = choose(settings | {"wire.first_layer": "local"}, case).first
    assert found is not None and found.price is not None
    return found.price


def test_prices_of_a_sum_of_dense_features():
    shards, hidden = cut_graph(make_graph("plain"), 2), 16
    rows = sum(shard.num_halo for shard in shards)
    price = price_of({"wire.cover": "off"})
    assert (price.rows, price.saved) == (rows, 2 * (rows * 4 * hidden + 2 * HEADER_BYTES))
    assert price.products == 2 * hidden * rows * 2 * FEATURES, "x and A x, forward and backward"
    assert price.sent_once == 4 * rows * FEATURES, "the features are sent in any case, the sums are not"
    most = max(shard.num_halo for shard in shards)
    assert price.memory == 4 * most * (2 * FEATURES + 2 * (hidden + hidden))


def test_prices_of_a_projection_and_of_narrow_products():
    rows = sum(shard.num_halo for shard in cut_graph(make_graph("plain"), 2))
    deep = price_of({"wire.cover": "off", "model.name": "gcnii", "model.layers": 4})
    assert (deep.products, deep.sent_once) == (2 * 16 * rows * FEATURES, 4 * rows * FEATURES)
    two = price_of({"wire.cover": "off", "model.name": "gcn", "model.layers": 2})
    assert two.products == 2 * 16 * rows * FEATURES + 3 * rows * 16 * CLASSES
    assert two.saved == 2 * (rows * 4 * CLASSES + 2 * HEADER_BYTES)


def test_partial_sums_leave_less_to_save():
    shards = cut_graph(make_graph("plain"), 2)
    covered = sum(sum(shard.cover_counts()) for shard in shards)
    rows = sum(shard.num_halo for shard in shards)
    price = price_of({"wire.cover": "on"})
    assert price.saved == 2 * (covered * 4 * 16 + 2 * HEADER_BYTES)
    assert price.sent_once == 4 * FEATURES * (2 * rows - covered)


def test_sparse_sums_have_the_columns_of_their_neighbours():
    """Two nodes of one worker read two of the other; all have ones in the same 2 of 16 columns, and so have sums.

    Four rows of sums are sent: their lengths in 4 bytes, their columns in 2, their values in 4.
    """
    edges = torch.tensor([[0, 1, 2, 3, 2, 3, 0, 1], [2, 3, 0, 1, 3, 2, 1, 0]])
    x = torch.zeros(4, 16)
    x[:, :2] = 1
    row, column = x.nonzero(as_tuple=True)
    graph = Graph.from_edge_index(edges, 4, x=Csr.from_edges(row, column, 4, 16), y=torch.tensor([0, 1, 0, 1]))
    shards = cut(graph, Partition(torch.tensor([0, 0, 1, 1]), 2))
    config = Config().replace({"wire.first_layer": "local", "wire.cover": "off", "model.hidden": 8})

    def here(transport: InProcessTransport) -> Savings:
        model = build_model(config.model, 16, 2, 0)
        return choose_savings(shards[transport.rank], config, transport, Stage.of(model, 0, 3), Surroundings())

    first = run_threads(2, here)[0].first
    assert first.price.sent_once == 4 * 4 + 4 * 2 * (2 + 4)
    assert first.price.products == 2 * 8 * (4 * 2 + 4 * 2)


@pytest.mark.parametrize("cover", ["off", "on"])
@pytest.mark.parametrize("model", ["gcn", "sage"])
@pytest.mark.parametrize("case", ["plain", "words", "sparse", "directed"])
def test_bytes_sent_once_are_those_that_the_ledger_books(case, model, cover):
    """Within 15 per cent, though the sums of sparse features are only sampled."""
    shards, found = cut_graph(make_graph(case), 3), {}
    for first in ("local", "exchange"):
        config = Config().replace(
            {"model.hidden": 16, "model.name": model, "wire.first_layer": first, "wire.cover": cover}
        )

        def here(transport: InProcessTransport, config: Config = config) -> tuple[int, Savings]:
            shard = shards[transport.rank]
            runner = GraphParallel(shard, shard, config, transport)
            return transport.ledger.totals[SETUP], runner.savings

        found[first] = run_threads(3, here)
    booked = sum(sent for sent, _ in found["local"]) - sum(sent for sent, _ in found["exchange"])
    assert found["local"][0][1].first.price.sent_once == pytest.approx(booked, rel=0.15)


def test_bytes_within_a_machine_are_counted_apart_and_take_less_time():
    """Four workers on two machines; rows cross once per machine, and are handed on."""
    shards, hidden = cut_graph(make_graph("plain"), 4), 16
    machines = Machines.split(4, 2)
    config = Config().replace({"model.hidden": hidden, "wire.first_layer": "local", "wire.cover": "off"})

    def price(hosts: int, within: float) -> HomePrice:
        def here(transport: InProcessTransport) -> Savings:
            transport.machines = machines if hosts == 2 else transport.machines
            model = build_model(config.model, FEATURES, CLASSES, 0)
            around = Surroundings(link=100.0, within=within)
            shard = shards[transport.rank]
            asked = config.replace({"mesh.hosts": hosts})
            return choose_savings(shard, asked, transport, Stage.of(model, 0, 3), around)

        return run_threads(4, here)[0].first.price

    needed, once = machine_rows(shards, machines.of)
    rows = sum(shard.num_halo for shard in shards)
    assert once < 0.95 * needed < needed < rows
    found, one = price(2, 8000.0), price(1, 8000.0)
    assert found.saved == pytest.approx(2 * (once * 4 * hidden + 8 * HEADER_BYTES), abs=2)
    assert found.saved_within == pytest.approx(2 * ((rows - once) * 4 * hidden + 4 * HEADER_BYTES), abs=2)
    assert (one.saved, one.saved_within) == (2 * (rows * 4 * hidden + 12 * HEADER_BYTES), 0)
    assert found.sent_once == 4 * FEATURES * needed and found.once_within == 4 * FEATURES * (rows - needed)
    assert one.sent_once == found.sent_once + found.once_within
    saved = (found.saved - found.sent_once / EPOCHS) * 8e-6 / 100 / 2
    assert price(2, 1e12).saved_seconds == pytest.approx(saved, rel=1e-5)
    assert found.saved_seconds > saved


@pytest.mark.parametrize("settings", [{"wire.cover": "on"}, {"wire.cover": "off"}])
def test_workers_with_sparse_and_with_dense_features_choose_alike(settings):
    shards = cut(make_graph("half sparse"), Partition(torch.arange(NODES) * 2 // NODES, 2))
    assert [stays_sparse(shard.x) for shard in shards] == [False, True]
    config = Config().replace({"model.hidden": 16, "wire.first_layer": "local"} | settings)

    def here(transport: InProcessTransport) -> Savings:
        stage = Stage.of(build_model(config.model, FEATURES, CLASSES, 0), 0, 3)
        return choose_savings(shards[transport.rank], config, transport, stage, Surroundings())

    one, other = run_threads(2, here)
    assert one == other


def test_a_slow_link_is_worth_products_and_a_fast_one_is_not():
    slow, fast = choose({"wire.link": 10.0}), choose({"wire.link": 1e7})
    assert slow.at_home and not fast.at_home
    assert slow.settle(Config()).wire.first_layer == "local" and fast.settle(Config()).wire.first_layer == "exchange"
    assert "which is predicted to pay: " in slow.lines()[1] and "is not predicted to pay: " in fast.lines()[1]
    assert choose({}, around=Surroundings(link=10.0)) == slow, "the settings say more than the surroundings"
    one_bit = choose({"wire.link": 1000.0, "rate.bits": 1, "model.hidden": 64})
    assert one_bit.first.price.saved_seconds < choose({"model.hidden": 64}).first.price.saved_seconds


def test_without_memory_the_rows_are_exchanged():
    found = choose({"wire.link": 10.0}, around=Surroundings(spare=100))
    assert not found.at_home and "has not the memory" in found.lines()[1]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"wire.plain": True}, "as --wire.plain asks"),
        ({"wire.first_layer": "exchange"}, "as --wire.first-layer exchange asks"),
        ({"model.name": "gat"}, "weights its neighbours anew in every epoch"),
        ({"rate.resend_input": True}, "--rate.resend-input sends the features anew"),
        ({"freshness.mode": "delayed", "freshness.threshold": 0.1}, "--freshness.threshold measures"),
        ({"rate.layers": "2:8, 1:4"}, "--rate.layers 2:8, 1:4 gives its rows a rate of their own"),
        ({"rate.layer_ratios": "1:4"}, "--rate.layer-ratios 1:4 gives its rows"),
    ],
)
def test_what_speaks_against_it_is_said(settings, words):
    found = choose(settings)
    assert not found.at_home and words in found.lines()[1]
    if "wire.first_layer" not in settings:
        with pytest.raises(InputError, match="--wire"):
            refuse(Config().replace(settings | {"wire.first_layer": "local"}))


def test_where_no_rows_travel_nothing_is_chosen():
    for settings in ({"freshness.mode": "never"}, {"model.layers": 1}):
        assert choose(settings) == Savings()


def test_published_recipes_send_every_row_and_ours_do_not():
    for name in RECIPES:
        wire = recipe_config(name).wire
        usual = ("auto", "auto") if name in OURS else ("local", "auto") if name in AT_HOME else ("exchange", "off")
        assert (wire.first_layer, wire.cover, wire.plain) == (*usual, False)
    published = {"sylvie-s", "sylvie-a", "sylvie-3d", "pipegcn", "bns", "varco", "gnnpipe"}
    assert published == RECIPES.keys() - OURS - AT_HOME


def test_facts_are_plain_and_lines_short_enough_for_a_console():
    found = choose({})
    assert found.facts()["first_layer"]["saved"] == found.first.price.saved
    assert all(len(line) < 300 for line in found.lines())
    assert found.chosen == {"covers": found.covers, "at_home": found.at_home}


@pytest.mark.parametrize("settings", [{"model.name": "gat"}, {"wire.plain": True}, {"rate.layers": "1:2"}])
def test_halowire_exchanges_the_first_layer_where_it_cannot_be_at_home(settings):
    config = recipe_config("halowire").replace(settings)
    refuse(config)
    choice = asked(config)
    assert choice is not None and not choice.at_home
    with pytest.raises(InputError, match="--wire"):
        refuse(recipe_config("exact").replace({"wire.first_layer": "local"} | settings))
