"""How much memory a worker's share of a run needs on its device, worked out before anything is put there.

For ``n`` owned rows, ``h`` halo rows, ``s`` sent rows, ``e`` edges, ``F`` features and layers of ``w`` columns, in
values of float32 (4 bytes):

    features      x, A x or those of the halo, and the messages that brought them: ``F (n + max(n, h) + h + s)``
    edges         matrices and transposes with int32 columns and weights, and bounds of rows: ``4 e + 3 (3 n + h)``
    halo rows     decoded rows of the widest layer, and those that delta coding and smoothing remember of every layer
    activations   of every layer what backward reads: rows that enter, activated rows, aggregate; up to ``3 n w``
    gradients     of the rows, in the layer that backward works at: ``4 n w``
    optimiser     every weight, its gradient, Adam's two moments, and the best weights so far
    buffers       messages of every layer, sent and received, there and back: ``2 (h + s) w`` at the rate of the wire
    temporaries   of torch's operations, where they stand in for kernels: ``8 n w``, for attention ``3 e w``
    copies        where the first layer is computed at home, features and sums of the halo, and rows: ``h (2 F + 4 w)``

In a pipeline every stage has its share of the layers, each layer keeps ``3 n w`` more, and gradients and temporaries
are those of one chunk.

What torch, the driver and their libraries take (some hundred MiB on a GPU) is theirs: what is free is asked for after
they have taken it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from halowire.errors import InputError, size_text
from halowire.kernels import Csr
from halowire.layers import Layer, Model
from halowire.partitioning import Shard
from halowire.schedules import Mesh, Stage
from halowire.training.config import Config
from halowire.training.home_price import home_memory
from halowire.training.model_setup import build_model, output_width
from halowire.training.worker_memory import free_memory

FACTOR = 1.5
"""The estimate is at most this much above or below what a run of a model of this library takes."""
VALUE = 4
"""Bytes of a float32 value."""
COPIES = 5
"""Of every weight: the weight, its gradient, two moments of Adam, and the best weights so far."""
AT_ONCE = 4
"""Matrices of gradients of the rows that backward holds at once: of ``u``, ``v``, ``a`` and ``g``."""
HISTORY = 3
"""Rows that every layer of a pipeline keeps beside its activations: historical ones, and those at its borders."""
TEMPORARIES = 8
"""Matrices that torch's operations for activation, dropout and codes write beside their results."""
FINEST_CODE = 16
"""Rows of this many bits and more travel without random numbers."""


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes that a worker's share of a run needs on its device, by what they are for."""

    features: int
    edges: int
    halo_rows: int
    activations: tuple[int, ...]
    gradients: int
    optimiser: int
    buffers: int
    temporaries: int
    copies: int = 0

    def parts(self) -> dict[str, int]:
        """Bytes by name."""
        return {
            "features": self.features, "edges": self.edges, "halo rows": self.halo_rows,
            f"activations of {len(self.activations)} layers": sum(self.activations), "gradients": self.gradients,
            "optimiser": self.optimiser, "buffers": self.buffers, "temporaries": self.temporaries,
            "copies of the halo": self.copies,
        }  # fmt: skip

    @property
    def total(self) -> int:
        """All of it."""
        return sum(self.parts().values())

    def words(self) -> str:
        """All parts, as a list in a message."""
        return ", ".join(f"{name} {size_text(nbytes)}" for name, nbytes in self.parts().items() if nbytes)


