"""Link prediction on the command line: one or two workers, the same numbers; what has no meaning is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.unit.cli.conftest import FAST, SMALL

LINK = ("--task", "link", "--task.val-share", "0.1", *FAST, "--epochs", "4", "--eval.every", "2")


def summary(run: str) -> dict[str, object]:
    return json.loads(Path(run, "summary.json").read_text())


@pytest.mark.slow
def test_two_workers_learn_what_one_learns(halowire):
    for workers in (1, 2):
        said = halowire("train", SMALL, *LINK, "--workers", workers, "--out", f"run{workers}")
        assert said.code == 0, said.err
        assert halowire("predict", f"run{workers}", "--out", f"{workers}.npy").code == 0
    one, two = summary("run1"), summary("run2")
    assert one["metric"] == "mrr" and 0 < one["test"] < 1
    assert two["train_loss"] == pytest.approx(one["train_loss"], rel=1e-4)
    for name, value in {"val": one["val"], "test": one["test"]}.items():
        assert two[name] == pytest.approx(value, abs=0.02)
    assert one["other_metrics"].keys() == {f"{s}_hits@{k}" for s in ("val", "test") for k in (1, 10, 50)}
    rows = [np.load(f"{workers}.npy") for workers in (1, 2)]
    assert rows[0].shape == (60, 8), "rows as wide as the hidden ones"
    np.testing.assert_allclose(rows[1], rows[0], atol=1e-3 * np.abs(rows[0]).max())
    assert two["wire_bytes_per_epoch"] > 0 and one["wire_bytes_per_epoch"] == 0
    assert "MRR" in Path("run1/report.html").read_text()


def test_a_resumed_run_and_used_shards_give_the_same(halowire):
    assert halowire("train", SMALL, *LINK, "--out", "whole").code == 0
    assert halowire("train", "whole/shards", *LINK, "--out", "again").code == 0
    assert summary("again")["train_loss"] == summary("whole")["train_loss"]
    short = [word if word != "4" else "2" for word in LINK]
    assert halowire("train", SMALL, *short, "--out", "part").code == 0
    assert halowire("train", SMALL, *LINK, "--out", "part", "--resume").code == 0
    assert summary("part")["train_loss"] == summary("whole")["train_loss"]
    said = halowire("train", "whole/shards", *LINK, "--task.test-share", "0.2", "--out", "other")
    assert said.code == 2 and "--task.test-share 0.1, now it is 0.2" in said.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--task.negatives", "5"), "no effect without --task link"),
        (("--task", "link", "--task.inductive"), "leave --task.inductive"),
        (("--task", "link", "--task.metric", "accuracy"), "no meaning for links"),
        (("--task", "link", "--task.metric", "hits@50", "--task.negatives", "20"), "always 1"),
        (("--task", "link", "--mesh.chunks", "2"), "one stage and one chunk"),
        (("--task", "link", "--recipe", "isolated"), "leaves out"),
        (("--task", "link", "--task.val-share", "0.6", "--task.test-share", "0.5"), "change --task.val-share"),
        (("--task=nodes",), "expected one of"),
    ],
)
def test_what_has_no_meaning_is_refused(halowire, words, says):
    said = halowire("train", SMALL, "--quiet", "--out", "run", *words)
    assert said.code == 2 and says in said.err, said.err


def test_shards_without_held_out_edges_are_refused(halowire):
    assert halowire("partition", SMALL, "--parts", "1", "--out", "shards", "--quiet").code == 0
    said = halowire("train", "shards", *LINK, "--out", "run")
    assert said.code == 2 and "without held-out edges" in said.err
    assert halowire("train", SMALL, *LINK, "--out", "linked").code == 0
    assert halowire("predict", "linked", "--out", "p.csv").code == 2
