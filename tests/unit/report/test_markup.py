"""Markup: everything is escaped that is not markup already; a table that compares shows the best in bold."""

from __future__ import annotations

import math
import re

from halowire.report import join, tag
from halowire.report.markup import Column, Compared, best_table


def test_markup_escapes_all_but_markup() -> None:
    assert (
        tag("a", "<", tag("b", "&"), title='"<', class_="x", hidden=None)
        == '<a title="&quot;&lt;" class="x">&lt;<b>&amp;</b></a>'
    )
    assert join("<", None, 3) == "&lt;3"


def test_the_best_of_a_column_is_bold_unless_all_read_the_same() -> None:
    values = {"a": (1.0, 2.0, 3.0), "b": (1.004, 2.004, 2.0), "c": (5.0, 1.999, math.nan)}
    rows = [Compared(name, 0, dict(zip("xyz", found, strict=True))) for name, found in values.items()]
    picks = [("x", min), ("y", max), ("z", min), ("z", None)]
    columns = [Column("head", (key,), "{:.2f}".format, best) for key, best in picks]
    text = best_table("recipe", rows, columns, "caption")
    assert re.findall(r'class="best">([\d.]+)<', text) == ["1.00", "1.00", "2.00"]


def test_a_row_without_an_entry_has_an_empty_cell() -> None:
    column = Column("ratio to exact", ("to_exact", "seconds", "mean"), str, min)
    assert column.cell({}) == "" and column.cell({"to_exact": {"seconds": {"mean": 0.5}}}) == "0.5"
