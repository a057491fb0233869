"""A worker on a host of the lab: takes requests from a folder, one after another, and trains as each of them says.

    python -m bench.slow_network.worker FOLDER

The shards stay in memory, so that a run at another rate or with another recipe starts quickly.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.slow_network.cases import AT_HOME
from bench.timing.null import NullTransport
from bench.timing.serve import Stopper, serve
from halowire.partitioning import Shard, read_shard
from halowire.training import GraphParallel, Hooks, Trainer, recipe_config, trained_part
from halowire.wire import Transport


@dataclass
class Desk:
    """One worker's shard."""

    shard: Shard
    transport: Transport

    def train(self, request: dict[str, Any]) -> None:
        """Run the trainer for the request's recipe and settings."""
        plain = {} if request["recipe"] in AT_HOME else {"wire.plain": True}
        config = recipe_config(request["recipe"]).replace(plain | request["settings"])
        # Set-up is real: the features of the halo are fetched.
        transport = NullTransport(live=True) if request["null"] else self.transport
        runner = GraphParallel(trained_part(self.shard, config), self.shard, config, transport)
        trainer = Trainer(runner, config, transport, Path(request["run"]))
        if isinstance(transport, NullTransport):
            transport.live = False
        stopper = Stopper(request["stop_after"], request["target"])
        trainer.run(Hooks(stopper, stopper, keep=False))


def main() -> None:
    """Serve until a request is empty."""
    serve(lambda start, transport: Desk(read_shard(Path(start["shards"]), transport.rank), transport).train)


if __name__ == "__main__":
    main()
