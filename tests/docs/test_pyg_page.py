"""The page for PyG users: its diff is three lines and an import, and both sides of it give the same model."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.fit_case import run_script

PAGE = Path(__file__).parents[2] / "docs" / "coming-from-pyg.md"
OFFLINE = """
from torch_geometric.datasets import FakeDataset
from torch_geometric.transforms import RandomNodeSplit
torch.manual_seed(3); import random; random.seed(3)
split = RandomNodeSplit(num_val=0.2, num_test=0.3)
dataset = FakeDataset(num_graphs=1, avg_num_nodes=300, num_classes=4, task="node", transform=split)
"""
RESULT = """
right = model(data.x, data.edge_index).argmax(1) == data.y
mean = getattr(data, "mean", torch.mean)
# One write, so that the lines of two workers never mix.
import sys
sys.stdout.write(f"{float(loss)} {float(mean(right[data.test_mask].float()))}\\n")
"""


def sides() -> tuple[str, str, int]:
    block = re.search(r"```diff\n(.*?)```", PAGE.read_text(), re.DOTALL).group(1).splitlines()
    before = "\n".join(line[1:] for line in block if not line.startswith("+"))
    after = "\n".join(line[1:] for line in block if not line.startswith("-"))
    return before, after, sum(line.startswith("+") for line in block)


@pytest.mark.slow
def test_the_example_of_pygs_readme(tmp_path):
    before, after, added = sides()
    assert added == 4, "import, shard, distribute, loss"
    scripts = []
    for name, code in (("before", before), ("after", after)):
        offline = code.replace('dataset = Planetoid(root=".", name="Cora")', OFFLINE.strip()).replace("(200)", "(40)")
        assert "Planetoid(" not in offline
        scripts.append(tmp_path / f"{name}.py")
        scripts[-1].write_text(offline + RESULT)
    want = [float(word) for word in run_script(scripts[0]).split()]
    lines = run_script("-m", "torch.distributed.run", "--nproc-per-node", "2", scripts[1]).splitlines()
    assert len(lines) == 2
    for line in lines:
        loss, accuracy = (float(word) for word in line.split())
        assert abs(loss - want[0]) < 1e-3 * want[0]
        assert abs(accuracy - want[1]) < 0.02
    assert want[1] > 0.35, "four classes: the example learns something"
