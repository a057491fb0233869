"""The report's rows per layer: the halo's, those with partial sums, those that travelled, summed over the workers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.fake_run import rewrite, write_recut_run, write_run
from tests.support.pages import runs_page

HALO = 2_961 + 3_173
COVER = {"used": True, "why": "as --wire.cover on asks", "rows": HALO, "covered": 4_000, "sums": 100}
HOME = {"at_home": True, "why": "which is predicted to pay", "saved": 2_048_000, "products": 10_000, "memory": 4096,
        "sent_once": 1_024_000, "saved_seconds": 0.2, "spent_seconds": 0.01}  # fmt: skip


def page_of(tmp_path: Path, first: dict[str, Any], recut: bool = False, machines: bool = True) -> str:
    """The report of a run of two layers, the first of them at home, the second with partial sums.

    ``recut``: it began with two workers more, whose events are still there.
    """
    run = (write_recut_run if recut else write_run)(tmp_path / f"run-{len(first)}")

    def change(event: dict[str, Any]) -> dict[str, Any]:
        rows = {"1": 0, "2": 1_900 + 200 * event.get("rank", 0)}
        shares = {"machine_rows": 1_000, "carried_rows": 700} if machines else {}
        return event | ({"wire_rows": rows} | shares if event["event"] == "start" else {})

    for rank in range(4 if recut else 2):
        rewrite(run / f"events-{rank}.jsonl", change)
    path = run / "summary.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"savings": {"cover": COVER, "first_layer": first}}))
    return runs_page([run], tmp_path / "report.html")


def rows_of(page: str, caption: str) -> dict[str, list[str]]:
    """The lines of the table ``caption``, by their head."""
    found = next(one for one in re.findall(r"<table.*?</table>", page, re.S) if caption in one)
    lines = re.findall(r'<th scope="row">([^<]*)</th>(.*?)</tr>', found, re.S)
    return {head: re.findall(r"<td[^>]*>([^<]*)</td>", rest) for head, rest in lines}


@pytest.mark.parametrize("recut", [False, True])
def test_rows_per_layer_are_those_of_all_workers_that_the_run_has(tmp_path: Path, recut: bool) -> None:
    page = page_of(tmp_path, HOME, recut)
    assert "Of the 2,000 rows that workers needed of other machines in a layer, 1,400 crossed" in page
    assert "85.0% of a worker" in page, "of the rows that have nothing to do with other workers"
    assert "worker 1" in page and "worker 2" not in page and "Missing:" not in page
    assert rows_of(page, "Rows per layer") == {
        "layer 1": [f"{HALO:,}", "4,000", "0", "0", "0"],
        "layer 2": [f"{HALO:,}", "4,000", "4,000", "2,000", "1,400"],
    }
    assert "of other machines" in page and "across the network" in page
    assert "Partial sums travelled in the place of halo rows, as --wire.cover on asks." in page


def test_rows_of_other_machines_have_no_columns_where_there_is_one_machine(tmp_path: Path) -> None:
    page = page_of(tmp_path, HOME, machines=False)
    assert rows_of(page, "Rows per layer")["layer 2"] == [f"{HALO:,}", "4,000", "4,000"]
    assert "across the network" not in page


def test_bytes_within_machines_have_a_line_where_there_are_any(tmp_path: Path) -> None:
    caption = "Prices of the first layer at home"
    assert "bytes saved within machines" not in rows_of(page_of(tmp_path, HOME), caption)
    found = rows_of(page_of(tmp_path, HOME | {"saved_within": 512_000}), caption)
    assert found["bytes saved within machines"][0] == "500 KiB" and len(found) == 5
