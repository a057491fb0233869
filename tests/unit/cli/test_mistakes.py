"""Mistakes on the command line: exit code 2 and one clear line, never a traceback."""

from __future__ import annotations

import importlib
import resource
from pathlib import Path

import pytest

from tests.unit.cli.conftest import FAST, SMALL

MISTAKES = {
    "misspelt verb": (["trian"], "perhaps you meant 'train'"),
    "unknown verb": (["xyz"], "use one of doctor, partition"),
    "no graph": (["train"], "missing: GRAPH"),
    "misspelt flag": (["train", SMALL, "--epoch", "3"], "unknown: --epoch 3; perhaps you meant --epochs"),
    "misspelt nested flag": (["train", SMALL, "--model.nam", "gcn"], "perhaps you meant --model.name"),
    "word too many": (["train", SMALL, "more"], "unknown: more"),
    "no value": (["train", SMALL, "--epochs"], "missing: the value of --epochs"),
    "no number": (["train", SMALL, "--epochs", "x"], "--epochs is 'x'; expected a whole number"),
    "no whole number": (["train", SMALL, "--workers", "1.5"], "--workers is '1.5'; expected a whole number"),
    "no choice": (["train", SMALL, "--model.name", "gin"], "--model.name is 'gin'; expected one of gat, gcn"),
    "unknown recipe": (["train", SMALL, "--recipe", "nope"], "recipe 'nope' is unknown"),
    "no worker": (["train", SMALL, "--workers", "0"], "at least one worker"),
    "more workers than nodes": (["train", SMALL, "--workers", "61"], "the graph has 60 nodes"),
    "no epoch": (["train", SMALL, "--epochs", "0"], "--epochs is 0; it must be at least 1"),
    "negative restarts": (["train", SMALL, "--max-restarts", "-1"], "--max-restarts is -1"),
    "no GPU": (["train", SMALL, "--device", "cuda", "--out", "run"], "--device cuda needs a GPU"),
    "resume without folder": (["train", SMALL, "--resume"], "--resume needs --out"),
    "resume of nothing": (["train", SMALL, "--resume", "--out", "none"], "holds no run"),
    "resume and overwrite": (["train", SMALL, "--resume", "--overwrite", "--out", "none"], "give one of them"),
    "unknown graph": (["train", "nothing"], "neither a file nor a known graph"),
    "folder without graph": (["train", "."], "no edge.csv.gz"),
    "out below a file": (["train", SMALL, "--out", "file/run"], "not a directory"),
    "out is a file": (["train", SMALL, "--out", "file"], "is a file; give a folder"),
    "parts missing": (["partition", SMALL], "missing: --parts, --out"),
    "no part": (["partition", SMALL, "--parts", "0", "--out", "p"], "give 1 or more"),
    "out in use": (["partition", SMALL, "--parts", "2", "--out", "."], "not a folder of shards"),
    "no run": (["predict", "none", "--out", "x.npy"], "none is not a run folder"),
    "no format": (["predict", "none", "--out", "x.txt"], "ends in .npy"),
    "report of nothing": (["report"], "no run folder was given"),
    "report of no run": (["report", "none"], "not a run folder"),
    "doctor without workers": (["doctor", "--workers", "0"], "at least one worker"),
    "no such edge list": (["inspect", "none.csv"], "neither a file nor a known graph"),
    "cut off": (["inspect", "cut.npz"], "cut off or damaged"),
    "labels without file": (["train", "edges.csv", "--graph.labels", "none"], "there is no file none"),
    "graph without features": (["train", "edges.csv"], "has no features (x), labels (y), train_mask"),
}


@pytest.mark.parametrize(("words", "expected"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_one_line_and_exit_code_2(halowire, words, expected):
    Path("file").write_text("")
    Path("cut.npz").write_bytes(b"PK\x03\x04")
    Path("edges.csv").write_text("1,2\n2,3\n")
    said = halowire(*words)
    assert said.code == 2
    assert said.err.startswith("halowire: error: ") and said.err.count("\n") == 1
    assert expected in said.err
    assert not Path("run").exists() and not Path("runs").exists(), "a refused run leaves nothing behind"


def test_no_verb_shows_the_usage(halowire):
    said = halowire()
    assert said.code == 2 and "usage: halowire VERB" in said.err


@pytest.mark.parametrize("error", ["No space left on device", "Permission denied"])
def test_errors_of_the_system_while_training_are_one_line_and_a_failure(halowire, monkeypatch, error):
    def fail(*_, **__):
        raise OSError(28 if "space" in error else 13, error, "some/file")

    monkeypatch.setattr(importlib.import_module("halowire.training.checkpoint_writer"), "_write", fail)
    said = halowire("train", SMALL, *FAST, "--out", "run")
    assert said.code == 1 and said.err == f"halowire: error: some/file: {error[0].lower()}{error[1:]}\n"


@pytest.fixture
def little_memory():
    """No more than 2 GB of memory beside what this process has already."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 2 * 10**9, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def test_a_model_too_large_is_one_line(halowire, little_memory):
    said = halowire("train", SMALL, "--epochs", "2", "--model.hidden", "999999999", "--out", "run", "--quiet")
    assert said.code == 1 and "out of memory" in said.err and said.err.count("\n") == 1


def test_a_bug_is_one_line_and_its_traceback_a_file_in_the_run_folder(halowire, monkeypatch):
    monkeypatch.setattr("halowire.worker.write_results", lambda *_, **__: {}["missing"])
    said = halowire("train", SMALL, *FAST, "--out", "run")
    assert said.code == 1 and said.err.count("\n") == 1
    assert "worker 0 met a bug of halowire, KeyError: 'missing' (test_mistakes.py, line " in said.err
    assert said.err.endswith("please report it with the traceback in run/error-0.txt\n")
    assert "KeyError: 'missing'" in Path("run/error-0.txt").read_text()


def test_a_bug_under_a_launcher_names_its_worker(halowire, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr("halowire.cli.inspect.load_source", lambda *_, **__: {}["missing"])
    assert "worker 1 met a bug of halowire, KeyError: 'missing'" in halowire("inspect", SMALL).err


def test_a_bug_outside_a_run_has_its_traceback_in_a_temporary_file(halowire, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("halowire.cli.train.api.train", lambda *_, **__: {}["missing"])
    said = halowire("train", SMALL)
    assert said.code == 1 and said.err.count("\n") == 1 and "met a bug of halowire" in said.err
    [file] = tmp_path.glob("halowire-error-*.txt")
    assert str(file) in said.err and "Traceback" in file.read_text()


def test_tracebacks_are_shown_to_who_asks_for_them(halowire, monkeypatch):
    monkeypatch.setenv("HALOWIRE_TRACEBACK", "1")
    said = halowire("train", SMALL, "--epochs", "0")
    assert said.code == 2 and "Traceback" in said.err and said.err.endswith("it must be at least 1\n")


def test_too_few_gpus_are_refused_with_the_alternative(halowire, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    said = halowire("train", SMALL, "--device", "cuda", "--workers", "2", "--out", "run")
    assert said.code == 2 and said.err.endswith("start at most 1 workers on this machine, or use --device cpu\n")


def test_interruption_while_reading_is_130(halowire, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    # `halowire.train` is a function as well, so the module must be asked for by its whole name.
    monkeypatch.setattr(importlib.import_module("halowire.training.source"), "load", interrupt)
    said = halowire("train", SMALL, "--out", "run")
    assert said.code == 130 and said.err == "halowire: interrupted\n"
