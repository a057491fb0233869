"""Late rows, corrected by the drift of a worker's own rows: gradients of every epoch against the slow reference."""

from __future__ import annotations

import math

import pytest

from halowire.errors import InputError
from halowire.training import Config, policy_of, recipe_config
from halowire.training.row_age import gradients_of
from halowire.wire import BACKWARD, FORWARD, HEADER_BYTES
from tests.support.parity_graphs import cut_graph
from tests.support.wire_case import CLASSES, HIDDEN, bytes_sent, make_config, make_graph, train_here
from tests.support.wire_checks import assert_gradients, find_steady, same, trained

WAYS = FORWARD, BACKWARD
LATE = {"freshness.mode": "late-rows"}
LOCAL = {"wire.first_layer": "local"}
ONE_BIT = {"rate.bits": 1, "rate.code": "levels", "rate.decay": 0.8}
SHALLOW = {"freshness.gradients": "shallow", "rate.backward_bits": 2, "rate.backward_code": "minmax"}
NO_GRADIENTS = {"freshness.gradients": "none", "wire.rows": "hidden"}
CASES = {
    "float32": LATE,
    "uncorrected": LATE | {"freshness.correction": "none"},
    "mean": LATE | {"freshness.correction": "mean"},
    "fresh gradients": LATE | {"freshness.gradients": "fresh"},
    "late gradients": LATE | {"freshness.gradients": "late"},
    "damped gradients": LATE | {"freshness.gradients": "late", "freshness.damping": 0.5},
    "bounded": LATE | {"freshness.sync_every": 3, "freshness.gradients": "late", "freshness.damping": 0.5},
    "one bit": LATE | ONE_BIT,
    "one bit, no memory": LATE | {"rate.bits": 1},
    "columns from memory": LATE | {"rate.bits": 4, "rate.decay": 0.8, "rate.ratio": 2.0},
    "by layer": LATE | {"freshness.correction": "none", "freshness.layers": "2:affine"},
    "products": LATE | {"freshness.correction": "none", "wire.rows": "narrow"},
    "at home": LATE | LOCAL,
    "at home, one bit": LATE | LOCAL | ONE_BIT,
    "at home, nothing else": LOCAL | {"freshness.mode": "never"},
    "hidden rows, fresh": {"wire.rows": "hidden", "rate.bits": 1},
    "fresh, no gradients": NO_GRADIENTS,
    "fresh, no gradients, products": {"freshness.gradients": "none", "rate.bits": 4},
    "halowire": NO_GRADIENTS | LOCAL | ONE_BIT,
    "own bits of products": {"rate.bits": 1, "rate.narrow_bits": "4/2"},
    "own code of products": {"rate.bits": 1, "rate.code": "levels", "rate.narrow_code": "minmax/clipped"},
}


@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("case", CASES)
def test_gradients_equal_the_reference(on_workers, case, workers):
    config, want = find_steady(CASES[case] | ({"model.name": "gcn"} if workers == 3 else {}), workers)
    assert_gradients(on_workers(workers, train_here, config), want)


def test_large_interiors(on_workers):
    config, want = find_steady(CASES["at home, one bit"], 3, "range")
    assert_gradients(on_workers(3, train_here, config, "range"), want)


def test_every_epoch_synchronous_is_fresh(on_workers):
    always = {"freshness.sync_every": 1, "freshness.gradients": "late", "wire.rows": "hidden"}
    # Without changes of rows fresh rows travel after dropout, so only float32 rows are the same bit for bit.
    fresh = {"wire.rows": "hidden"}
    assert same(
        trained(on_workers, LATE | always | {"model.dropout": 0.0}), trained(on_workers, fresh | {"model.dropout": 0.0})
    )


def test_without_gradients_half_of_the_bytes_travel(on_workers):
    rows = trained(on_workers, LATE)
    both = trained(on_workers, LATE | {"freshness.gradients": "fresh"})
    assert 0 < 2 * bytes_sent(rows, 1) == bytes_sent(both, 1)


def test_nothing_travels_but_the_first_layer(on_workers):
    assert bytes_sent(trained(on_workers, CASES["at home, nothing else"]), 1) == 0


@pytest.mark.parametrize(
    ("name", "tested"),
    [("halowire-late", LATE | LOCAL | ONE_BIT), ("halowire", CASES["halowire"] | SHALLOW)],
)
def test_the_recipe_is_the_one_that_is_tested(name, tested):
    default, recipe = Config().flat(), recipe_config(name).flat()
    assert {name: value for name, value in recipe.items() if value != default[name]} == tested | {"recipe": name}