def estimate(
    train: Shard, whole: Shard, config: Config, mesh: Mesh, twins: bool, at_home: bool = False
) -> MemoryEstimate:
    """What the run of ``config`` needs for one worker that trains on ``train`` and evaluates on ``whole``.

    ``twins``: torch's operations stand in for kernels; ``at_home``: the halo's first rows are computed at home. Of a
    pipeline it is what a stage needs in the mean.
    """
    model = build_model(config.model, train.num_features, output_width(config, train.num_classes), config.seed)
    stage = Stage.of(model, 0, len(model.blocks), config.rate.decay >= 0)
    shards = [train] if train is whole else [train, whole]
    widths = [layer.width for layer in stage.layers]
    layers = stage.layers[: max(1, round(len(stage.layers) / mesh.stages))]
    widest = max([*(segment.width for segment in stage.segments), *widths, *(one.sum_width for one in stage.layers)])
    n, chunks = whole.num_owned, mesh.chunks
    history = HISTORY if chunks > 1 else 0
    crossing = config.rate.rows * (train.num_halo + train.send_index.numel())
    flights = 1 if config.freshness.mode == "fresh" else 2
    last = stage.segments[-1].width if stage.output is None else stage.output.width
    weights = sum(parameter.numel() for parameter in model.parameters())
    return MemoryEstimate(
        features=sum(_features(shard, model) for shard in shards),
        edges=sum(_edges(shard) for shard in shards),
        halo_rows=VALUE * _halo_values(config, widths, train) // mesh.stages,
        activations=(*(VALUE * n * _kept(layer, history) for layer in layers), VALUE * n * 2 * last),
        gradients=VALUE * AT_ONCE * n * widest // chunks,
        optimiser=VALUE * COPIES * weights // mesh.stages,
        buffers=round(2 * flights * config.rate.bits / 8 * crossing * sum(widths)) // mesh.stages,
        temporaries=VALUE * _temporary_values(config, model, whole, widest) // chunks if twins else 0,
        copies=sum(home_memory(shard, stage) for shard in shards) if at_home else 0,
    )


def _features(shard: Shard, model: Model) -> int:
    if isinstance(shard.x, Csr):
        return 2 * 2 * VALUE * shard.x.nnz  # its columns and values, and those of its transpose
    rows = shard.num_owned
    if model.aggregates_input:
        rows += max(shard.num_owned, shard.num_halo) + shard.num_halo + shard.send_index.numel()
    return VALUE * shard.num_features * rows


def _edges(shard: Shard) -> int:
    """The matrices of owned and of halo rows, each with its transpose: int32 columns, weights, two forms of bounds."""
    rows = 3 * shard.num_owned + shard.num_halo
    return 2 * (VALUE + VALUE) * shard.num_edges + (8 + VALUE) * rows


def _halo_values(config: Config, widths: list[int], shard: Shard) -> int:
    """Values of halo rows: those that have just been decoded, and what is remembered from epoch to epoch."""
    values = shard.num_halo * max(widths, default=0)
    if config.rate.decay >= 0:
        values += (shard.num_halo + shard.num_boundary) * sum(widths)
    if config.freshness.smoothing:
        values += 2 * shard.num_halo * sum(widths)
    return values


def _temporary_values(config: Config, model: Model, shard: Shard, widest: int) -> int:
    """Values that torch's operations write beside their results: of activations, of codes, or of edges."""
    rows, coded = shard.num_owned, config.rate.bits < FINEST_CODE
    if coded:
        rows = max(rows, shard.num_halo, shard.send_index.numel())
    rows *= TEMPORARIES if coded or config.model.dropout or config.model.norm != "none" else 2
    edges = shard.num_edges + shard.num_owned if model.takes_heads else 0
    return max(rows, 3 * edges) * widest


def _kept(layer: Layer, history: int) -> int:
    """Values of a row that forward keeps of ``layer``: what enters it, its activation if read again, the aggregate.

    ``history`` counts the further rows that a layer whose rows move in chunks keeps.
    """
    entering = layer.out_width if layer.width > layer.out_width else layer.width
    activated = entering if layer.needs_v or layer.multiplies else 0
    return entering + activated + (1 + history) * layer.sum_width


def least(shard: Shard, model: nn.Module) -> MemoryEstimate:
    """What a run of the user's own ``model`` needs at least: the rows that its layers keep are not known."""
    rows = shard.num_owned + shard.num_halo
    weights = sum(parameter.numel() for parameter in model.parameters())
    return MemoryEstimate(VALUE * shard.num_features * rows, _edges(shard), 0, (), 0, VALUE * COPIES * weights, 0, 0)


def refuse_too_large(
    found: MemoryEstimate, device: torch.device, rank: int, warn: Callable[[str], None], factor: float = FACTOR
) -> None:
    """Refuse a run that cannot fit into the memory of ``device``, which is not the CPU; warn of one that may not.

    ``factor`` says how far the run's need can lie below the estimate.
    """
    free = free_memory(device)
    needed = f"{size_text(found.total)} of memory on {device} ({found.words()})"
    if found.total > factor * free:
        raise InputError(
            f"rank {rank} needs about {needed}, but {size_text(free)} are free; use more workers, a smaller "
            "--model.hidden, fewer --model.layers, or --device cpu"
        )
    if found.total > free:
        warn(f"rank {rank} needs about {needed}, but {size_text(free)} are free: it may end for lack of memory")
