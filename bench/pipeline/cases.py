"""The cases: graphs with features and labels, models, ways to spread them over workers, and shards on disk."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import halowire.graph
from halowire.graph import Graph, random_split
from halowire.partitioning import is_shard_folder, partition, write_shards
from halowire.schedules import Mesh

LAYERS, HIDDEN = 32, 100
MODELS = ("gcn", "sage", "gcnii", "resgcn")
FEATURES, CLASSES = 100, 40
"""Of graphs that are structure only."""
HALVES = 2
"""How many hosts share what one host of the other ways has, where there are four workers."""


@dataclass(frozen=True)
class Way:
    """A way to spread a model: its recipe, its workers, and into how many parts it cuts the graph."""

    name: str
    recipe: str
    workers: int
    parts: int
    stages: int

    @property
    def chunks(self) -> int:
        """Chunks of a part: the mesh's own choice."""
        return Mesh.of(self.stages, self.parts, 0, self.workers).chunks


FOUR = "graph parallel, 4 workers"
WAYS = {
    way.name: way
    for way in (
        Way("graph parallel", "exact", 2, 2, 1),
        Way("pipeline", "gnnpipe", 2, 1, 2),
        Way("one-bit pipeline", "gnnpipe-1bit", 2, 1, 2),
        Way("hybrid", "hybrid", 4, 2, 2),
        Way(FOUR, "exact", 4, 4, 1),
    )
}


@dataclass(frozen=True)
class Case:
    """A graph: what :func:`halowire.load` takes, from the data folder or made up."""

    name: str
    spec: str = ""
    undirected: bool = False
    layers: int = LAYERS
    keep: str = "all"
    """what the pipeline keeps for backward: `aggregates` where all would not fit the memory"""
    four: tuple[str, ...] = ()
    """the models for which graph parallelism of four workers is timed too"""
    balance: str = "both"
    """what METIS makes the parts alike in: whichever gives graph parallelism of two workers fewer halo rows"""

    def load(self, data: Path | None) -> Graph:
        """The graph, with seeded features, labels and split where it has none."""
        if not self.spec and data is None:
            raise SystemExit(f"{self.name}.npz is not part of the package; give its folder with --data")
        source = self.spec or str(Path(str(data)) / f"{self.name}.npz")
        return furnished(halowire.graph.load(source, self.undirected))

    def shards(self, work: Path, data: Path | None, parts: int) -> Path:
        """The folder of its shards, cut by METIS, made if it is not there."""
        folder = work / "shards" / f"{self.name}-{self.balance}-{parts}"
        if not is_shard_folder(folder):
            graph = self.load(data)
            write_shards(graph, partition(graph, parts, "metis", seed=0, balance=self.balance), folder)
        return folder

    def takes(self, model: str, way: Way) -> bool:
        """Whether a way is timed on this graph."""
        return model in self.four or way.name != FOUR

    def settings(self, model: str, way: Way) -> dict[str, Any]:
        """Settings of a run."""
        found = {"model.name": model, "model.layers": self.layers, "model.hidden": HIDDEN, "optim.lr": 0.001}
        return found | ({"mesh.keep": self.keep} if way.stages > 1 else {})


PHYSICS = Case("coauthor-physics", four=MODELS, balance="nodes")
ARXIV = Case("ogbn-arxiv", undirected=True, four=("gcn", "gcnii"), balance="nodes")
CNR = Case("cnr-2000", keep="aggregates")
BLOCKS = Case("blocks", "sbm:nodes=200000,edges=1000000,features=100,classes=40")
SMALL = Case("small", "sbm:nodes=6000,edges=60000,features=32,classes=8", layers=8, four=MODELS)
CASES = {case.name: case for case in (PHYSICS, ARXIV, CNR, BLOCKS, SMALL)}
ORDER = (
    ("coauthor-physics", MODELS),
    ("ogbn-arxiv", ("gcn", "gcnii")),
    ("blocks", ("gcn",)),
    ("ogbn-arxiv", ("sage", "resgcn")),
    ("blocks", ("gcnii", "sage", "resgcn")),
    ("cnr-2000", ("gcn", "gcnii", "sage", "resgcn")),
    ("small", MODELS),
)
"""What is measured first; last the graph whose tiny cut asks for links so slow that every epoch takes a minute."""


def furnished(graph: Graph) -> Graph:
    """``graph`` with features, labels and a split drawn from seed 0 where they are missing."""
    rng, n = np.random.default_rng(0), graph.num_nodes
    if graph.x is None:
        graph = replace(graph, x=torch.from_numpy(rng.standard_normal((n, FEATURES), dtype=np.float32)))
    if graph.y is None:
        graph = replace(graph, y=torch.from_numpy(rng.integers(0, CLASSES, n)), num_classes=CLASSES)
    if graph.train_mask is None:
        train, val, test = random_split(n, rng)
        graph = replace(graph, train_mask=train, val_mask=val, test_mask=test)
    return graph
