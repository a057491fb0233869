"""A worker on a host of the lab: takes requests from a folder, one after another, and trains as each of them says.

    python -m bench.slow_network.worker FOLDER

The shards stay in memory and the halo's features are fetched once, so that a run at another rate or with another
recipe starts at once. All workers read the same ``request-<n>.json`` and each writes ``answer-<n>-<rank>.json``.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from bench.slow_network.null import NullTransport
from halowire.exchange import HaloExchange, Transport
from halowire.launch import Place, joined, set_threads
from halowire.nn.model import exchanged_widths
from halowire.partition import Shard, read_shard
from halowire.train.config import Config
from halowire.train.loop import Hooks, Trainer
from halowire.train.recipes import recipe_config
from halowire.train.view import View
from halowire.train.wire import policy_of

CPU = torch.device("cpu")
POLL = 0.02


@dataclass
class Stopper:
    """Ends a run after ``last`` epochs, or at the evaluation after which the validation metric reached ``target``."""

    last: int
    target: float | None
    asked: int = 0
    reached: bool = False

    def epoch(self, epoch: int, loss: float, seconds: float, wire_bytes: int) -> None:
        """Nothing."""

    def evaluated(self, epoch: int, metrics: dict[str, float]) -> None:
        """Compare with the target."""
        self.reached = self.reached or (self.target is not None and metrics["val"] >= self.target)

    def __call__(self) -> bool:
        """Asked once per epoch, before it ends."""
        self.asked += 1
        return self.asked >= self.last or self.reached


@dataclass
class Desk:
    """One worker's shard and the views of it that were prepared, by model and whether the cut edges are left out."""

    shard: Shard
    transport: Transport
    views: dict[tuple[str, bool], View] = field(default_factory=dict)

    def prepare(self, config: Config) -> View:
        """Normalise the shard and fetch the halo's features, once."""
        alone = config.freshness.mode == "never"
        key = (config.model.name, alone)
        if key not in self.views:
            shard = self.shard.isolated() if alone else self.shard
            self.views[key] = View.of(shard, config, self.transport, CPU)
        return self.views[key]

    def train(self, request: dict[str, Any]) -> None:
        """Run the trainer for the request's recipe and settings."""
        config = recipe_config(request["recipe"]).replace(request["settings"])
        transport = NullTransport() if request["null"] else self.transport
        base = self.prepare(config)
        model = config.model
        widths = exchanged_widths(base.features.own.num_cols, model.hidden, base.shard.num_classes, model.layers)
        exchange = HaloExchange(base.shard, transport, CPU, policy_of(config, widths, base.shard.num_halo))
        view = replace(base, spread=replace(base.spread, exchange=exchange))
        whole = self.prepare(config.replace({"freshness.mode": "fresh"}))
        stopper = Stopper(request["stop_after"], request["target"])
        Trainer(view, whole, config, transport, Path(request["run"])).run(Hooks(stopper, stopper))
        transport.settle()


def main() -> None:
    """Serve until a request is empty."""
    folder, place = Path(sys.argv[1]), Place.here()
    set_threads(0, place)
    with joined(CPU, 900.0) as (transport, _):
        shard = read_shard(Path(json.loads((folder / "start.json").read_text())["shards"]), place.rank)
        desk, number = Desk(shard, transport), 0
        while request := _next(folder / f"request-{number}.json"):
            start = time.process_time()
            transport.barrier("start of a request")
            desk.train(request)
            transport.barrier("end of a request")
            answer = folder / f"answer-{number}-{place.rank}"
            answer.with_suffix(".tmp").write_text(json.dumps({"cpu_seconds": time.process_time() - start}))
            answer.with_suffix(".tmp").rename(answer.with_suffix(".json"))
            number += 1


def _next(path: Path) -> dict[str, Any]:
    while not path.exists():
        time.sleep(POLL)
    request: dict[str, Any] = json.loads(path.read_text())
    return request


if __name__ == "__main__":
    main()
