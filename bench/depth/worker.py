"""One worker's part of one run; a module of its own, so that the worker processes can import it."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from bench.timing.serve import free_memory
from halowire.errors import TrainingError
from halowire.events import read_events
from halowire.partitioning import read_shard
from halowire.training import Hooks, Silent, Staged, Trainer, mesh_of, recipe_config
from halowire.wire import Transport


def train_here(rank: int, shards: str, recipe: str, settings: dict[str, Any]) -> dict[str, Any]:
    """One worker's part of one run: accuracy at the best validation, curves, whether the loss became no number.

    ``blind_loss`` is the entropy of the training labels: the loss of a model that knows their shares and nothing else.
    """
    free_memory()
    # The tables are of wires that send every row; bench/bytes counts what need not travel.
    config = recipe_config(recipe).replace({"wire.plain": True} | settings)
    transport = Transport(deadline=600)
    mesh = mesh_of(config, transport.size)
    shard = read_shard(shards, mesh.place(rank)[1], verify=False)
    run, start = Path(tempfile.mkdtemp(prefix="halowire-run-")), time.process_time()
    trainer = Trainer(Staged(shard, shard, config, mesh, transport), config, transport, run)
    diverged = False
    try:
        trainer.run(Hooks(Silent(), keep=False))
    except TrainingError:  # the loss is the same on all workers, so that all end here together
        diverged = True
        trainer.settle()
    events = read_events(run / f"events-{rank}.jsonl")
    shutil.rmtree(run)
    labels = torch.bincount(shard.y[shard.train_mask], minlength=shard.num_classes).double()
    trainer.runner.peers.all_reduce(labels, "sum of the labels", account=None)
    best, epochs = trainer.progress.best, [event for event in events if event["event"] == "epoch"]
    return {
        "val": best.get("val", 0.0),
        "test": best.get("test", 0.0),
        "best_epoch": trainer.progress.best_epoch,
        "diverged": diverged,
        "blind_loss": round(float(-torch.special.xlogy(labels, labels / labels.sum()).sum() / labels.sum()), 5),
        "losses": [round(event["loss"], 5) for event in epochs if event["loss"] is not None],
        "curve": [[event["epoch"] + 1, round(event["val"], 5)] for event in events if event["event"] == "eval"],
        "epoch_cpu_seconds": (time.process_time() - start) / max(1, len(epochs)),
    }
