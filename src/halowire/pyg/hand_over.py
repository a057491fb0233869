"""What `fit` hands to its workers: the user's model and what belongs to it, and each worker's part of the graph."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn

from halowire.partitioning import read_shard
from halowire.pyg.by_value import pack_by_value, read_by_value, write_by_value, write_packed
from halowire.pyg.own_model import LossFunction
from halowire.pyg.shard_data import local_tensors
from halowire.pyg.unpackable import refuse_unpackable
from halowire.training.job import Job
from halowire.training.link_task import Decoder
from halowire.wire import RowCodec

Given = TypeVar("Given")


@dataclass(frozen=True)
class HandOver:
    """The model, its loss or decoder, the names of its inputs, and the codec."""

    model: nn.Module
    loss: LossFunction | None
    inputs: tuple[str, ...] | None
    decoder: Decoder | None = None
    codec: RowCodec | None = None

    def packed(self) -> bytes:
        """As bytes for the workers; what cannot be handed over is refused here, before anything else is done."""
        try:
            return pack_by_value(
                HandOver(cpu_copy(self.model), self.loss, self.inputs, cpu_copy(self.decoder), self.codec)
            )
        except Exception as error:  # a user's class may raise anything when it is copied
            given = {"model": self.model, "loss": self.loss, "decoder": self.decoder, "codec": self.codec}
            raise refuse_unpackable(given, error) from error

    @staticmethod
    def read(folder: Path) -> HandOver:
        """What the program that started this worker left in ``folder``."""
        given: HandOver = read_by_value(_model_file(folder))
        return given


def hand_over(folder: Path, job: Job, tensors: Mapping[str, Any], num_nodes: int, packed: bytes) -> None:
    """Write every worker's part of ``tensors`` and the ``packed`` model to ``folder``, where only the workers look."""
    write_packed(packed, _model_file(folder))
    shards = [read_shard(job.shards, rank, verify=False) for rank in range(job.workers)]
    owner = torch.empty(num_nodes, dtype=torch.int64)
    for shard in shards:
        owner[shard.rows] = shard.rank
    for shard in shards:
        write_by_value(local_tensors(tensors, owner, shard), _part_file(folder, shard.rank))


def read_tensors(folder: Path, rank: int) -> dict[str, Any]:
    """The part of the graph's tensors that worker ``rank`` was handed in ``folder``."""
    tensors: dict[str, Any] = read_by_value(_part_file(folder, rank))
    return tensors


def cpu_copy(value: Given) -> Given:
    """A copy of ``value`` on the CPU where it is a module; functions and None as they are."""
    return copy.deepcopy(value).cpu() if isinstance(value, nn.Module) else value


def _part_file(folder: Path, rank: int) -> Path:
    return folder / f"part-{rank}"


def _model_file(folder: Path) -> Path:
    return folder / "model"
