"""The table of a comparison in words."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from halowire.report import table_rows
from halowire.report.comparison_table import Column, Compared, best_table, ratio_text, spread_text
from tests.support.fake_comparison import write_comparison


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


def test_the_best_of_a_column_is_bold_unless_all_read_the_same() -> None:
    values = {"a": (1.0, 2.0, 3.0), "b": (1.004, 2.004, 2.0), "c": (5.0, 1.999, math.nan)}
    rows = [Compared(name, 0, {"values": found}) for name, found in values.items()]

    def column(place: int, best: Callable[[list[float]], float] | None) -> Column:
        return Column("x", lambda one: f"{one['values'][place]:.2f}", lambda one: one["values"][place], best)

    text = best_table("recipe", rows, [column(0, min), column(1, max), column(2, min), column(2, None)], "caption")
    assert re.findall(r'class="best">([\d.]+)<', text) == ["1.00", "1.00", "2.00"]
