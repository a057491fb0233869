"""The state of a run, which is saved and from which it goes on: weights, optimiser, progress, the wire's memory."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.events import SETUP
from halowire.training.adam import MOMENTS, STEP, Adam
from halowire.training.checkpoint import MANIFEST, RECORD, STATE, Manifest, Progress, wire_file
from halowire.training.checkpoint_choice import Found, find_checkpoint, parse_tensors
from halowire.training.checkpoint_writer import CheckpointWriter, Content
from halowire.training.config import Config
from halowire.training.generators import generator_states
from halowire.training.job import MESH_SHAPE, refuse_raised
from halowire.training.restoring import parse_progress, restore, understood
from halowire.training.rule import mesh_of
from halowire.training.runner import Runner
from halowire.training.save_times import SaveTimes
from halowire.training.telling import agreed
from halowire.wire import GradientCodec, Transport

FIXED = ("seed", "precision", "model", "optim", "rate", "freshness", "task", "recipe", "mesh")
"""Settings that a resumed run must share with the run that it continues."""
SHAPE = ("workers", "shape", "split", "savings", "machines")
"""Facts that a resumed run may change; then what the wire remembers is lost, and the graph may be cut again."""
SHARD = "shard"
"""The name of the tensor in a wire file that tells of which shard the wire is."""
PUT_BACK = "putting back of the checkpoint"
NOTES = 3
"""How many numbers :meth:`RunState.notes` gives."""


class RunState:
    """Saves the state of a run to its ``folder``, and puts it back; all workers call every method together.

    Rank 0 saves the whole model, the optimiser and the progress. Every worker saves what belongs to its shard: the
    state of the runner's exchange and of the weight gradients' ``codec``.

    Attributes:
        settings_before: the settings and facts of the run before it was resumed.
        recut: how the run was cut before it was resumed, in words, if that was in another way; else empty.
    """

    def __init__(
        self,
        runner: Runner,
        optimiser: Adam,
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
        self.recut = ""
        self._whole = _Whole(runner, transport)
        self._wire_remembers = runner.remembers or codec is not None
        self._writer = CheckpointWriter(folder, transport, config.checkpoint.keep)
        self._times = SaveTimes(config.checkpoint)

    def start(self) -> None:
        """Begin to save: try whether this folder can be written to, find out who shares it, remove left-overs, let the
        minutes run."""
        self._times.start()
        assert self._writer.folder

    @property
    def keeper(self) -> bool:
        """Whether this worker is the one of its folder that changes what does not belong to one worker alone."""
        return self._writer.folder.keeper

    def load(self, found: Found | None = None, warn: Callable[[str], None] = lambda text: None) -> Progress | None:
        """Put back the newest whole checkpoint, whose state rank 0 shares; return how far the run was, or None.

        ``found`` is that checkpoint, where it was looked for before.
        """
        found = found or find_checkpoint(self._folder, self._transport, warn)
        if found is None:
            return None
        self._writer.damaged.update(found.skipped)
        record = self._transport.broadcast_bytes(found.record, "sharing of the checkpoint")
        state = self._transport.broadcast_bytes(found.state, "sharing of the checkpoint")
        # One worker's file may be bad alone, and a stage reads only its own part: all hear of it before they go on.
        progress = agreed(lambda: self._put_back(found.manifest, record, state), self._transport, PUT_BACK)
        wire = agreed(lambda: parse_tensors(found.wire) if found.wire else {}, self._transport, PUT_BACK)
        if self._wire_remembers and not self.recut and not self._is_of_this_shard(wire):
            self.recut = "the shards are not those that the run was saved with"
        if self.recut:
            self._start_afresh(progress.epoch)
        elif self._wire_remembers:
            agreed(lambda: self._load_wire(wire), self._transport, PUT_BACK)
        return progress

    def _put_back(self, manifest: Manifest, record: bytes, state: bytes) -> Progress:
        """Compare the settings with those of the checkpoint, and put its shared state back."""
        tensors = parse_tensors(state)
        self.settings_before = manifest.settings
        now = self._settings()
        with understood(MANIFEST):
            _refuse_changes(self.settings_before, now)
            self.recut = _recut_words(self.settings_before, now)
        progress = parse_progress(record, manifest.epoch)
        restore(progress, tensors, self._runner.model, self._optimiser, self._whole.own_part, self._runner.device)
        if self._base is not None:  # before the wire, because the bits of its messages depend on it
            with understood(STATE):
                self._base.load_state({name: value for name, value in tensors.items() if name.startswith("base.")})
        return progress

    def notes(self) -> list[float]:
        """What the other workers must hear with the sums of an epoch; :meth:`hear` takes the sums of all workers."""
        return [*self._writer.notes(), float(self._transport.rank == 0 and self._times.minutes_over())]

    def hear(self, epoch: int, notes: list[float]) -> bool:
        """Go on with the checkpoint that is being written; return whether a new one is due after ``epoch`` epochs.

        Raises the error of a worker that could not write, on all workers.
        """
        busy, failed, minutes_over = notes
        self._writer.advance(busy, failed)
        return self._times.due(epoch, minutes_over > 0)

    def save(self, progress: Progress) -> None:
        """Copy the state of the run with its ``progress``, and begin to write a checkpoint of it."""
        files: dict[str, Content] = {}
        if self._wire_remembers:
            codec = self._codec.state if self._codec else {}
            files[wire_file(self._transport.rank)] = self._runner.state() | codec | {SHARD: self._shard_mark()}
        weights = self._whole.complete(self._runner.model.state_dict())
        moments = self._whole.optimiser(self._optimiser)
        best = progress.best_weights
        whole = replace(progress, best_weights=self._whole.complete(best) if best else {})
        if self._transport.rank == 0:
            base = self._base.state() if self._base else {}
            files |= _shared_files(whole, weights, moments, base, generator_states(self._runner.device))
        self._writer.begin(progress.epoch, self._settings(), files, self._wire_remembers)

    def finish(self) -> None:
        """Wait until the checkpoint that was begun is published."""
        self._writer.finish()

    def drop(self, epoch: int) -> None:
        """Remove the checkpoint after ``epoch`` epochs if there is one before it.

        A checkpoint whose very next epoch is not finite leads nowhere, whatever the learning rate: the step before it
        was too large already.
        """
        self._writer.drop(epoch)

    def _load_wire(self, state: dict[str, Tensor]) -> None:
        weights = {name: value for name, value in state.items() if name.startswith("gradient.")}
        rest = state.keys() - weights.keys() - {SHARD}
        with understood(wire_file(self._transport.rank)):
            if self._codec is not None:
                self._codec.state = weights
            self._runner.load_state({name: state[name] for name in rest})

    def _start_afresh(self, epoch: int) -> None:
        """Let the wire begin as at the start of a run: the next epoch uses its own rows."""
        if self._codec is not None:
            self._codec.state = {}
        self._runner.start_afresh(epoch, self._config.seed)

    def _shard_mark(self) -> Tensor:
        """A checksum of the nodes that this worker owns and needs, in their order."""
        shard = self._runner.shard
        return torch.tensor([zlib.crc32(ids.contiguous().numpy().data) for ids in (shard.ids, shard.halo_ids)])

    def _is_of_this_shard(self, wire: dict[str, Tensor]) -> bool:
        """Whether the saved wires of all workers belong to the shards that they have now."""
        same = SHARD in wire and torch.equal(wire[SHARD], self._shard_mark())
        others = torch.tensor([float(not same)])
        return not self._transport.all_reduce(others, "comparison of the shards", SETUP)

    def _settings(self) -> dict[str, Any]:
        """The settings and facts of the run that a resumed run compares with its own."""
        values = self._config.to_dict()
        fixed = {name: values[name] for name in FIXED}
        fixed["mesh"] = {name: value for name, value in values["mesh"].items() if f"mesh.{name}" not in MESH_SHAPE}
        length = {"epochs": self._config.epochs} if self._config.spans_the_run else {}
        stages = {"split": list(self._runner.split)} if self._runner.split else {}
        size = self._transport.size
        shape = {"workers": size, "shape": asdict(mesh_of(self._config, size))}
        if self._transport.machines.shared:
            shape["machines"] = list(self._transport.machines.of)
        facts = {"graph": self._runner.shard.graph, "savings": self._runner.savings.chosen}
        return fixed | length | stages | shape | facts


def _shared_files(
    progress: Progress,
    weights: dict[str, Tensor],
    optimiser: dict[int, dict[str, Tensor]],
    base: dict[str, Tensor],
    random: dict[str, Tensor],
) -> dict[str, Content]:
    """The files that all workers go on from; ``optimiser`` is keyed by the places of the parameters in the model.

    ``base`` is the state of the base bit, ``random`` that of the generators.
    """
    tensors = {f"model.{name}": value for name, value in weights.items()}
    tensors |= {f"best.{name}": value for name, value in progress.best_weights.items()}
    for index, state in optimiser.items():
        tensors |= {f"optim.{index}.{name}": value for name, value in state.items()}
    tensors |= base | random
    plain = {key: value for key, value in vars(progress).items() if key != "best_weights"}
    return {STATE: tensors, RECORD: json.dumps({"progress": plain}, indent=1).encode()}


def _refuse_changes(before: dict[str, Any], now: dict[str, Any]) -> None:
    refuse_raised(before["optim"]["lr"], now["optim"]["lr"])
    before = {**before, "optim": before["optim"] | {"lr": now["optim"]["lr"]}}
    for name, value in now.items():
        if name not in SHAPE and before.get(name) != value:
            raise InputError(
                f"the run to resume had {name} = {before.get(name)}, now it is {value}; resume with the same settings, "
                "or train into a new folder"
            )


def _recut_words(before: dict[str, Any], now: dict[str, Any]) -> str:
    """How many workers, or which mesh, the run had before and has now; empty if they are the same."""
    if before["workers"] != now["workers"]:
        return f"the run had {before['workers']} workers, now {now['workers']}"
    if before["shape"] != now["shape"]:
        then, this = (" x ".join(f"{count} {name}" for name, count in one["shape"].items()) for one in (before, now))
        return f"the run had a mesh of {then}, now {this}"
    if before.get("split") != now.get("split"):
        return f"the stages had {before.get('split')} layers, now {now.get('split')}"
    if before.get("machines") != now.get("machines"):
        return f"the machines of the workers were {before.get('machines')}, now they are {now.get('machines')}"
    if before.get("savings", now["savings"]) != now["savings"]:
        return "the rows that need not travel are others than before"
    return ""


class _Whole:
    """Puts the whole model and optimiser together from the stages, each of which trains a part, and from the workers,
    each of which has the rows of its own nodes of weights that have a row for each node."""

    def __init__(self, runner: Runner, transport: Transport) -> None:
        self._shapes = {name: value.shape for name, value in runner.model.named_parameters() if value.requires_grad}
        self._names = list(self._shapes)
        self._own = list(runner.parameters)
        self._everywhere = runner.peers.size == transport.size
        self._speaks = runner.peers.rank == 0
        self._runner = runner
        self._transport = transport

    def own_part(self, place: int, state: dict[str, Tensor]) -> tuple[int, dict[str, Tensor]] | None:
        """The place of parameter ``place`` of the model among this worker's, and its part of the optimiser's ``state``.

        None where this worker does not train it.
        """
        name = self._names[place]
        if name not in self._own:
            return None
        if name in self._runner.row_weights:
            state = {key: self._runner.own_rows(name, value) if value.dim() else value for key, value in state.items()}
        return self._own.index(name), state

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

    def optimiser(self, optimiser: Adam) -> dict[int, dict[str, Tensor]]:
        """The state of Adam for all parameters, by their places in the model."""
        own = optimiser.states
        if self._everywhere:
            # All workers go through the state in one order, whatever order it was put back in.
            return {place: self._with_all_rows(self._own[place], own[place]) for place in sorted(own)}
        moments = {}
        for key in MOMENTS:
            moments[key] = self.complete({name: own[place][key] for place, name in enumerate(self._own) if own})
        if not own:  # no step was taken yet, or this stage has no parameters; rank 0, which writes, has parameters
            return {}
        return {
            place: {STEP: own[0][STEP].clone(), **{key: moments[key][name] for key in MOMENTS}}
            for place, name in enumerate(self._names)
        }

    def _with_all_rows(self, name: str, state: dict[str, Tensor]) -> dict[str, Tensor]:
        if name not in self._runner.row_weights:
            return state
        return {
            key: self._runner.whole_rows(name, value) if value.dim() else value for key, value in sorted(state.items())
        }
