"""The cases: which graphs, models and recipes are measured, and their shards on disk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import halowire.graph
from halowire.partitioning import is_shard_folder, partition, write_shards

HOSTS = 2
MODELS = ("sage", "gcn")
AT_HOME = ("halowire", "halowire-late", "first-layer")
"""Recipes whose first layer is at home; the others send every row, as when they were measured first."""
RECIPES = (
    "exact", "half", "sylvie-s", "sylvie-a", "pipegcn", "bns", "varco", "halowire-classic", *AT_HOME, "isolated"
)  # fmt: skip
VARCO_RATIOS = (128.0, 8.0)
"""Constant ratios at which VARCO is timed; with `exact`, which is ratio 1, they give the time at every other."""


@dataclass(frozen=True)
class Case:
    """A graph, how it is cut, and how long exact training on it goes on."""

    name: str
    spec: str
    method: str
    epochs: int
    every: int

    def shards(self, work: Path) -> Path:
        """The folder of its shards, made if it is not there; another graph of the same name has another folder."""
        folder = work / "shards" / f"{self.name}-{crc32(f'{self.spec} {self.method}'.encode()):08x}"
        if not is_shard_folder(folder):
            graph = halowire.graph.load(self.spec)
            write_shards(graph, partition(graph, HOSTS, self.method, seed=0), folder)
        return folder


# With the default noise of 4, exact training was still below 8% after 24 epochs.
SYNTHETIC = Case("synthetic", "sbm:nodes=200000,edges=4000000,features=128,classes=40,noise=1", "random", 40, 2)
DEBIAN = Case("debian", "debian", "metis", 60, 2)
SMALL = Case("small", "sbm:nodes=20000,edges=400000,features=128,classes=40", "random", 100, 2)


def timed(recipe: str) -> dict[str, tuple[str, dict[str, Any]]]:
    """The runs that time ``recipe``: name to (recipe, settings); only a rate that changes needs more than one."""
    if recipe != "varco":
        return {recipe: (recipe, {})}
    settings: dict[str, Any] = {"rate.schedule": "constant"}
    return {f"varco/{ratio:g}": ("varco", settings | {"rate.ratio": ratio}) for ratio in VARCO_RATIOS}
