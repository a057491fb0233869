"""The verbs, one after the other, as a user calls them; one worker, in this process."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pymetis
import pytest

from tests.unit.cli.conftest import FAST, SMALL

ODD = [3, 5, 7, 42, 99, 1000, 123456, 1_000_000_007]


@pytest.mark.parametrize("verb", ["doctor", "partition", "inspect", "train", "predict", "report"])
def test_help(halowire, verb):
    said = halowire(verb, "--help")
    assert said.code == 0 and f"usage: halowire {verb}" in said.out and "[-h] STR" not in said.out


def test_doctor_shows_versions_and_kernels(halowire):
    said = halowire("doctor", "--workers", "1")
    assert said.code == 0
    for word in ("python", "torch", "kernels", "cores", "interface"):
        assert f"\n{word} " in f"\n{said.out}"


def test_doctor_has_no_gpu_to_prove(halowire):
    said = halowire("doctor", "--gpu")
    assert said.code == 2 and said.err.startswith("halowire: error: --gpu needs a GPU, but torch ")
    assert said.out == ""


def test_doctor_refuses_a_number_of_workers_for_the_gpus(halowire):
    said = halowire("doctor", "--gpu", "--workers", "4")
    assert said.code == 2 and said.err.startswith(
        "halowire: error: --workers is 4, but --gpu starts as many as the GPUs"
    )
    assert "--workers is 'x'; expected a whole number" in halowire("doctor", "--workers", "x").err


def test_inspect_describes_a_graph(halowire):
    said = halowire("inspect", SMALL)
    assert said.code == 0 and "nodes      60" in said.out and "classes    3" in said.out


def test_partition_then_train_then_predict_then_report(halowire):
    assert halowire("partition", SMALL, "--parts", "1", "--out", "shards", "--quiet").code == 0
    assert "60" in halowire("inspect", "shards").out
    assert halowire("train", "shards", *FAST, "--out", "a").code == 0
    assert halowire("train", SMALL, *FAST, "--out", "b", "--tensorboard").code == 0
    for run in ("a", "b"):
        assert halowire("predict", run, "--out", f"{run}.npy").code == 0
    np.testing.assert_array_equal(np.load("a.npy"), np.load("b.npy"))
    assert np.load("a.npy").shape == (60, 3)
    said = halowire("report", "a", "b", "--out", "both.html")
    assert said.code == 0 and said.out == "report in both.html\n" and Path("both.html").stat().st_size > 1000
    assert any(Path("b/tensorboard").iterdir())
    assert halowire("predict", "a", "--out", "a/config.json/x.npy").code == 2


def test_output_to_a_file_is_plain_lines(halowire):
    said = halowire("train", SMALL, *FAST[:-1], "--out", "run")
    assert "sbm exact epoch 2/2" in said.out and "\x1b" not in said.out and "\r" not in said.out
    assert json.loads(Path("run/summary.json").read_text())["status"] == "finished"


def test_metis_is_told_how_to_cut_and_the_manifest_says_so(halowire, monkeypatch):
    asked = []

    def part_graph(parts, adjacency, recursive, **rest):
        asked.append(recursive)
        return original(parts, adjacency, recursive=recursive, **rest)

    original = pymetis.part_graph
    monkeypatch.setattr(pymetis, "part_graph", part_graph)
    for number, how in enumerate(("auto", "recursive", "kway")):
        words = ("--parts", "9", "--out", f"shards-{number}", "--quiet", "--partition.metis", how)
        words += ("--partition.balance", "both")
        assert halowire("partition", SMALL, *words).code == 0
        assert json.loads(Path(f"shards-{number}/manifest.json").read_text())["metis"] == how
    assert asked == [False, True, False], "nine parts are too many for auto to bisect"
    assert halowire("train", SMALL, *FAST, "--partition.metis", "kway", "--out", "run").code == 0
    assert json.loads(Path("run/config.json").read_text())["partition"] == {
        "method": "metis", "metis": "kway", "balance": "auto"
    }  # fmt: skip
    assert json.loads(Path("run/shards/manifest.json").read_text())["metis"] == "kway"
    assert halowire("train", "run/shards", *FAST, "--partition.metis", "kway", "--out", "again").code == 0
    both = ("--partition.method=random", "--partition.metis=kway")
    said = halowire("partition", SMALL, "--parts", "2", "--out", "o", *both)
    assert said.code == 2 and "--partition.metis has no effect without --partition.method metis" in said.err


def test_parts_alike_in_nodes_alone(halowire):
    shares = {}
    for balance in ("both", "nodes"):
        words = ("--parts", "2", "--out", balance, "--quiet", "--partition.balance", balance)
        assert halowire("partition", "debian", *words).code == 0
        manifest = json.loads(Path(f"{balance}/manifest.json").read_text())
        assert manifest["balance"] == balance
        sizes = [np.load(f"{balance}/part-{part}/ids.npy").size for part in range(2)]
        shares[balance] = max(sizes) / sum(sizes)
    assert 0.5 <= shares["nodes"] < 0.505 and shares["both"] > 0.52, shares
    said = halowire("partition", SMALL, "--parts", "2", "--out", "o", "--partition.method=random",
                    "--partition.balance=nodes")  # fmt: skip
    assert said.code == 2 and "--partition.balance has no effect without --partition.method metis" in said.err


def test_settings_that_come_too_late_for_shards_are_refused(halowire):
    halowire("partition", SMALL, "--parts", "1", "--out", "shards", "--quiet")
    late = {
        "--graph.undirected": "belong to `halowire partition`",
        "--task.inductive": "--inductive",
        "--partition.method=random": "was cut by metis",
        "--partition.metis=kway": "was cut with --partition.metis auto",
        "--partition.balance=nodes": "was cut with --partition.balance auto",
        "--workers=2": "holds 1 shards",
    }
    for flag, expected in late.items():
        said = halowire("train", "shards", *FAST, *flag.split("="))
        assert said.code == 2 and expected in said.err and said.err.count("\n") == 1


def test_damaged_runs_are_refused(halowire):
    halowire("train", SMALL, *FAST, "--out", "run")
    shutil.copytree("run", "copy")
    Path("copy/shards/part-0/ids.npy").unlink()
    assert "ids.npy is missing" in halowire("predict", "copy", "--out", "x.npy").err
    shutil.rmtree("copy/checkpoints")
    assert "no checkpoint" in halowire("predict", "copy", "--out", "x.npy").err
    for text in ("{", "[1]", '{"run": {}}', '{"run": {"graph": 1}, "bogus": 2}'):
        Path("copy/config.json").write_text(text)
        said = halowire("predict", "copy", "--out", "x.npy")
        assert said.code == 2 and said.err.count("\n") == 1 and "config.json" in said.err


def test_csv_has_the_ids_of_the_edge_list(halowire):
    rng = np.random.default_rng(0)
    Path("odd.csv").write_text("".join(f"{a},{b}\n" for a, b in rng.choice(ODD, (40, 2))))
    Path("x.csv").write_text("".join(f"{i},{i % 5},{i % 3}\n" for i in reversed(ODD)))
    splits = ["train", "val", "test", "train"] * 2
    Path("y.csv").write_text("".join(f"{i},{i % 2},{s}\n" for i, s in zip(ODD, splits, strict=True)))
    flags = ("--graph.features", "x.csv", "--graph.labels", "y.csv", "--graph.undirected")
    assert halowire("train", "odd.csv", *flags, *FAST, "--out", "run").code == 0
    assert halowire("predict", "run", "--out", "p.csv").code == 0
    rows = list(csv.reader(Path("p.csv").read_text().splitlines()))
    assert rows[0] == ["id", "class"] and [int(row[0]) for row in rows[1:]] == ODD


def test_inductive_and_multi_label(halowire):
    graph = "sbm:nodes=200,edges=1200,features=6,classes=4,seed=0,multi_label=1"
    assert halowire("train", graph, "--task.inductive", *FAST, "--out", "run").code == 0
    for name in ("p.csv", "p.npy"):
        assert halowire("predict", "run", "--out", name).code == 0
    logits, rows = np.load("p.npy"), list(csv.reader(Path("p.csv").read_text().splitlines()))[1:]
    assert [row[1] for row in rows] == [" ".join(map(str, np.flatnonzero(line > 0))) for line in logits]
