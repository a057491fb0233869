"""The table of accuracy: which runs come first, when a finished run counts, what a partial table says."""

from __future__ import annotations

from dataclasses import replace

import pytest
from bench.accuracy.table import grouped, table
from bench.accuracy.tasks import AT_HOME, GRAPHS, RECIPES, TELLING, Task, tasks

ALL = list(tasks([], codes=True))
DEBIAN = Task(GRAPHS[0], "random", "halowire", "halowire", (), 1)


def run(test: float, sent: float, setup: float | None = None) -> dict[str, float]:
    weights = 7.0  # sent by all recipes alike, and not counted
    once = {} if setup is None else {"setup_wire_bytes": setup + weights, "weights_wire_bytes": weights}
    return {"test": test, "wire_bytes_per_epoch": sent, "epochs": 10, **once}


def test_every_run_is_there_once_and_the_telling_ones_come_first():
    keys = [task.key for task in ALL]
    assert len(set(keys)) == len(keys)
    for data in GRAPHS:
        for cut in ("random", "metis"):
            for recipe in RECIPES:
                found = [task.seed for task in ALL if (task.data, task.cut, task.name) == (data, cut, recipe)]
                assert found == list(range(data.seeds))
    others = next(number for number, task in enumerate(ALL) if task.name not in TELLING)
    assert all(task.name in TELLING for task in ALL[:others])
    assert not any(task.name in TELLING for task in ALL[others:])
    assert [task.seed for task in ALL[:others] if task.data.name == "debian"] == sorted([*range(5)] * 10)


def test_the_digest_is_that_of_the_settings_alone():
    digests = {replace(DEBIAN, seed=seed).digest for seed in (1, 2)}
    assert len(digests | {replace(DEBIAN, recipe="halowire-late").digest}) == 3
    assert replace(DEBIAN, name="another name").digest == DEBIAN.digest
    gradients = (("freshness.gradients", "auto"), ("rate.backward_bits", 0), ("rate.backward_code", ""))
    late = replace(DEBIAN, settings=(("freshness.mode", "late-rows"), *gradients))
    again = replace(DEBIAN, recipe="halowire-late", settings=(("wire.rows", "hidden"),))
    assert replace(late, settings=(*late.settings, ("wire.rows", "hidden"))).digest == again.digest


def test_only_recipes_with_the_first_layer_at_home_leave_rows_out():
    for task in ALL:
        assert task.config.wire.plain == (task.recipe not in AT_HOME)
        assert (task.config.wire.first_layer == "local") == (task.recipe in AT_HOME)


def test_the_table_counts_seeds_and_set_up_and_says_that_it_is_partial():
    results = {
        "debian/random/exact/0": run(0.80, 1000.0),
        "debian/random/exact/1": run(0.82, 1000.0),
        "debian/random/halowire/0": run(0.801, 10.0, 100.0),
        "debian/metis/exact/0": run(0.80, 1000.0),
        "debian/metis/halowire/0": run(0.79, 10.0, 0.0),
    }
    found = table(results, [*results, "debian/metis/isolated/0"])
    assert "Partial: 5 of 6 runs are there" in found
    assert "81.00 ± 1.00 (2)" in found and "80.10 (1)" in found
    assert "1/50.0 (1/100.0)" in found, "set-up counts, and stands apart"
    assert "| debian, random | +0.10 | 1 | -0.30 | 1/50.0 | met |" in found
    assert "| debian, metis | -1.00 | 1 | -0.20 | 1/100.0 | missed |" in found
    assert "1/75.0 of the bytes of `exact` in the median; the goal is 1/30" in found
    assert "Partial" not in table(results, list(results))


@pytest.mark.parametrize("wanted", [["debian", "random"], ["debian", "metis"]])
def test_runs_are_grouped_by_graph_and_cut(wanted):
    name = "/".join(wanted)
    assert list(grouped({f"{name}/exact/0": run(0.5, 1.0)})) == [tuple(wanted)]
