"""The numbers of a comparison: means, standard errors, differences taken seed by seed; and its table in words."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from halowire.report import table_rows
from halowire.report.comparison_record import aggregate, mean_and_error, ratio_text, run_numbers, spread_text
from tests.support.fake_comparison import write_comparison


def entry(recipe: str, seed: int, test: float, sent: float, seconds: float = 1.0) -> dict[str, object]:
    summary = {"epochs": 10, "test": test, "wire_bytes_per_epoch": sent, "epoch_seconds": seconds}
    return run_numbers(recipe, seed, f"{recipe}-seed{seed}", summary)


def test_mean_and_standard_error() -> None:
    assert mean_and_error([1.0, 2.0, 3.0, math.nan]) == {
        "mean": 2.0,
        "standard_error": pytest.approx(1 / math.sqrt(3)),
        "runs": 3,
    }
    assert mean_and_error([5.0]) == {"mean": 5.0, "standard_error": None, "runs": 1}
    assert mean_and_error([]) == {"mean": None, "standard_error": None, "runs": 0}


def test_differences_are_between_runs_of_the_same_seed() -> None:
    runs = [
        entry("exact", 0, 0.70, 1000), entry("exact", 1, 0.90, 2000),
        entry("half", 0, 0.69, 500, 0.5), entry("half", 1, 0.89, 1000, 0.5), entry("half", 2, 0.10, 9999),
    ]  # fmt: skip
    found = aggregate(runs, ["exact", "half"])
    against = found["half"]["to_exact"]
    assert against["test"] == {"mean": pytest.approx(-0.01), "standard_error": pytest.approx(0, abs=1e-12), "runs": 2}
    assert against["halo_bytes"]["mean"] == against["seconds"]["mean"] == 0.5
    assert found["half"]["test"]["runs"] == 3 and "to_exact" not in found["exact"]
    assert found["exact"]["halo_bytes"]["mean"] == 15_000


def test_nothing_is_compared_with_a_recipe_that_is_not_there() -> None:
    found = aggregate([entry("half", 0, 0.7, 10)], ["half"])
    assert not any(key.startswith("to_") for key in found["half"])
    assert aggregate([], ["exact", "half"]) == {}


def test_a_ratio_to_nothing_is_unknown() -> None:
    found = aggregate([entry("exact", 0, 0.7, 0), entry("half", 0, 0.7, 0)], ["exact", "half"])
    assert found["half"]["to_exact"]["halo_bytes"]["mean"] is None


def test_the_record_is_plain_json(tmp_path: Path) -> None:
    record = write_comparison(tmp_path, ("exact", "isolated"), lacking=1)
    assert json.loads((tmp_path / "compare.json").read_text()) == record
    assert not record["finished"] and len(record["runs"]) == 5
    assert "NaN" not in (tmp_path / "compare.json").read_text()


@pytest.mark.parametrize(
    ("value", "words"),
    [(1.0, "1.00"), (0.43, "0.43"), (1 / 23.2, "1/23"), (0.0, "0"), (12.5, "12.50"), (math.nan, "–")],
)
def test_ratios_in_words(value: float, words: str) -> None:
    assert ratio_text(value) == words


def test_points_in_words() -> None:
    assert spread_text({"mean": 0.79412, "standard_error": 0.0012}, "accuracy") == "79.41 ± 0.12"
    assert spread_text({"mean": -0.0046, "standard_error": None}, "accuracy", signed=True) == "−0.46"
    assert spread_text({"mean": 0.41234, "standard_error": 0.004}, "mae") == "0.4123 ± 0.0040"
    assert spread_text({"mean": None, "standard_error": None}, "mae") == spread_text(None, "mae") == "–"


def test_the_table_has_a_row_for_every_recipe_and_cells_for_every_head(tmp_path: Path) -> None:
    record = write_comparison(tmp_path, ("exact", "halowire", "isolated"))
    rows = table_rows(record)
    assert {len(row) for row in rows} == {10}
    assert [row[0] for row in rows] == ["", "recipe", "exact", "halowire", "isolated"]
    assert rows[3][1].startswith("78.") and " ± " in rows[3][1] and rows[3][-1] == "1/22" and rows[2][2] == ""
    alone = write_comparison(tmp_path / "alone", ("varco",), seeds=1)
    assert [len(row) for row in table_rows(alone)] == [5, 5, 5]
