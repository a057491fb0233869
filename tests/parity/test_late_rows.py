"""Late rows, corrected by the drift of a worker's own rows: gradients of every epoch against the slow reference."""

from __future__ import annotations

import pytest

from halowire.errors import InputError
from halowire.training import policy_of, recipe_config
from halowire.wire import FORWARD
from tests.support.wire_case import bytes_sent, make_config, train_here
from tests.support.wire_checks import assert_gradients, find_steady, same, trained

LATE = {"freshness.mode": "late-rows"}
LOCAL = {"wire.first_layer": "local"}
ONE_BIT = {"rate.bits": 1, "rate.code": "levels", "rate.decay": 0.8}
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


def test_the_recipe_is_the_one_that_is_tested():
    recipe = recipe_config("halowire-late").flat()
    assert {name: recipe[name] for name in LATE | LOCAL | ONE_BIT} == LATE | LOCAL | ONE_BIT
    assert recipe["freshness.correction"] == "affine" and recipe["freshness.gradients"] == "none"


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
