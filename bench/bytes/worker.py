"""A worker on a host of the lab: trains on the shards and with the settings of every request.

python -m bench.bytes.worker FOLDER
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.timing.serve import Stopper, serve
from halowire.partitioning import Shard, read_shard
from halowire.training import GraphParallel, Hooks, Trainer, recipe_config
from halowire.wire import Transport


@dataclass
class Desk:
    """One worker, and its shards of every cut that it has trained on."""

    transport: Transport
    shards: dict[str, Shard] = field(default_factory=dict)

    def train(self, request: dict[str, Any]) -> None:
        """Train on the request's cut with the request's settings."""
        folder = request["shards"]
        if folder not in self.shards:
            self.shards[folder] = read_shard(Path(folder), self.transport.rank)
        shard, config = self.shards[folder], recipe_config("exact").replace(request["settings"])
        runner = GraphParallel(shard, shard, config, self.transport)
        stopper = Stopper(request["stop_after"])
        Trainer(runner, config, self.transport, Path(request["run"])).run(Hooks(stopper, stopper, keep=False))


def main() -> None:
    """Serve until a request is empty."""
    serve(lambda start, transport: Desk(transport).train)


if __name__ == "__main__":
    main()
