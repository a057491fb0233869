"""A worker on a host of the lab: trains a deep model as every request says, on any mesh.

python -m bench.pipeline.worker FOLDER
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.timing.null import NullTransport
from bench.timing.serve import Stopper, serve
from halowire.partitioning import Shard, read_shard
from halowire.training import GraphParallel, Hooks, Staged, Trainer, mesh_of, pipelined, recipe_config
from halowire.wire import Transport


@dataclass
class Desk:
    """One worker's shards, by their folder."""

    transport: Transport
    shards: dict[str, Shard] = field(default_factory=dict)

    def train(self, request: dict[str, Any]) -> None:
        """Run the trainer for the request's recipe, settings and shards."""
        # The tables are of wires that send every row; bench/bytes counts what need not travel.
        config = recipe_config(request["recipe"]).replace({"wire.plain": True} | request["settings"])
        mesh, folder = mesh_of(config, self.transport.size), request["shards"]
        if folder not in self.shards:
            self.shards = {folder: read_shard(Path(folder), mesh.place(self.transport.rank)[1], verify=False)}
        shard = self.shards[folder]
        transport = NullTransport(live=True) if request["null"] else self.transport
        stopper, run = Stopper(request["stop_after"]), Path(request["run"])
        if pipelined(config, mesh):
            pipeline = Staged(shard, shard, config, mesh, transport)
            pipeline.recorded_epoch = request["stop_after"] - 1
            trainer = Trainer(pipeline, config, transport, run)
        else:
            view = GraphParallel(shard, shard, config, transport)
            trainer = Trainer(view, config, transport, run)
        if isinstance(transport, NullTransport):
            transport.live = False
        trainer.run(Hooks(stopper, stopper, keep=False))


def main() -> None:
    """Serve until a request is empty."""
    serve(lambda start, transport: Desk(transport).train)


if __name__ == "__main__":
    main()
