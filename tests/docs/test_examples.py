"""Every example that is a program runs, and does what it says; so does the one of getting started."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from halowire.wire import HEADER_BYTES
from tests.support.commands import ROOT

pytestmark = pytest.mark.timeout(600)  # programs that start programs: a busy machine takes its time
EXAMPLES = ROOT / "examples"


def run(name: str, folder: Path, place: Path = EXAMPLES) -> str:
    done = subprocess.run(
        [sys.executable, str(place / name)], cwd=folder, env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, timeout=560, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def lines_of(name: str) -> list[str]:
    return [line for line in (EXAMPLES / name).read_text().splitlines() if line.strip()]


def test_the_example_of_getting_started(tmp_path):
    page = (ROOT / "docs" / "getting-started.md").read_text()
    (tmp_path / "example.py").write_text(re.search(r"```python\n(.*?)```", page, re.DOTALL).group(1))
    run("example.py", tmp_path, tmp_path)
    assert (tmp_path / "runs" / "graph-exact-1" / "logits.npy").exists()


@pytest.mark.slow
def test_a_model_of_ones_own_in_30_lines(tmp_path):
    assert len(lines_of("own_model.py")) <= 30
    out = run("own_model.py", tmp_path)
    assert float(out.split()[-1]) > 0.6, out
    assert (tmp_path / re.search(r"report in (\S+),", out).group(1)).exists()


@pytest.mark.slow
def test_a_codec_of_ones_own_sends_what_its_formula_says(tmp_path):
    out = run("own_codec.py", tmp_path)
    sent, exact, accuracy = re.search(r"(\d+) bytes per epoch \((\d+) in float32\), test accuracy (\S+)", out).groups()
    # Rows of 64 columns travel between two workers, forward and backward: 256 bytes each in float32.
    rows, headers = int(exact) // 256, 2 * 2 * HEADER_BYTES
    assert int(sent) == rows * (4 + 16) + headers > headers
    assert float(accuracy) > 0.5, "five classes: it learns"


@pytest.mark.slow
def test_link_prediction_ranks_held_out_edges_first(tmp_path):
    out = run("link_prediction.py", tmp_path)
    assert float(out.split()[-1]) > 0.15, f"among 100 negatives chance gives 0.05: {out}"


@pytest.mark.slow
def test_a_heterogeneous_graph_learns_from_its_neighbours(tmp_path):
    out = run("hetero.py", tmp_path)
    assert float(out.split()[-1]) > 0.5, f"four classes, and the papers' own words hardly tell: {out}"


@pytest.mark.slow
def test_the_walk_through_runs_from_top_to_bottom(tmp_path):
    out = run("walk_through.py", tmp_path)
    assert "5 classes" in out and "halo rows" in out and "sylvie-s" in out
    assert list(tmp_path.glob("runs/*/logits.npy"))


def test_the_walk_through_is_a_notebook():
    text = (EXAMPLES / "walk_through.py").read_text()
    cells = re.split(r"^# %%", text, flags=re.MULTILINE)
    assert cells[0] == "", "it opens with a cell"
    for cell in cells[1:]:
        kind, _, body = cell.partition("\n")
        if kind.strip() == "[markdown]":
            assert all(line.startswith("#") for line in body.splitlines() if line), body
        else:
            assert kind == "" and body.strip()
            compile(body, "cell", "exec")
