"""What one worker process does for `halowire.fit`: train the user's model on its part and predict."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from halowire.exchange import RowCodec
from halowire.kernels.random import stream_key
from halowire.launch import Place, choose_device, joined, set_threads, stop_wish
from halowire.launch.by_value import read_by_value
from halowire.nn.foreign.layer_path import NATIVE, foreign_overlap
from halowire.nn.foreign.shard_data import place_data
from halowire.partition import read_manifest
from halowire.report import Console
from halowire.train.distribute import layer_paths
from halowire.train.job import PREDICTIONS, Job
from halowire.train.link_task import Decoder
from halowire.train.loop import Hooks, Trainer
from halowire.train.own_model import LossFunction, own_runner
from halowire.train.predict import gather_predictions
from halowire.worker import Narrator, link_task, read_part, write_results


@dataclass(frozen=True)
class HandOver:
    """What the program hands to its workers: the model, its loss or decoder, its inputs, and the codec."""

    model: nn.Module
    loss: LossFunction | None
    inputs: tuple[str, ...] | None
    decoder: Decoder | None = None
    codec: RowCodec | None = None


def part_file(folder: Path, rank: int) -> Path:
    """Where a worker finds the tensors of its part."""
    return folder / f"part-{rank}"


def model_file(folder: Path) -> Path:
    """Where a worker finds the model."""
    return folder / "model"


def fit_worker(job: Job, folder: Path) -> dict[str, Any]:
    """Train this worker's part of ``job`` with what ``folder`` holds; the summary."""
    place = Place.here()
    device = choose_device(job.config.device, place)
    set_threads(job.config.threads, place)
    console = Console(quiet=job.quiet or place.rank > 0)
    given: HandOver = read_by_value(model_file(folder))
    with joined(device, job.config.deadline) as (transport, _), stop_wish() as wish:
        # Dropout of a foreign model draws from torch's generator: another stream on every worker, the same every run.
        torch.manual_seed(stream_key(job.config.seed, 0, 0, transport.rank) >> 1)
        part = read_part(job, transport)
        data = place_data(part, read_by_value(part_file(folder, transport.rank)), transport, device)
        links = link_task(job, part, transport, device, _on(given.decoder, device))
        runner = own_runner(given.model, data, job.config, given.loss, given.inputs, links, given.codec)
        trainer = Trainer(runner, None, job.config, transport, job.run)
        if job.resume:
            trainer.resume()
        with console.progress(job.config.epochs, f"{job.graph} {job.config.recipe}", runner.task.metric) as bar:
            summary = trainer.run(Hooks(Narrator(bar), wish))
        summary |= {"partition": read_manifest(job.shards).get("quality"), "model": type(given.model).__name__}
        paths = layer_paths(given.model)
        summary |= {"native_layers": [name for name, layer in paths.items() if layer.path == NATIVE]}
        summary |= {"layer_paths": {name: layer.record() for name, layer in paths.items()}}
        if transport.size > 1:
            summary |= {"overlap": foreign_overlap(paths)}
        if job.config.rate.decay >= 0 and runner.exchange.policy.decay is None:
            summary |= {"rows_as_they_are": True}
        if given.codec is not None:
            summary |= {"codec": type(given.codec).__name__}
        if trainer.progress.best_weights:
            runner.model.load_state_dict(trainer.progress.best_weights)
        found = gather_predictions(trainer.logits(), runner, transport)
        if found is not None:
            np.save(job.run / PREDICTIONS, found[0].numpy(), allow_pickle=False)
            write_results(job, summary, console)
    return summary


def _on(decoder: Decoder | None, device: torch.device) -> Decoder | None:
    return decoder.to(device) if isinstance(decoder, nn.Module) else decoder
