"""`fit` hands to its workers the user's model, its loss, decoder and codec, and each worker's part of the graph."""

from __future__ import annotations

import copy
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn

from halowire.errors import InputError
from halowire.partitioning import Shard, read_shard
from halowire.pyg.by_value import pack_by_value, read_by_value, write_packed
from halowire.pyg.data_part import ShardData
from halowire.pyg.hetero_data import HeteroShardData
from halowire.pyg.hetero_fit import TypedLocal, TypedTensors
from halowire.pyg.own_model import LossFunction
from halowire.pyg.shard_data import local_tensors, place_data
from halowire.training import Decoder, Job
from halowire.wire import RowCodec, Transport

Given = TypeVar("Given")
DEEPEST = 12
"""How many levels of pieces are searched for the one that cannot be packed."""


@dataclass(frozen=True)
class HandOver:
    """The model, its loss or decoder, the names of its inputs, the codec, and the names of weights of nodes."""

    model: nn.Module
    loss: LossFunction | None
    inputs: tuple[str, ...]
    decoder: Decoder | None = None
    codec: RowCodec | None = None
    node_weights: tuple[str, ...] | None = None

    def packed(self) -> bytes:
        """This object as bytes for the workers; a piece that cannot be packed is refused, before any other work."""
        try:
            return pack_by_value(replace(self, model=cpu_copy(self.model), decoder=cpu_copy(self.decoder)))
        except Exception as error:  # a user's class may raise anything when it is copied
            given = {"model": self.model, "loss": self.loss, "decoder": self.decoder, "codec": self.codec}
            raise _unpackable(given, error) from error

    @staticmethod
    def read(folder: Path) -> HandOver:
        """Read what the program that started this worker handed over in ``folder``."""
        given: HandOver = read_by_value(folder / "model")
        return given


def hand_over(folder: Path, job: Job, tensors: Mapping[str, Any] | TypedTensors, num_nodes: int, packed: bytes) -> None:
    """Write every worker's part of ``tensors`` and the ``packed`` model to ``folder``, which only the workers read."""
    write_packed(packed, folder / "model")
    shards = [read_shard(job.shards, rank) for rank in range(job.workers)]
    if isinstance(tensors, TypedTensors):
        for rank, part in enumerate(tensors.parts(shards)):
            write_packed(pack_by_value(part), folder / f"part-{rank}")
        return
    owner = torch.empty(num_nodes, dtype=torch.int64)
    for shard in shards:
        owner[shard.rows] = shard.rank
    for shard in shards:
        write_packed(pack_by_value(local_tensors(tensors, owner, shard)), folder / f"part-{shard.rank}")


def read_data(folder: Path, shard: Shard, transport: Transport, device: torch.device) -> ShardData | HeteroShardData:
    """The worker's part of the graph, whose tensors ``folder`` holds, on ``device``; ``shard`` is its part on disk."""
    tensors: dict[str, Any] | TypedLocal = read_by_value(folder / f"part-{shard.rank}")
    if isinstance(tensors, TypedLocal):
        return tensors.placed(shard, transport, device)
    return place_data(shard, tensors, transport, device)


def cpu_copy(value: Given) -> Given:
    """A copy of a module on the CPU; functions and None are returned unchanged."""
    return copy.deepcopy(value).cpu() if isinstance(value, nn.Module) else value


def _unpackable(pieces: Mapping[str, Any], error: Exception) -> InputError:
    """The error to raise when packing raised ``error``; ``pieces`` are keyed by the names that the user knows."""
    for name, value in pieces.items():
        if (why := _obstacle(value)) is not None:
            path, kind, why = _culprit(value, name, why, DEEPEST)
            return InputError(
                f"{path} is a {kind}, which cannot be handed to the workers ({why}); make it where it is used, or "
                "leave it out of what is pickled (__getstate__)"
            )
    return InputError(
        f"what fit was given cannot be copied for the workers ({_words(error)}); remove what is bound to this process"
    )


def _culprit(value: Any, name: str, why: str, depth: int) -> tuple[str, str, str]:
    """The innermost piece of ``value`` that cannot be packed: how to reach it, its type, and the reason."""
    for piece, inner in _pieces(value, name) if depth else ():
        if (found := _obstacle(inner)) is not None:
            return _culprit(inner, piece, found, depth - 1)
    return name, type(value).__name__, why


def _pieces(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """The pieces of ``value``, each with the expression that reaches it."""
    if isinstance(value, Mapping):
        yield from ((f"{name}[{key!r}]", inner) for key, inner in value.items())
    elif isinstance(value, list | tuple | set | frozenset):
        yield from ((f"{name}[{place}]", inner) for place, inner in enumerate(value))
    elif isinstance(value, types.MethodType):
        yield f"{name}.__self__", value.__self__
    elif isinstance(value, types.FunctionType):
        yield from _used_by(value, name)
    else:
        if isinstance(value, nn.Module):
            yield from ((f"{name}.{key}", inner) for key, inner in value.named_children())
        own = getattr(value, "__dict__", {})
        hidden = ("_modules", "_parameters", "_buffers")
        yield from ((f"{name}.{key}", inner) for key, inner in own.items() if key not in hidden)
        if type(value).__module__ == "__main__":
            for key, inner in vars(type(value)).items():
                if isinstance(inner, types.FunctionType):
                    yield from _used_by(inner, f"{name}.{key}")


def _used_by(function: types.FunctionType, name: str) -> Iterator[tuple[str, Any]]:
    """The values that a function uses beside its arguments."""
    for key, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        if key != "__class__":
            yield f"{key} of {name}", cell.cell_contents
    if function.__module__ == "__main__":
        for key in function.__code__.co_names:
            if key in function.__globals__:
                yield f"{key} of {name}", function.__globals__[key]


def _obstacle(value: Any) -> str | None:
    """Why ``value`` cannot be packed; None where it can."""
    try:
        pack_by_value(value)
    except Exception as error:  # what a user's __getstate__ raises may be anything
        return _words(error)
    return None


def _words(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
