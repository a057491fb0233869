"""A worker of the benchmark: trains epochs with and without headers and checks by turns, and times its start."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from bench.safety.switch import Switch
from halowire.launch import joined
from halowire.partitioning import read_shard
from halowire.training import EXTRAS, GraphParallel, Trainer, agree, recipe_config
from halowire.training.agreement import setting_facts, version_facts
from halowire.wire import Transport

TURNS = (False, True, True, False)
"""Whether the switch is off, in turns of four epochs: what slows down or speeds up steadily cancels out."""


def epoch(trainer: Trainer, number: int) -> float:
    """Seconds of one training epoch, the slower worker's."""
    trainer.transport.barrier("turn")
    start = time.perf_counter()
    loss = float(trainer.forward_backward(number))
    trainer.flat.reduce([loss] + [0.0] * (EXTRAS - 1), number)
    trainer.optimiser.step()
    seconds = torch.zeros(trainer.transport.size)
    seconds[trainer.transport.rank] = time.perf_counter() - start
    trainer.transport.all_reduce(seconds, "turn", account=None)
    return float(seconds.max())


def start_costs(shards: Path, rank: int, transport: Transport, facts: dict[str, Any]) -> dict[str, float]:
    """Seconds of the agreement, and of opening the shard with and without a look at its content, the fastest of 5."""
    steps = {
        "agreement": lambda: agree(facts, transport),
        "checked": lambda: read_shard(shards, rank),
        "unchecked": lambda: read_shard(shards, rank, verify=False),
    }
    fastest = {}
    for name, step in steps.items():
        transport.barrier("start")
        fastest[name] = min(_seconds(step) for _ in range(5))
    return fastest


def _seconds(step: Callable[[], object]) -> float:
    begun = time.perf_counter()
    step()
    return time.perf_counter() - begun


def main() -> None:
    """Measure what the request in the first argument says; rank 0 writes the answer."""
    request = json.loads(Path(sys.argv[1]).read_text())
    shards = Path(request["shards"])
    torch.set_num_threads(1)
    switch = Switch()
    switch.install()
    with joined(torch.device("cpu"), 600.0) as (transport, *_):
        config = recipe_config(request["recipe"]).replace(request["settings"])
        shard = read_shard(shards, transport.rank)
        trainer = Trainer(GraphParallel(shard, shard, config, transport), config, transport, Path(request["run"]))
        ready = time.time() - request["begun"]
        seconds: dict[bool, list[float]] = {False: [], True: []}
        for number in range(4):
            epoch(trainer, number)
        switch.seconds, calls = 0.0, 4
        for block in range(request["blocks"]):
            for place, off in enumerate(TURNS):
                switch.off = off
                seconds[off].append(epoch(trainer, calls + len(TURNS) * block + place))
        own = switch.seconds / len(seconds[False])
        switch.off = False
        trainer.settle()
        facts = setting_facts(config) | version_facts()
        costs = start_costs(shards, transport.rank, transport, facts)
        if transport.rank == 0:
            answer = {"with": seconds[False], "without": seconds[True], "counted": own, "start": ready, **costs}
            Path(request["answer"]).write_text(json.dumps(answer))
    os._exit(0)
