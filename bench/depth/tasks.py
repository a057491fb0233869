"""What is run: graphs, models, ways of training, seeds, and the settings of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

WORKERS, LAYERS, HIDDEN = 2, 32, 64
CHUNKS = 32
"""Of the whole graph: GNNPipe's 4 x 8. In float32, how many workers share the layers does not change the result."""


SNAPSHOT = 23
"""GNNPipe's epochs between two snapshots."""


@dataclass(frozen=True)
class Way:
    """A way of training: its recipe, into how many parts it cuts the graph, and its settings."""

    name: str
    recipe: str
    parts: int
    settings: dict[str, Any] = field(default_factory=dict, hash=False)


def _pipeline(name: str, recipe: str = "gnnpipe", **settings: Any) -> Way:
    mesh = {"chunks": CHUNKS, "history": SNAPSHOT} | settings
    return Way(name, recipe, 1, {f"mesh.{key}": value for key, value in mesh.items()})


EXACT = Way("graph parallel", "exact", 2)
FULL = _pipeline("all three")
THAWED = _pipeline("no frozen snapshot", history=1)
ABLATION = (
    _pipeline("none", shuffle=False, history=1, gradient_rule="stale"),
    _pipeline("no shuffle", shuffle=False),
    THAWED,
    _pipeline("no gradient technique", gradient_rule="stale"),
)
POSITION = _pipeline("weights by place", gradient_rule="position")
UNBIASED = _pipeline("unbiased weights", gradient_rule="unbiased")
ONE_BIT = _pipeline("one bit", "gnnpipe-1bit")
HYBRID = Way("hybrid", "hybrid", 2, {"mesh.stages": 1, "mesh.chunks": CHUNKS // 2, "mesh.history": SNAPSHOT})
WAYS = (EXACT, FULL, *ABLATION, POSITION, UNBIASED, ONE_BIT, HYBRID)


@dataclass(frozen=True)
class Data:
    """A graph, how long it is trained, with how many seeds and in which ways, by model.

    ``longer``: the epochs of models that are trained for longer, to see where their loss ends. ``settings``: what
    differs from the learning rate and dropout of the others.
    """

    name: str
    epochs: int
    seeds: int
    ways: dict[str, tuple[Way, ...]] = field(hash=False)
    undirected: bool = False
    longer: dict[str, int] = field(default_factory=dict, hash=False)
    settings: dict[str, Any] = field(default_factory=dict, hash=False)


ABLATED = {"gcnii": (EXACT, FULL, *ABLATION, POSITION, UNBIASED, ONE_BIT), "resgcn": (EXACT, FULL, ONE_BIT)}
LARGE = {"gcnii": (EXACT, FULL, HYBRID, POSITION), "resgcn": (EXACT, FULL)}
PLACES = ABLATED | {"gcnii": (EXACT, FULL, *ABLATION, POSITION, ONE_BIT)}
TROUBLE = LARGE | {"gcnii": (EXACT, FULL, HYBRID, THAWED)}
EAGER = {"optim.lr": 0.01, "model.dropout": 0.2}
"""For graphs with 40 classes and more, of which the settings of the others learn next to nothing in so few epochs."""
GRAPHS = (
    Data("squirrel-filtered", 100, 3, ABLATED),
    Data("amazon-computers", 50, 3, ABLATED, longer={"resgcn": 150}),
    Data("coauthor-physics", 40, 3, PLACES),
    Data("debian", 80, 1, LARGE, settings=EAGER),
    Data("ogbn-arxiv", 50, 1, TROUBLE, undirected=True, longer={"gcnii": 150}, settings=EAGER),
)


@dataclass(frozen=True)
class Task:
    """One training run."""

    data: Data
    model: str
    way: Way
    seed: int

    @property
    def epochs(self) -> int:
        """How long it is trained."""
        return self.data.longer.get(self.model, self.data.epochs)

    @property
    def key(self) -> str:
        """The name under which the result is kept."""
        return f"{self.data.name}/{self.model}/{self.way.name}/{self.seed}"

    @property
    def settings(self) -> dict[str, Any]:
        """All settings of the run."""
        model = {"model.name": self.model, "model.layers": LAYERS, "model.hidden": HIDDEN, "optim.lr": 0.003}
        run = {"epochs": self.epochs, "seed": self.seed, "eval.every": 5}
        return model | run | self.data.settings | self.way.settings


def tasks(graphs: list[str], models: list[str]) -> Iterator[Task]:
    """All runs, one seed of every graph before the next seed, so that a run that stops early shows the most."""
    for seed in range(max(data.seeds for data in GRAPHS)):
        for data in GRAPHS:
            for model, ways in data.ways.items():
                if seed < data.seeds and (not graphs or data.name in graphs) and (not models or model in models):
                    yield from (Task(data, model, way, seed) for way in ways)
