"""The settings in groups, and the command or call that repeats a run."""

from __future__ import annotations

import json
from pathlib import Path

from halowire.report import read_run
from halowire.report.facts import shown_runs
from halowire.report.sections.run_settings import by_group, command
from tests.support.pages import runs_page, words_of


def test_the_command_spells_every_setting_out(run: Path) -> None:
    shown = shown_runs([read_run(run)])[0]
    line = command(shown).replace(" \\\n ", "")
    assert line.startswith("halowire train debian --recipe exact --workers 2 ")
    for flag in ("--epochs 60", "--early-stop 0", "--model.hidden 128", "--optim.weight-decay 0.0", "--eval.every 10"):
        assert f" {flag}" in line
    assert all(len(part) < 110 for part in command(shown).splitlines())
    assert "--run." not in line and "inductive" not in line


def test_settings_come_in_groups(run: Path) -> None:
    found = dict(by_group(read_run(run).config))
    assert (
        ("hidden", "128") in found["model"] and ("seed", "0") in found["run"] and ("inductive", "no") in found["task"]
    )


def test_a_run_of_fit_is_repeated_by_a_call(run: Path, tmp_path: Path) -> None:
    config = json.loads((run / "config.json").read_text())
    config["run"] |= {"own_model": True}
    (run / "config.json").write_text(json.dumps(config))
    text = words_of(runs_page([run], tmp_path / "page.html")).replace("&#x27;", "'").replace("&#39;", "'")
    assert "halowire.fit(model, data, workers=2, recipe='exact', settings={" in text
    assert "'optim.lr': 0.01," in text and "'optim.weight_decay': 0.0," in text, "zeros need not be the default"
    assert "'model.hidden'" not in text and "halowire train" not in text
