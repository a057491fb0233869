"""Small runs on the simulated device and on the CPU, and what is compared of them."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from halowire.training import (
    Config,
    GraphParallel,
    Hooks,
    Runner,
    Staged,
    Trainer,
    gather_predictions,
    generator_states,
    mesh_of,
    pipelined,
    predict,
    recipe_config,
)
from halowire.wire import Machines
from tests.support.device_graphs import part_of, trained_part
from tests.support.epochs import too_far
from tests.support.sim import SIM, Counts, Simulation, nccl_simulated, transport_of

SMALL: dict[str, Any] = {"model.hidden": 16, "epochs": 4, "eval.every": 4, "checkpoint.every": 0, "seed": 11}
Network = Callable[[], AbstractContextManager[Simulation]]
"""A block with the simulated device and one way for its messages."""
ROUNDING = 1e-4
"""Largest difference from the CPU's run, as a share of the largest value of a tensor."""


Make = Callable[[str, Config, str, Path], Trainer]
"""Gives the trainer of this worker on a device, for settings, a kind of graph and a folder."""


class EpochCounts:
    """An observer that records how often the host waited in every epoch, and where."""

    def __init__(self, counts: Counts) -> None:
        self._counts = counts
        self._before = Counter(counts.waits)
        self.waits: list[Counter[tuple[str, str]]] = []

    def epoch(self, epoch: int, loss: float, seconds: float, wire_bytes: int) -> None:
        """Record the waits of this epoch."""
        self.waits.append(self._counts.waits - self._before)
        self._before = Counter(self._counts.waits)

    def evaluated(self, epoch: int, metrics: dict[str, float]) -> None:
        """Leave out the waits of an evaluation."""
        self._before = Counter(self._counts.waits)


@dataclass(frozen=True)
class Outcome:
    """What a run left on one worker: the last loss, its metrics, all weights, the waits of every epoch, bytes sent.

    ``tensors`` holds the weights and, on rank 0, what the best weights predict.
    """

    loss: float
    metrics: dict[str, float]
    tensors: dict[str, np.ndarray]
    waits: list[Counter[tuple[str, str]]]
    sent: dict[str, int]


def config_of(model: str, recipe: str, **settings: object) -> Config:
    """A small run of ``model`` with ``recipe``; ``settings`` have ``__`` for the dot."""
    return _small(recipe_config(recipe), settings | {"model__name": model})


def own_config_of(recipe: str, **settings: object) -> Config:
    """A small run of a model of one's own with ``recipe``."""
    config = recipe_config(recipe, own_model=True)
    return _small(config, link_of(config) | settings)


def link_of(config: Config) -> dict[str, object]:
    """A link so slow that a device and a CPU choose alike: the first layer at home wherever that saves bytes."""
    return {"wire.link": 1e-3} if config.wire.first_layer == "auto" else {}


def _small(config: Config, settings: dict[str, object]) -> Config:
    return config.replace(SMALL | {key.replace("__", "."): value for key, value in settings.items()})


def train_on(device: str, config: Config, kind: str = "classes", counts: Counts | None = None) -> Outcome:
    """Train on ``device`` in this worker, on the graph of ``kind``."""
    with tempfile.TemporaryDirectory() as folder:
        trainer = trainer_on(device, config, kind, Path(folder))
        watch = EpochCounts(counts or Counts())  # made last, so that the waits of the set-up are not counted
        trainer.run(Hooks(watch, keep=False))
    return outcome_of(trainer, watch)


def trainer_on(device: str, config: Config, kind: str, folder: Path) -> Trainer:
    """The trainer of this worker."""
    transport = transport_of(device)
    transport.machines = Machines.split(transport.size, config.mesh.hosts or 1)
    mesh = mesh_of(config, transport.size)
    shard, task = part_of(kind, config, transport, torch.device(device))
    part = trained_part(kind, config, transport, shard)
    runner: Runner
    if pipelined(config, mesh):
        runner = Staged(part, shard, config, mesh, transport, device=torch.device(device))
    else:
        runner = GraphParallel(part, shard, config, transport, torch.device(device), task)
    return Trainer(runner, config, transport, folder)


