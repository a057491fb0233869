"""The README: short, its PyG script runs before and after the change and learns the same, its figures are measured."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.started import free_port

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BENCHMARKS = (ROOT / "docs" / "benchmarks.md").read_text()
FAKE = '''"""A stand-in for PyG's data sets, which are not on every machine: the same names, a random graph."""

import torch
from torch_geometric.data import Data


class Planetoid:
    num_features, num_classes = 16, 4

    def __init__(self, root, name):
        draw = torch.Generator().manual_seed(0)
        self.data = Data(
            x=torch.randn(120, 16, generator=draw), edge_index=torch.randint(120, (2, 700), generator=draw),
            y=torch.randint(4, (120,), generator=draw), train_mask=torch.rand(120, generator=draw) < 0.5,
        )
        torch.manual_seed(0)

    def __getitem__(self, index):
        return self.data
'''


def script(side: str) -> str:
    """The program of the README's diff, before (``-``) or after (``+``) the change; it prints its last loss."""
    lines = re.search(r"```diff\n(.*?)```", README, re.DOTALL).group(1).splitlines()
    text = "\n".join(line[1:] for line in lines if line[:1] in ("", " ", side))
    text = text.replace("torch_geometric.datasets", "stand_in").replace("range(200)", "range(20)")
    return text + "\nimport sys\nsys.stdout.write(f'{float(loss)}\\n')\n"  # one write: lines of two workers never mix


def last_losses(side: str, folder: Path, *launcher: str) -> list[float]:
    """The losses that the program's workers print."""
    (folder / "stand_in.py").write_text(FAKE)
    (folder / "script.py").write_text(script(side))
    done = subprocess.run(
        [sys.executable, *launcher, "script.py"], cwd=folder, env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [float(line) for line in done.stdout.split()]


@pytest.mark.timeout(300)
def test_the_changed_script_learns_what_the_plain_one_learns(tmp_path):
    (plain,) = last_losses("-", tmp_path)
    changed = last_losses(
        "+", tmp_path, "-m", "torch.distributed.run", "--master-port", str(free_port()), "--nproc-per-node", "2"
    )
    assert len(changed) == 2 and changed == pytest.approx([plain, plain], rel=1e-4)


def test_three_lines_change_and_an_import():
    diff = re.search(r"```diff\n(.*?)```", README, re.DOTALL).group(1)
    assert len(re.findall(r"^\+(?!import)", diff, re.MULTILINE)) == 3


def test_it_is_short_and_has_what_a_stranger_needs():
    assert len(README.splitlines()) <= 130
    assert "make demo" in README and "make test" in README and "## Limits" in README
    assert not re.search(r"@[A-Z]+@", README)


def test_its_figures_are_those_of_the_benchmarks():
    """Of its tables and plot; every figure there has its command beside it."""
    gains = README[README.index("## What it gains") : README.index("## Dive into the code")]
    figures = set(re.findall(r"\d[\d,]*\.\d+(?: ± \d\.\d+)?", gains))
    assert len(figures) > 25
    for figure in figures - {"1.8", "5.8"}:  # a range, rounded
        assert figure in BENCHMARKS, figure
