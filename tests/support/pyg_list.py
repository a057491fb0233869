"""The tables of docs/coming-from-pyg.md: PyG's layers, examples and users' habits on many workers.

``python -m tests.support.pyg_list`` writes them; a test keeps them up to date. ``python -m tests.support.pyg_list
tests`` prints the tests of all rows, for pytest.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.layer_tables import TABLES, layer_lines
from tests.support.list_case import ELSEWHERE
from tests.support.pyg_examples import EXAMPLES, HABITS, REFUSED, Row

PAGE = Path(__file__).parents[2] / "docs" / "coming-from-pyg.md"
BEGIN, END = "<!-- the list: python -m tests.support.pyg_list -->", "<!-- end of the list -->"


def tables() -> str:
    """The tables, in Markdown."""
    lines = ["", "| example of PyG | what changes |", "| --- | --- |", *map(_line, EXAMPLES)]
    lines += ["", "| example of PyG | refused, or not tried |", "| --- | --- |", *map(_line, REFUSED)]
    lines += ["", "| habit | what changes |", "| --- | --- |", *map(_line, HABITS)]
    lines += ["", *layer_lines()]
    return "\n".join([*lines, "", ""])


def listed_tests() -> list[str]:
    """The tests of all examples and habits, and of the layers that have tests of their own, as pytest names them."""
    of_layers = {case.words for table in TABLES.values() for case in table.values() if case.outcome == ELSEWHERE}
    return sorted(of_layers | {row.test for row in (*EXAMPLES, *REFUSED, *HABITS) if row.test})


def _line(row: Row) -> str:
    return f"| {row.name} | {row.change} |"


def updated(page: str) -> str:
    """``page`` with the tables between their marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{tables()}{END}{after}"


if __name__ == "__main__":
    if sys.argv[1:] == ["tests"]:
        print("\n".join(listed_tests()))
    else:
        PAGE.write_text(updated(PAGE.read_text()))
