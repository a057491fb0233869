"""Real workers, a process each, train the same cases: an epoch's bytes must be those that were counted, to the last."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.bytes.ways import ALL, CHOSEN, PLAIN, Way

CHECKED = (PLAIN, "first layer", "sums", ALL, CHOSEN)
"""The ways that real workers go."""


def train(shards: Path, way: Way, layers: int, workers: int) -> dict[str, Any]:
    """Train two epochs with ``workers`` local workers: bytes of an epoch and of set-up, memory, seconds."""
    # Local workers are taken to have a faster link than the counted ones: the choice is to be the same here.
    settings = {"model.layers": layers, "epochs": 2, "threads": 1, "wire.link": 1000.0} | way.settings
    if "wire.plain" in settings or way.settings.get("wire.first_layer", "auto") != "auto":
        del settings["wire.link"]
    flags = [word for name, value in settings.items() for word in _flag(name, value)]
    with tempfile.TemporaryDirectory(prefix="halowire-") as folder:
        words = [sys.executable, "-m", "halowire", "train", str(shards), "--workers", str(workers), "--quiet"]
        words += ["--out", f"{folder}/run", *flags]
        subprocess.run(words, check=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
        summary = json.loads(Path(folder, "run", "summary.json").read_text())
    names = ("wire_bytes_per_epoch", "setup_wire_bytes", "peak_memory_bytes", "epoch_seconds")
    return {name: summary[name] for name in names}


def _flag(name: str, value: object) -> list[str]:
    flag = "--" + name.replace("_", "-")
    return [flag] if value is True else [flag, str(value)]
