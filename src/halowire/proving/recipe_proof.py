"""Every recipe on a device against the CPU: the loss and all gradients of two epochs, and how often the host waits."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.graph import block_model
from halowire.layers import MODELS
from halowire.partitioning import Shard, cut, partition
from halowire.proving.finding import Finding
from halowire.proving.subject import Subject
from halowire.training import (
    EXTRAS,
    Config,
    GraphParallel,
    Hooks,
    Runner,
    Situation,
    Staged,
    Trainer,
    mesh_of,
    pipelined,
    recipe_config,
    refuse,
    trained_part,
)
from halowire.wire import Transport

NODES, EDGES, FEATURES, CLASSES = 400, 4000, 24, 5
LAYERS = 3
SMALL = {"model.hidden": 32, "epochs": 4, "eval.every": 4, "checkpoint.every": 0, "seed": 11}
EPOCHS = 2
"""Epochs that are compared: the second one uses rows of the first where they travel late, or as changes."""
ROUNDING = 1e-4
"""How far gradients may be apart where float32 rows travel, of the largest one."""
FLIPS = 3e-2
"""The same where codes travel: a value between two codes may fall to either side when its last bit differs."""
WAITING = ("exact", "sylvie-a", "halowire", "halowire-late")
"""Recipes whose host waits are counted: plain messages, late ones, changes, and late changes that are corrected."""
MOST_WAITS = 3
NOT_COUNTED = "not counted: the profiler saw no wait in an epoch, though every epoch reads its loss"


def small_runs(subject: Subject, workers: int) -> list[Config]:
    """The small runs of all recipes that so many ``workers`` can run, each with one of the library's models in turn."""
    runs = (small_run(recipe, number, workers) for number, recipe in enumerate(subject.recipes))
    return [config for config in runs if config is not None]


def run_name(config: Config) -> str:
    """What the block calls a small run."""
    return f"{config.recipe}, {config.model.name}"


def prove_recipe(config: Config, transport: Transport, subject: Subject) -> Finding:
    """A small run on the device against the same on the CPU; all workers call this together."""
    there, here = (gradients(transport, config, where) for where in (subject.device, torch.device("cpu")))
    apart = max(_apart(*passes) for passes in zip(there, here, strict=True))
    return Finding(run_name(config), apart, FLIPS if config.rate.bits < 32 else ROUNDING)


def small_run(recipe: str, number: int, workers: int) -> Config | None:
    """The settings of a small run; the model is one that the recipe takes, another one for every ``number``.

    A recipe that splits the layers over the workers gets a layer for each of them. None where no model can run with the
    recipe on so many workers, as a hybrid of one stage.
    """
    names = list(MODELS)
    split = recipe_config(recipe).mesh.stages != 1
    small = SMALL | {"model.layers": max(LAYERS, workers) if split else LAYERS}
    for name in names[number % len(names) :] + names:
        config = recipe_config(recipe).replace({"model.name": name} | small)
        try:
            refuse(config, Situation(mesh_of(config, workers)))
        except InputError:
            continue
        return config
    return None


def gradients(transport: Transport, config: Config, device: torch.device) -> list[list[Tensor]]:
    """Of every epoch the loss and the gradient of each parameter of this worker, on the CPU; no step is taken."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(small_runner(transport, config, device), config, transport, Path(folder))
        for epoch in range(EPOCHS):
            loss = trainer.forward_backward(epoch)
            mine = [loss, 0.0, 0.0, *trainer.exchange.take_change()]
            sums = trainer.flat.reduce([*mine, *[0.0] * (EXTRAS - len(mine))], epoch)
            trainer.steer(sums[0], 1.0, sums[3], sums[4])
            grads = [parameter.grad for parameter in trainer.parameters]
            found.append([torch.tensor(sums[:1]), *(grad.cpu().clone() for grad in grads if grad is not None)])
        trainer.settle()
    return found


def small_runner(transport: Transport, config: Config, device: torch.device) -> Runner:
    """This worker's runner on its shard of a small graph."""
    mesh = mesh_of(config, transport.size)
    whole = small_shards(mesh.parts)[mesh.place(transport.rank)[1]]
    train = trained_part(whole, config)
    if pipelined(config, mesh):
        return Staged(train, whole, config, mesh, transport, device=device)
    return GraphParallel(train, whole, config, transport, device)


def small_shards(parts: int) -> list[Shard]:
    """A small graph, cut at random, so that most rows travel."""
    graph = block_model(NODES, EDGES, FEATURES, CLASSES, seed=3)
    return cut(graph, partition(graph, parts, method="random", seed=4))


def count_waits(recipe: str, transport: Transport, subject: Subject) -> Finding:
    """How often the host waits in an epoch of ``recipe``: the largest number of all epochs but the first.

    Where rows travel through the host's memory, every copy there is waited for too. All workers call this together.
    """
    config = small_run(recipe, 0, transport.size)
    assert config is not None, "recipes of graph parallelism run on any number of workers"
    before = transport.host_copies
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(small_runner(transport, config, subject.device), config, transport, Path(folder))
        with subject.watch() as watch:
            trainer.run(Hooks(watch, keep=False))
    copies = math.ceil((transport.host_copies - before) / config.epochs)
    # A copy that one epoch asks for may be waited for, in a thread of its own, in the next one.
    return waits_found(recipe, watch.per_epoch[1:], MOST_WAITS + 2 * copies)


def waits_found(recipe: str, per_epoch: list[int], allowed: int) -> Finding:
    """The finding about the waits of every epoch; an epoch without any was not observed, for each reads its loss."""
    if not per_epoch or min(per_epoch) == 0:
        return Finding(recipe, math.inf, allowed, failure=NOT_COUNTED)
    return Finding(recipe, max(per_epoch), allowed)


def _apart(there: list[Tensor], here: list[Tensor]) -> float:
    """The largest difference in a tensor, of the tensor's largest value; infinite where a value is not finite.

    The first tensor is the loss. A gradient that is nothing but rounding is measured by a hundredth of the largest one.
    """
    if not all(value.isfinite().all() for value in (*there, *here)):
        return float("inf")
    sizes = [float(value.abs().max()) for value in here]
    least = max(1e-2 * max(sizes[1:], default=0.0), 1e-30)
    pairs = zip(there, here, sizes, strict=True)
    return max(float((a - b).abs().max()) / max(size, least) for a, b, size in pairs)
