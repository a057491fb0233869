"""Bytes of set-up and of an epoch, as the ledgers of workers book them that are threads of this process.

They train one epoch on real shards with real messages, which only never leave the process; the step ``check`` compares
some cases with real workers.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.bytes.ways import Way
from halowire.events import LOCAL, SETUP, TRAIN
from halowire.partitioning import Shard
from halowire.training import EXTRAS, GraphParallel, Surroundings, Trainer, estimate, mesh_of
from halowire.wire import InProcessTransport, Machines, run_threads

ETHERNET = Surroundings(1000.0)
"""Between machines."""
DEADLINE = 900.0
"""Seconds that a worker waits for another: they share one core."""


def count(shards: Sequence[Shard], way: Way, layers: int) -> dict[str, Any]:
    """What all workers send, ``way``, with a SAGE model of ``layers`` layers: bytes, memory, and what was chosen."""
    size, config = len(shards), way.config(layers)
    one = threading.Lock()

    def work(transport: InProcessTransport) -> dict[str, Any]:
        shard, ledger = shards[transport.rank], transport.ledger
        if way.hosts > 1:
            transport.machines = Machines.split(size, way.hosts)
        start = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="halowire-") as folder:
            runner = GraphParallel(shard, shard, config, transport, around=ETHERNET)
            trainer = Trainer(runner, config, transport, Path(folder))
            seconds, before = time.monotonic() - start, dict(ledger.totals)
            with ledger.account(TRAIN):
                loss = trainer.forward_backward(0)
            found = {name: ledger.totals[name] - before[name] for name in (TRAIN, LOCAL)}
            trainer.flat.reduce([float(loss)] + [0.0] * (EXTRAS - 1))
            trainer.settle()
        with one:
            needed = estimate(shard, shard, runner.savings.settle(config), mesh_of(config, size), twins=False)
        return {
            "sent": found[TRAIN], "local": found[LOCAL], "setup": before[SETUP], "memory": needed.total,
            "seconds": seconds, "chosen": runner.savings.chosen,
        }  # fmt: skip

    each = run_threads(size, work, DEADLINE)
    total = {name: sum(one[name] for one in each) for name in ("sent", "local", "setup")}
    largest = {"memory": max(one["memory"] for one in each), "seconds": round(max(one["seconds"] for one in each), 2)}
    return total | largest | each[0]["chosen"]