def outcome_of(trainer: Trainer, watch: EpochCounts) -> Outcome:
    """What a run left; the predictions are made from the best weights, as `halowire predict` does."""
    others = dict(trainer.model.named_parameters()).keys() - trainer.runner.parameters.keys()  # of other stages
    values = {name: value for name, value in trainer.model.state_dict().items() if name not in others}
    tensors = {name: value.detach().cpu().numpy().copy() for name, value in values.items()}
    sent = dict(trainer.transport.ledger.totals)
    logits = predict(trainer.runner, trainer.progress.best_weights)
    found = gather_predictions(logits, trainer.runner.shard, trainer.transport)
    trainer.settle()
    tensors |= {} if found is None else {"predictions": found[0].numpy().copy()}
    return Outcome(trainer.progress.train_loss, trainer.progress.best, tensors, watch.waits, sent)


def train_both(
    rank: int, config: Config, kind: str = "classes", network: Network = nccl_simulated
) -> tuple[Outcome, Outcome]:
    """Train on the simulated device, with ``network`` between the workers, and on the CPU with the same torch code."""
    with network() as simulation:
        device = train_on(SIM, config, kind, simulation.counts)
    with torch_kernels():
        return device, train_on("cpu", config, kind)


def train_in_two_runs(
    rank: int, config: Config, folder: str, first: str, then: str, make: Make = trainer_on
) -> tuple[Outcome, Outcome]:
    """Train half of the epochs on the device ``first``, and go on from the checkpoint on ``then``; and all at once.

    Both use the trainer that ``make`` gives. The generators must go on from where the first run left them.
    """
    middle = config.epochs // 2
    config = config.replace({"eval.every": middle})  # a run evaluates at its end, so all runs must evaluate there
    half = config.replace({"epochs": middle})
    with torch_kernels(), nccl_simulated() as simulation:
        watch = EpochCounts(simulation.counts)
        before = make(first, half, "classes", Path(folder))
        torch.rand(rank + 3, device=first)  # library models draw nothing, so that this is all that was drawn
        before.run(Hooks(watch))
        left = generator_states(torch.device(first))
        torch.manual_seed(99)
        resumed = make(then, config, "classes", Path(folder))
        resumed.resume()
        assert resumed.progress.epoch == half.epochs
        # Rank 0's generators are shared, but those of models that draw are saved by every worker.
        found = generator_states(torch.device(then))
        assert rank > 0 or first != then or all(torch.equal(found[name], state) for name, state in left.items())
        resumed.run(Hooks(watch))
        whole = make(first, config, "classes", Path(folder, "whole"))
        torch.rand(rank + 3, device=first)
        whole.run(Hooks(watch, keep=False))
        return outcome_of(resumed, watch), outcome_of(whole, watch)


@contextmanager
def torch_kernels() -> Iterator[None]:
    """Use the torch twins of all kernels on the CPU within the block."""
    before = os.environ.get("HALOWIRE_KERNELS")
    os.environ["HALOWIRE_KERNELS"] = "torch"
    try:
        yield
    finally:
        if before is None:
            del os.environ["HALOWIRE_KERNELS"]
        else:
            os.environ["HALOWIRE_KERNELS"] = before


def same_run(both: list[tuple[Outcome, Outcome]]) -> None:
    """Assert that the device's run equals the CPU's on every worker: loss, metrics, weights, predictions, bytes."""
    for device, cpu in both:
        assert device.sent == cpu.sent, f"{device.sent} on the device, {cpu.sent} on the CPU"
        assert device.loss == cpu.loss or abs(device.loss - cpu.loss) <= ROUNDING * abs(cpu.loss)
        assert device.tensors.keys() == cpu.tensors.keys()
        for name, value in device.tensors.items():
            words = too_far(name, value, cpu.tensors[name], ROUNDING)
            assert not words, words
        assert device.metrics.keys() == cpu.metrics.keys()
        # The share of some 200 nodes is equal or far apart; the error of values is rounded like the weights.
        for name, metric in cpu.metrics.items():
            assert device.metrics[name] == metric or abs(device.metrics[name] - metric) <= ROUNDING * abs(metric), name


def few_waits(both: list[tuple[Outcome, Outcome]], most: int, first: int = 0) -> None:
    """Assert that no epoch from ``first`` on made the host wait more than ``most`` times; say where it waited."""
    for device, _ in both:
        for epoch, waits in list(enumerate(device.waits))[first:]:
            assert waits.total() <= most, f"epoch {epoch}: {waits.total()} waits, {dict(waits)}"
