"""A worker on a host of the lab: takes requests from a folder, one after another, and trains as each of them says.

    python -m bench.slow_network.worker FOLDER

The shards stay in memory and the halo's features are fetched once, so that a run at another rate or with another
recipe starts at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bench.timing.null import NullTransport
from bench.timing.serve import CPU, Stopper, serve
from halowire.layers.model import exchanged_widths
from halowire.partitioning import Shard, read_shard
from halowire.training.config import Config
from halowire.training.loop import Hooks, Trainer
from halowire.training.recipes import recipe_config
from halowire.training.view import View
from halowire.training.wire import policy_of
from halowire.wire import HaloExchange, Transport


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
        Trainer(view, whole, config, transport, Path(request["run"])).run(Hooks(stopper, stopper, keep=False))


def main() -> None:
    """Serve until a request is empty."""
    serve(lambda start, transport: Desk(read_shard(Path(start["shards"]), transport.rank), transport).train)


if __name__ == "__main__":
    main()
