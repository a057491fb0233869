"""The state of a run, which is saved and from which it goes on: weights, optimiser, progress, the wire's memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from halowire.errors import InputError
from halowire.training.checkpoint import (
    Progress,
    drop_checkpoint,
    load_wire,
    parse_checkpoint,
    read_newest,
    restore,
    save_checkpoint,
    save_wire,
)  # fmt: skip
from halowire.training.config import Config
from halowire.training.job import refuse_raised
from halowire.training.runner import Runner
from halowire.wire import GradientCodec, Transport

STEP, MOMENTS = "step", ("exp_avg", "exp_avg_sq")
FIXED = ("seed", "precision", "model", "optim", "rate", "freshness", "task", "recipe", "mesh")
"""Settings that a resumed run must share with the run that it continues."""


class RunState:
    """Saves the state of a run to its ``folder``, and puts it back; all workers call every method together.

    Rank 0 writes and reads the checkpoint, which holds the whole model. Every worker saves what its own wire remembers:
    the state of the runner's exchange, of the weight gradients' ``codec``, and of bits that follow the loss.
    """

    def __init__(
        self,
        runner: Runner,
        optimiser: torch.optim.Optimizer,
        codec: GradientCodec | None,
        config: Config,
        transport: Transport,
        folder: Path,
    ) -> None:
        self._runner = runner
        self._optimiser = optimiser
        self._codec = codec
        self._base = runner.exchange.policy.base
        self._config = config
        self._transport = transport
        self._folder = folder
        self.settings_before: dict[str, Any] = {}
        self._whole = _Whole(runner.model, runner.parameters, runner.peers, transport)
        self._wire_remembers = runner.remembers or codec is not None or self._base is not None

    def load(self) -> Progress | None:
        """Put back the newest checkpoint, which rank 0 reads and shares; return how far the run was, or None."""
        record, tensors = read_newest(self._folder) if self._transport.rank == 0 else (b"", b"")
        record = self._transport.broadcast_bytes(record, "sharing of the checkpoint")
        tensors = self._transport.broadcast_bytes(tensors, "sharing of the checkpoint")
        if not record:
            return None
        values, state = parse_checkpoint(record, tensors)
        self.settings_before = values["settings"]
        _refuse_changes(self.settings_before, self._settings())
        progress = restore(values, state, self._runner.model, self._optimiser, self._whole.own_places)
        if self._wire_remembers:
            self._load_wire(load_wire(self._folder, progress.epoch, self._transport.rank))
        return progress

    def save(self, progress: Progress) -> None:
        """Write a checkpoint of the run with its ``progress``."""
        if self._wire_remembers:
            codec = self._codec.state if self._codec else {}
            base = self._base.state() if self._base else {}
            wire = self._runner.state() | codec | base
            save_wire(self._folder, progress.epoch, self._transport.rank, wire)
        weights = self._whole.complete(self._runner.model.state_dict())
        moments = self._whole.optimiser(self._optimiser)
        best = progress.best_weights
        whole = replace(progress, best_weights=self._whole.complete(best) if best else {})
        if self._transport.rank == 0:
            save_checkpoint(self._folder, whole, weights, moments, self._settings())

    def drop(self, epoch: int) -> None:
        """Remove the checkpoint after ``epoch`` epochs, whose next epoch is not finite, unless it is the only one."""
        if self._transport.rank == 0:
            drop_checkpoint(self._folder, epoch)
        self._transport.barrier("removal of a checkpoint")

    def _load_wire(self, state: dict[str, Tensor]) -> None:
        weights = {name: value for name, value in state.items() if name.startswith("gradient.")}
        if self._codec is not None:
            self._codec.state = weights
        base = {name: value for name, value in state.items() if name.startswith("base.")}
        if self._base is not None:  # first, because the bits of the messages depend on it
            self._base.load_state(base)
        rest = state.keys() - weights.keys() - base.keys()
        self._runner.load_state({name: state[name] for name in rest})

    def _settings(self) -> dict[str, Any]:
        """The settings and facts that a resumed run must share with the run that it continues."""
        values = self._config.to_dict()
        fixed = {name: values[name] for name in FIXED}
        length = {"epochs": self._config.epochs} if self._config.spans_the_run else {}
        stages = {"split": list(self._runner.split)} if self._runner.split else {}
        return fixed | length | stages | {"graph": self._runner.shard.graph, "workers": self._transport.size}


def _refuse_changes(before: dict[str, Any], now: dict[str, Any]) -> None:
    refuse_raised(before["optim"]["lr"], now["optim"]["lr"])
    before = {**before, "optim": before["optim"] | {"lr": now["optim"]["lr"]}}
    for name, value in now.items():
        if before.get(name) != value:
            raise InputError(
                f"the run to resume had {name} = {before.get(name)}, now it is {value}; resume with the same settings, "
                "or train into a new folder"
            )


class _Whole:
    """Puts the whole model and optimiser together from the stages, each of which trains a part.

    ``own`` are the parameters that this worker trains, by name.
    """

    def __init__(self, model: nn.Module, own: dict[str, nn.Parameter], peers: Transport, transport: Transport) -> None:
        self._shapes = {name: value.shape for name, value in model.named_parameters() if value.requires_grad}
        self._names = list(self._shapes)
        self._own = list(own)
        self._everywhere = peers.size == transport.size
        self._speaks = peers.rank == 0
        self._transport = transport

    @property
    def own_places(self) -> list[int]:
        """The places of this worker's parameters among all that are trained."""
        return [self._names.index(name) for name in self._own]

    @torch.no_grad()
    def complete(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """``tensors`` with the values of other stages' parameters put in; all workers call this together.

        The first worker of every stage gives its tensors, the others give zeros, and all are added up. What nobody
        trains (buffers, frozen parameters) is the same everywhere and stays as it is.
        """
        if self._everywhere:
            return tensors
        flat = torch.zeros(sum(shape.numel() for shape in self._shapes.values()))
        pieces = torch.split(flat, [shape.numel() for shape in self._shapes.values()])
        places = dict(zip(self._names, pieces, strict=True))
        for name in self._own if self._speaks else ():
            if name in tensors:
                places[name].copy_(tensors[name].detach().reshape(-1))
        self._transport.all_reduce(flat, "gathering of the weights", account=None)
        return tensors | {name: piece.view(self._shapes[name]).clone() for name, piece in places.items()}

    def optimiser(self, optimiser: torch.optim.Optimizer) -> dict[int, dict[str, Tensor]]:
        """The state of Adam for all parameters, by their places in the model."""
        own = optimiser.state_dict()["state"]
        if self._everywhere:
            return dict(own)
        moments = {}
        for key in MOMENTS:
            moments[key] = self.complete({name: own[place][key] for place, name in enumerate(self._own) if own})
        if not own:  # no step was taken yet, or this stage has no parameters; rank 0, which writes, has parameters
            return {}
        return {
            place: {STEP: own[0][STEP].clone(), **{key: moments[key][name] for key in MOMENTS}}
            for place, name in enumerate(self._names)
        }
