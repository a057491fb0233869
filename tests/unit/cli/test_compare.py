"""`halowire compare` as a user calls it: one worker, in this process, on a tiny graph."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from halowire import api, comparing
from halowire.errors import TrainingError
from halowire.launch import Place
from tests.unit.cli.conftest import FAST, SMALL

TWO = ("--recipes", "exact,isolated", "--seeds", "2", "--out", "both")


def stamps() -> dict[str, int]:
    """When every summary was written."""
    return {str(path): path.stat().st_mtime_ns for path in Path("both").glob("*/summary.json")}


def record() -> dict:
    return json.loads(Path("both/compare.json").read_text())


def test_two_recipes_and_two_seeds_then_the_same_again(halowire):
    said = halowire("compare", SMALL, *TWO, *FAST)
    assert said.code == 0 and said.err == ""
    assert said.out.splitlines()[1].split()[0] == "recipe" and "seed" not in said.out, "quiet: the table alone"
    found = record()
    assert found["finished"] and len(found["runs"]) == 4 and found["settings"] == {
        "epochs": 2, "model.hidden": 8, "threads": 1,
    }  # fmt: skip
    tests = [json.loads(Path(f"both/exact-seed{seed}/summary.json").read_text())["test"] for seed in (0, 1)]
    assert found["aggregated"]["exact"]["test"]["mean"] == pytest.approx(sum(tests) / 2)
    assert found["aggregated"]["isolated"]["to_exact"]["test"]["runs"] == 2
    assert Path("both/compare.html").stat().st_size > 10_000
    jobs = [json.loads(Path(f"both/{recipe}-seed1/config.json").read_text())["run"] for recipe in found["recipes"]]
    assert {Path(job["shards"]) for job in jobs} == {Path("both/shards-seed1").absolute()}
    before = stamps()
    said = halowire("compare", SMALL, *TWO, *FAST[:-1])
    assert said.code == 0 and said.out.count("finished before") == 4 and stamps() == before
    assert "[4/4] isolated seed 1: test" in said.out and "page in both/compare.html" in said.out
    assert "\x1b" not in said.out and "\r" not in said.out


def test_only_what_is_missing_is_run(halowire):
    halowire("compare", SMALL, *TWO, *FAST)
    shutil.rmtree("both/exact-seed1")
    Path("both/isolated-seed0/summary.json").unlink()
    before = stamps()
    said = halowire("compare", SMALL, "--recipes", "isolated,exact,half", *TWO[2:], *FAST[:-1])
    assert said.code == 0 and said.out.count("finished before") == 2 and said.out.count("took") == 4
    assert before.items() <= stamps().items() and len(stamps()) == 6
    assert record()["recipes"] == ["isolated", "exact", "half"]


def test_other_settings_graphs_and_shards_are_refused(halowire):
    halowire("compare", SMALL, *TWO, *FAST)
    before = record()
    changes = {
        ("--epochs", "3"): "had --epochs 2, now it is 3",
        ("--rate.bits", "8"): "had --rate.bits 32, now it is 8",
        ("--graph.undirected",): "now it is",
    }
    for change, expected in changes.items():
        said = halowire("compare", SMALL, *TWO, *FAST, *change)
        assert said.code == 2 and expected in said.err and said.err.count("\n") == 1
    said = halowire("compare", SMALL.replace("seed=0", "seed=1"), *TWO, *FAST)
    assert said.code == 2 and "choose another --out" in said.err
    for run in ("exact-seed0", "isolated-seed0"):
        shutil.rmtree(f"both/{run}")
    said = halowire(
        "compare", SMALL, "--recipes", "exact", "--seeds", "1", "--out", "both", *FAST, "--partition.method=random"
    )
    assert said.code == 2 and "was cut with method metis, now it is random" in said.err
    assert record() == before


def test_an_override_of_what_a_recipe_sets_applies_and_is_said(halowire):
    words = ("--recipes", "exact,sylvie-s", "--seeds", "1", "--out", "both", "--rate.bits=32")
    said = halowire("compare", SMALL, *words, *FAST)
    assert said.code == 0
    assert said.err == "warning: --rate.bits 32 applies to every recipe, also to what sets it itself: sylvie-s (1)\n"
    assert json.loads(Path("both/sylvie-s-seed0/config.json").read_text())["rate"]["bits"] == 32
    assert "applies to every recipe" in Path("both/compare.html").read_text()


def test_an_override_without_effect_on_a_recipe_is_left_out_and_said(halowire):
    words = ("--recipes", "exact,sylvie-s,isolated", "--seeds", "1", "--out", "both", "--rate.code", "levels")
    said = halowire("compare", SMALL, *words, "--rate.weights", "16", *FAST)
    assert said.code == 0
    never = "with --freshness.mode never, which sends no rows"
    assert said.err.splitlines() == [
        "warning: exact runs without --rate.code (it has no effect without a rate of 1, 2 or 4 bits)",
        f"warning: isolated runs without --rate.code (it has no effect {never})",
    ]
    rates = {r: json.loads(Path(f"both/{r}-seed0/config.json").read_text())["rate"] for r in record()["recipes"]}
    assert {recipe: rate["code"] for recipe, rate in rates.items()} == {
        "exact": "minmax", "sylvie-s": "levels", "isolated": "minmax",
    }  # fmt: skip
    assert {rate["weights"] for rate in rates.values()} == {16}
    assert len(record()["notes"]) == 2 and "exact runs without --rate.code" in Path("both/compare.html").read_text()
    assert halowire("compare", SMALL, *words, "--rate.weights", "16", *FAST).code == 0, "the same command goes on"


def test_several_overrides_without_effect_are_one_line_for_each_recipe(halowire):
    words = ("--recipes", "exact,sylvie-a,varco", "--seeds", "1", "--out", "both", "--freshness.sync-every", "2")
    said = halowire("compare", SMALL, *words, "--rate.ratio", "2", *FAST)
    late = "--freshness.sync-every (it has no effect without --freshness.mode delayed)"
    assert said.code == 0 and said.err.splitlines() == [
        f"warning: exact runs without {late}",
        f"warning: varco runs without {late}; --rate.ratio (it has no effect without --rate.schedule constant)",
    ]


def test_seeds_count_from_the_first(halowire):
    said = halowire("compare", SMALL, "--recipes", "exact", "--seeds", "2", "--seed", "5", "--out", "both", *FAST)
    assert said.code == 0 and record()["seeds"] == [5, 6]
    assert json.loads(Path("both/exact-seed6/config.json").read_text())["seed"] == 6


def test_settings_of_the_graph_are_for_the_cut(halowire):
    words = ("--recipes", "exact,half", "--seeds", "1", "--out", "both", "--graph.undirected", "--task.inductive")
    assert halowire("compare", SMALL, *words, *FAST).code == 0
    assert record()["settings"]["graph.undirected"] is True
    assert halowire("compare", SMALL, *words, *FAST).code == 0


MISTAKES = {
    "unknown recipe": (["--recipes", "exact,nope", "--out", "o"], "recipe 'nope' is unknown"),
    "duplicate recipe": (["--recipes", "exact,half,exact", "--out", "o"], "--recipes names exact 2 times"),
    "no recipe": (["--recipes", ",", "--out", "o"], "--recipes names no recipe"),
    "no seed": (["--recipes", "exact", "--out", "o", "--seeds", "0"], "--seeds is 0"),
    "no worker": (["--recipes", "exact", "--out", "o", "--workers", "0"], "at least one worker"),
    "one recipe": (["--recipes", "exact", "--out", "o", "--recipe", "half"], "a comparison takes --recipes"),
    "nothing": ([], "missing: --recipes, --out"),
    "no epoch": (["--recipes", "exact", "--out", "o", "--epochs", "0"], "--epochs is 0"),
    "idle recipe": (
        ["--recipes", "halowire-classic", "--out", "o", "--rate.bits", "8"],
        "--rate.backward-code has no effect",
    ),
    "out is a file": (["--recipes", "exact", "--out", "file"], "is a file; give a folder"),
    "misspelt flag": (["--recipes", "exact", "--out", "o", "--epoch", "1"], "perhaps you meant --epochs"),
}


@pytest.mark.parametrize(("words", "expected"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_one_line_and_exit_code_2(halowire, words, expected):
    Path("file").write_text("")
    said = halowire("compare", SMALL, *words)
    assert said.code == 2 and expected in said.err and said.err.count("\n") == 1
    assert not Path("o").exists(), "a refused comparison leaves nothing behind"


def test_shards_are_refused(halowire):
    halowire("partition", SMALL, "--parts", "1", "--out", "shards", "--quiet")
    said = halowire("compare", "shards", *TWO, *FAST)
    assert said.code == 2 and "give the graph" in said.err


def test_torchrun_is_refused(halowire, monkeypatch):
    monkeypatch.setattr("halowire.comparing.launched", lambda: True)
    said = halowire("compare", SMALL, *TWO, *FAST)
    assert said.code == 2 and "starts its workers itself" in said.err and Place.here().size == 1


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (KeyboardInterrupt(), 130, "halowire: 2 of 4"),
        (TrainingError("the loss became nan"), 1, "exact seed 1: the loss"),
    ],
)
def test_what_is_finished_is_kept(halowire, monkeypatch, error, code, words):
    train, calls = comparing.train_run, []

    def fail_third(*arguments):
        calls.append(arguments)
        if len(calls) == 3:
            raise error
        return train(*arguments)

    monkeypatch.setattr(comparing, "train_run", fail_third)
    said = halowire("compare", SMALL, *TWO, *FAST)
    assert said.code == code and words in said.err and "the same command goes on" in said.err
    assert len(record()["runs"]) == 2 and "2 runs of the comparison" in Path("both/compare.html").read_text()
    assert halowire("compare", SMALL, *TWO, *FAST).code == 0
    assert len(calls) == 5 and record()["finished"]


def test_from_python(tmp_path):
    out = tmp_path / "both"
    settings = {"epochs": 2, "model.hidden": 8, "threads": 1}
    found = api.compare(api.load(SMALL), ["exact"], seeds=1, out=out, settings=settings, quiet=True)
    assert found == json.loads((out / "compare.json").read_text()) and found["finished"]


def test_help(halowire):
    said = halowire("compare", "--help")
    assert said.code == 0 and "--recipes NAME,NAME,..." in said.out and "--model.hidden" in said.out
