"""How much memory of the simulated device a run takes, and how much was expected."""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch

from halowire.graph import block_model
from halowire.partitioning import Shard, cut, partition
from halowire.training import (
    Config,
    GraphParallel,
    Hooks,
    MemoryEstimate,
    Runner,
    Silent,
    Staged,
    Trainer,
    estimate,
    mesh_of,
    pipelined,
    predict,
)
from halowire.wire import Transport
from tests.support.sim import SIM, Simulation

Sizes = tuple[int, int, int, int]
"""Nodes, edges, features and classes of a graph."""
USUAL: Sizes = (3000, 40000, 64, 8)


def _part(rank: int, config: Config, sizes: Sizes) -> Shard:
    graph, mesh = block_model(*sizes, seed=3), mesh_of(config, 2)
    return cut(graph, partition(graph, mesh.parts, method="random", seed=4))[mesh.place(rank)[1]]


def memory_of_predictions(rank: int, config: Config, sizes: Sizes = USUAL) -> tuple[int, MemoryEstimate]:
    """The same of `halowire predict`."""
    shard = _part(rank, config, sizes)
    with Simulation() as simulation:
        simulation.module.reset_peak_memory_stats()
        before = simulation.module.memory_allocated()
        runner = GraphParallel(shard, shard, config, Transport(deadline=60), torch.device(SIM))
        weights = {name: value.detach().cpu().clone() for name, value in runner.model.state_dict().items()}
        predict(runner, weights)
        config = runner.savings.settle(config)
        found = estimate(shard, shard, config, mesh_of(config, 2), twins=True).of_predictions()
        return simulation.module.max_memory_allocated() - before, found


def memory_of_run(rank: int, config: Config, sizes: Sizes = USUAL) -> tuple[int, MemoryEstimate]:
    """The most bytes that this worker's tensors took at once on the device, and the estimate for its share."""
    mesh, whole = mesh_of(config, 2), _part(rank, config, sizes)
    train = whole.isolated() if config.freshness.mode == "never" else whole
    with Simulation() as simulation, tempfile.TemporaryDirectory() as folder:
        simulation.module.reset_peak_memory_stats()
        before = simulation.module.memory_allocated()
        transport = Transport(deadline=60)
        runner: Runner = (
            Staged(train, whole, config, mesh, transport, device=torch.device(SIM))
            if pipelined(config, mesh)
            else GraphParallel(train, whole, config, transport, torch.device(SIM))
        )
        Trainer(runner, config, transport, Path(folder)).run(Hooks(Silent(), keep=False))
        found = estimate(train, whole, runner.savings.settle(config), mesh, twins=True)
        return simulation.module.max_memory_allocated() - before, found
