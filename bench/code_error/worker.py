"""A worker: trains with every code, and writes down each measured error beside what the formula expects."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bench.code_error.cases import CODES, config_of
from bench.code_error.expected import squared_error
from halowire.launch import Place, joined, set_threads
from halowire.partitioning import Shard, read_shard
from halowire.training import GraphParallel, Trainer
from halowire.wire import FORWARD, MEASURE_EVERY, MEASURED_ROWS, HaloExchange, Message, Transport

CPU = torch.device("cpu")


class WatchedExchange(HaloExchange):
    """A halo exchange that evaluates the formula on the rows whose error the ledger books."""

    found: list[dict[str, Any]]
    kept: Tensor | None = None

    def load(self, layer: int, width: int, delta: bool = False, direction: str = FORWARD) -> Message:
        """Of delta coding, what is coded is the change from the decayed reconstruction, which loading replaces."""
        kept = self.memory.matrices.get(f"delta.send.{layer}") if delta else None
        self.kept = None if kept is None else kept[:MEASURED_ROWS].clone()
        return super().load(layer, width, delta, direction)

    def launch(self, message: Message, rows: Tensor, watched: Tensor | None = None) -> Message | None:
        """Gradients are coded as they are, rows perhaps as changes."""
        terms, sent = message.terms, rows[:MEASURED_ROWS].clone()
        coded = sent if terms.delta is None or self.kept is None else sent - terms.delta.decay * self.kept
        expected = self._expected(sent, coded, terms.layer, terms.direction)
        used = super().launch(message, rows, watched)
        self._book(expected, terms.layer, terms.direction)
        return used

    def _expected(self, sent: Tensor, coded: Tensor, layer: int, direction: str) -> float | None:
        if self.epoch is None or self.epoch % MEASURE_EVERY:
            return None
        norm = float(sent.double().square().sum())
        return squared_error(coded, self.policy.rates(self.epoch, layer, direction)) / norm if norm else None

    def _book(self, expected: float | None, layer: int, direction: str) -> None:
        measured = self.transport.ledger.now.errors.get((layer, direction))
        if expected is not None and measured is not None:
            place = {"epoch": self.epoch, "layer": layer, "direction": direction}
            self.found.append(place | {"expected": expected, "measured": measured})


def train(name: str, seed: int, shard: Shard, transport: Transport, run: Path) -> list[dict[str, Any]]:
    """Train with one code; expected and measured errors."""
    config = config_of(name, seed)
    runner = GraphParallel(shard, shard, config, transport, exchange=WatchedExchange)
    assert isinstance(runner.exchange, WatchedExchange)
    runner.exchange.found = []
    Trainer(runner, config, transport, run).run()
    return [{"code": name, **row} for row in runner.exchange.found]


def main() -> None:
    """SHARDS FOLDER SEED: all codes, one after another."""
    shards, folder, seed = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    place = Place.here()
    set_threads(1, place)
    with joined(CPU, 600.0) as (transport, *_):
        shard = read_shard(shards, place.rank)
        runs = {name: folder / f"run-{number}" for number, name in enumerate(CODES)}
        rows = [row for name, run in runs.items() for row in train(name, seed, shard, transport, run)]
    (folder / f"found-{place.rank}.json").write_text(json.dumps(rows))