@pytest.mark.parametrize(("layers", "gradients"), [(2, "none"), (3, "none"), (4, "fresh")])
def test_shallow_models_send_no_gradients(layers, gradients):
    assert gradients_of(recipe_config("halowire").replace({"model.layers": layers})) == gradients


def test_fresh_rows_without_gradients_are_late_rows_in_synchronous_epochs():
    synchronous = LATE | {"freshness.sync_every": 1, "freshness.correction": "none"}
    fresh, late = (policy_of(make_config(own), [16, 16], 100) for own in (NO_GRADIENTS, synchronous))
    assert all(fresh.freshness.sends(way) == late.freshness.sends(way) for way in (FORWARD, BACKWARD))
    assert not fresh.freshness.late(FORWARD) and late.freshness.synchronous(7)


def test_every_kind_of_row_has_its_code_and_bits():
    settings = {
        "rate.bits": 1, "rate.code": "levels", "rate.backward_bits": 2, "rate.backward_code": "minmax",
        "rate.narrow_bits": "4/8", "rate.narrow_code": "clipped/minmax", "rate.layers": "3:2",
    }  # fmt: skip
    rates = policy_of(make_config(settings), [16, 16, 4, 4], 100, hidden=16).rates
    found = {
        (layer, way): (rates(0, layer, way).bits, rates(0, layer, way).code) for layer in (1, 3, 4) for way in WAYS
    }
    assert found == {
        (1, FORWARD): (1, "levels"), (1, BACKWARD): (2, "minmax"), (3, FORWARD): (2, "minmax"),
        (3, BACKWARD): (2, "minmax"), (4, FORWARD): (4, "minmax"), (4, BACKWARD): (8, "minmax"),
    }  # fmt: skip


def test_bytes_of_every_kind_are_counted_exactly(on_workers):
    settings = {"rate.bits": 1, "rate.narrow_bits": "4/8", "epochs": 2}
    config = make_config(settings)
    halo = sum(shard.num_halo for shard in cut_graph(make_graph(), 2, "random"))
    rows = 2 * (math.ceil(HIDDEN / 8) + 4) + (math.ceil(4 * CLASSES / 8) + 4) + (CLASSES + 4)
    messages = 2 * 2 * 2  # two workers, two layers, there and back
    assert bytes_sent(on_workers(2, train_here, config), 1) == halo * rows + messages * HEADER_BYTES


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            LATE | {"freshness.layers": "2:cubic"},
            "gives layer 2 the correction 'cubic'; give one of none, mean, affine",
        ),
        (LATE | {"freshness.layers": "7:mean"}, "--freshness.layers has '7:mean'"),
        (LATE | {"freshness.damping": 0.5}, "--freshness.damping has no effect"),
        (LATE | {"rate.ratio": 2.0}, "needs whole rows"),
        (LATE | {"wire.rows": "narrow"}, "products of dropped rows"),
        (LATE | {"rate.rows": 0.5}, "cannot be corrected"),
        ({"freshness.correction": "mean"}, "without --freshness.mode late-rows"),
        ({"freshness.gradients": "late"}, "belongs to late rows"),
        ({"freshness.gradients": "none", "freshness.mode": "delayed"}, "as old as its rows"),
        ({"freshness.gradients": "none", "freshness.mode": "never"}, "which sends no rows"),
        ({"freshness.gradients": "none", "rate.backward_bits": 2}, "without gradients that travel"),
        ({"rate.narrow_bits": "3"}, "--rate.narrow-bits is '3'; give one value"),
        ({"rate.narrow_code": "levels/cubic"}, "--rate.narrow-code is 'levels/cubic'; give one value"),
        ({"rate.narrow_bits": "2", "wire.rows": "hidden"}, "where no rows are narrowed"),
        ({"rate.narrow_code": "levels"}, "without bits that it takes"),
        ({"rate.bits": 1, "rate.share": 0.1, "rate.narrow_bits": "2"}, "both decide on the bits"),
    ],
)
def test_settings_that_do_not_go_together(settings, words):
    with pytest.raises(InputError, match=words.replace("[", "\\[")):
        policy_of(make_config(settings), [16, 16], 100)


def test_a_budget_counts_rows_alone_where_no_gradients_return():
    settings = {"rate.schedule": "budget", "rate.budget": 4.0 * 10_000, "rate.decay": 0.8, "epochs": 1}
    alone = policy_of(make_config(LATE | settings), [100], 100).rates(0, 1, FORWARD)
    both = policy_of(make_config(LATE | settings | {"freshness.gradients": "fresh"}), [100], 100).rates(0, 1, FORWARD)
    assert (alone.columns(100), both.columns(100)) == (100, 50)
