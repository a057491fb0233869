"""``--device`` and ``--transport``: what this machine lacks is refused before anything is written, by every command."""

from __future__ import annotations

import json

import pytest
import torch

from halowire.cli.main import main

GRAPH = "sbm:nodes=120,edges=500,features=8,classes=3,seed=0"
SHORT = ["--epochs", "1", "--model.hidden", "8", "--threads", "1", "--quiet"]


@pytest.fixture(autouse=True)
def _no_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--device", "cuda"], "--device cuda needs a GPU for every worker here (1), but torch sees 0"),
        (["--transport", "nccl"], "--transport nccl carries rows between GPUs, but the rows are on the CPU"),
    ],
)
@pytest.mark.parametrize("verb", [["train", GRAPH], ["compare", GRAPH, "--recipes", "exact,half"]])
def test_what_is_lacking_is_refused_and_nothing_is_left(tmp_path, capsys, verb, flags, words):
    assert main([*verb, *SHORT, *flags, "--out", str(tmp_path / "run")]) == 2
    assert words in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_run_of_gpus_predicts_on_the_cpu(tmp_path, capsys):
    run, target = tmp_path / "run", tmp_path / "classes.csv"
    assert main(["train", GRAPH, *SHORT, "--out", str(run)]) == 0
    record = json.loads((run / "config.json").read_text()) | {"device": "cuda", "transport": "nccl"}
    (run / "config.json").write_text(json.dumps(record))
    assert main(["predict", str(run), "--out", str(target)]) == 2
    assert "use --device cpu" in capsys.readouterr().err and not target.exists()
    assert main(["predict", str(run), "--out", str(target), "--device", "cpu"]) == 0
    assert len(target.read_text().splitlines()) == 121
