"""What tests of ``halowire.fit`` share: a small graph, the scripts that call it, and how a script is run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from torch_geometric.data import Data

import halowire

SCRIPTS = Path(__file__).parent / "scripts"


def run_script(*command: object, seconds: float = 150) -> str:
    """What ``python command ...`` prints; it must end well, in so many ``seconds``."""
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def make_data() -> Data:
    """A PyG graph of 120 nodes with 5 features, 3 classes and the three masks."""
    graph = halowire.block_model(120, 700, 5, 3, seed=2)
    names = ("y", "train_mask", "val_mask", "test_mask")
    return Data(x=graph.x, edge_index=graph.edge_index(), **{name: getattr(graph, name) for name in names})
