"""Who owns what: what the cut costs, and a row for every worker, also where only its events tell."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.pages import runs_page, section, words_of


def owned(run: Path) -> str:
    return words_of(section(runs_page([run], run / "report.html"), "Who owns what"), instead="|")


def test_the_cut_and_the_workers(run: Path) -> None:
    said = owned(run)
    assert "5.7% of the edges cross" in said and "it receives 9.64 rows of others in every exchange" in said
    assert "cut edges||31,877 (5.7%)" in said and "nodes, largest part / mean||1.03" in said
    assert "worker 1||31,825||284,118||3,173||15,890||401 MiB" in said


def test_without_a_partition_the_events_tell(run: Path) -> None:
    summary = json.loads((run / "summary.json").read_text())
    del summary["partition"]
    (run / "summary.json").write_text(json.dumps(summary))
    said = owned(run)
    assert "||owned nodes||halo rows||peak memory|" in said and "worker 0||31,810||2,961||393 MiB" in said
    assert "of the edges cross" not in said and "training nodes" not in said
