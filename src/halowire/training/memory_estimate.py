"""How much memory a worker's share of a run needs on its device, worked out before anything is put there.

For ``n`` owned rows, ``h`` halo rows, ``s`` sent rows, ``e`` edges, ``F`` features and layers of ``w`` columns, in
values of float32 (4 bytes); where partial sums travel, ``h`` and ``s`` count them in the place of rows:

    features      x, A x or those of the halo, and the messages that brought them: ``F (n + max(n, h) + h + s)``
    edges         matrices and transposes with int32 columns and weights, and bounds of rows: ``4 e + 3 (3 n + h)``;
                  where partial sums travel, the sums of the sender too: ``4 h + 3 s``
    halo rows     decoded rows of the widest layer, and those that delta coding and smoothing remember of every layer;
                  partial sums before they are sent
    copies        of halo rows whose first hidden rows are computed here: their features, the sums over their
                  neighbours, their rows and gradients, ``h (F + F + 2 w + 2 w)``
    activations   of every layer what backward reads: rows that enter, activated rows, aggregate; up to ``3 n w``
    gradients     of the rows, in the layer that backward works at: ``4 n w``
    optimiser     every weight, its gradient, Adam's two moments, and the best weights so far
    buffers       messages of every layer, sent and received, there and back: ``2 (h + s) w`` at the rate of the wire
    temporaries   of torch's operations, where they stand in for kernels: ``8 n w``, for attention ``3 e w``

In a pipeline every stage has its share of the layers, each layer keeps ``3 n w`` more, and gradients and temporaries
are those of one chunk.

What torch, the driver and their libraries take (some hundred MiB on a GPU) is theirs: what is free is asked for after
they have taken it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import nn

from halowire.errors import InputError, size_text
from halowire.kernels import Csr
from halowire.layers import Layer, Model
from halowire.partitioning import Shard
from halowire.schedules import Mesh, Stage
from halowire.training.config import Config
from halowire.training.crossing_rows import CrossingRows
from halowire.training.first_layer_choice import against_home
from halowire.training.model_setup import build_model, output_width, sends_undropped
from halowire.training.row_age import sends_narrow
from halowire.training.worker_memory import free_memory

FACTOR = 1.5
"""The estimate is at most this much above or below what a run of a model of this library takes."""
VALUE = 4
"""Bytes of a float32 value."""
SPARSE_ENTRY = 2 * (4 + 4)
"""Bytes of an entry of sparse features: its column and its value, in the matrix and in its transpose."""
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
    optimiser: int
    halo_rows: int = 0
    copies: int = 0
    activations: tuple[int, ...] = ()
    gradients: int = 0
    buffers: int = 0
    temporaries: int = 0
    whole: bool = True
    """Whether all that a run needs is counted, and not only what is known of the user's own model."""
    trains: bool = True
    """Whether the run trains: otherwise the settings that make it smaller are given already."""

    def of_predictions(self) -> MemoryEstimate:
        """What the predictions of a trained model need: no backward, so that activations of one layer are held, of the
        weights themselves and those that were read, and messages in one direction."""
        held = max(self.activations, default=0)
        weights = 2 * self.optimiser // COPIES
        return replace(
            self, activations=(held,), gradients=0, optimiser=weights, buffers=self.buffers // 2, trains=False
        )

    def parts(self) -> dict[str, int]:
        """Bytes by name."""
        return {
            "features": self.features, "edges": self.edges, "halo rows": self.halo_rows,
            "copies of halo rows for the first layer": self.copies,
            f"activations of {len(self.activations)} layers": sum(self.activations), "gradients": self.gradients,
            "optimiser": self.optimiser, "buffers": self.buffers, "temporaries": self.temporaries,
        }  # fmt: skip

    @property
    def total(self) -> int:
        """All of it."""
        return sum(self.parts().values())

    def words(self) -> str:
        """All parts, as a list in a message."""
        return ", ".join(f"{name} {size_text(nbytes)}" for name, nbytes in self.parts().items() if nbytes)

    def sentence(self, device: torch.device) -> str:
        """What is needed on ``device``, and what is not counted."""
        if self.whole:
            return f"about {size_text(self.total)} of memory on {device} ({self.words()})"
        more = "what the layers of your own model keep, and their messages, are not counted"
        return f"at least {size_text(self.total)} of memory on {device} ({self.words()}; {more})"


def estimate(train: Shard, whole: Shard, config: Config, mesh: Mesh, twins: bool) -> MemoryEstimate:
    """What the run of ``config`` needs for one worker that trains on ``train`` and evaluates on ``whole``.

    ``twins``: torch's operations stand in for kernels. Of a pipeline it is what a stage needs in the mean.
    """
    sizes = train.num_features, output_width(config, train.num_classes)
    model = build_model(config.model, *sizes, config.seed, sends_narrow(config))
    stage = Stage.of(model, 0, len(model.blocks), sends_undropped(config))
    shards = [train] if train is whole else [train, whole]
    widths = [layer.width for layer in stage.layers]
    layers = stage.layers[: max(1, round(len(stage.layers) / mesh.stages))]
    widest = max([*(segment.width for segment in stage.segments), *widths, *(one.sum_width for one in stage.layers)])
    n, chunks = whole.num_owned, mesh.chunks
    history = HISTORY if chunks > 1 else 0
    rows = CrossingRows.of(train, config)
    crossing = config.rate.rows * (rows.arriving + rows.sent)
    local = config.wire.first_layer == "local" and mesh.parts > 1 and not against_home(config)
    flights = 1 if config.freshness.mode == "fresh" else 2
    last = stage.segments[-1].width if stage.output is None else stage.output.width
    weights = sum(parameter.numel() for parameter in model.parameters())
    return MemoryEstimate(
        features=sum(_features(shard, model, CrossingRows.of(shard, config), local) for shard in shards),
        edges=sum(_edges(shard, CrossingRows.of(shard, config)) for shard in shards),
        halo_rows=VALUE * _halo_values(config, widths, train, rows) // mesh.stages,
        copies=sum(_copies(shard, stage, model.aggregates_input, rows.summed) for shard in shards) if local else 0,
        activations=(*(VALUE * n * _kept(layer, history) for layer in layers), VALUE * n * 2 * last),
        gradients=VALUE * AT_ONCE * n * widest // chunks,
        optimiser=VALUE * COPIES * weights // mesh.stages,
        buffers=round(2 * flights * config.rate.bits / 8 * crossing * sum(widths[local:])) // mesh.stages,
        temporaries=VALUE * _temporary_values(config, model, whole, widest) // chunks if twins else 0,
    )


def _features(shard: Shard, model: Model, crossing: CrossingRows, local: bool) -> int:
    """Features, their sums, and the messages that brought those of the halo.

    Where partial sums travel and copies need the rows themselves, these come without a message that is kept.
    """
    if isinstance(shard.x, Csr):
        rows = shard.num_owned + (shard.num_halo if model.aggregates_input else 0)
        return round(SPARSE_ENTRY * _entries_of_a_row(shard.x) * rows)
    rows = shard.num_owned
    if model.aggregates_input:
        rows += max(shard.num_owned, crossing.arriving)
        rows += 0 if local and crossing.summed else crossing.arriving + crossing.sent
    return VALUE * shard.num_features * rows


def _entries_of_a_row(x: Csr) -> float:
    return x.nnz / max(x.num_rows, 1)


def _edges(shard: Shard, crossing: CrossingRows) -> int:
    """The matrices of owned and of halo rows, each with its transpose: int32 columns, weights, two forms of bounds.

    An edge that is part of a partial sum is an entry on the worker that adds it up, in the place of one here.
    """
    entries, rows = shard.num_edges, 3 * shard.num_owned + crossing.arriving
    if crossing.summed:
        entries += crossing.arriving
        rows += crossing.sent
    return 2 * (VALUE + VALUE) * entries + (8 + VALUE) * rows


def _copies(shard: Shard, stage: Stage, aggregates: bool, summed: bool) -> int:
    """Copies of the halo rows, from features to the rows that the first layer would send, and their gradients.

    The sums over the neighbours of a sparse row have the entries of all of them, and at most one in every column. Where
    partial sums travel in later layers, the edges from the halo rows themselves are kept too.
    """
    halo, x = shard.num_halo, shard.x
    of_rows = 2 * halo * (stage.segments[0].width + stage.layers[0].width)
    kept = VALUE * of_rows + (2 * (VALUE + VALUE) * shard.halo.nnz if summed else 0)
    if isinstance(x, Csr):
        entries = _entries_of_a_row(x)
        neighbours = 1 + shard.num_edges / max(shard.num_owned, 1) if aggregates else 0
        return kept + round(SPARSE_ENTRY * halo * (entries + min(x.num_cols, entries * neighbours)))
    matrices = 2 * halo if aggregates else halo
    if not aggregates and not summed:  # features cross the border for the copies alone, by a message that is kept
        matrices += halo + shard.send_index.numel()
    return kept + VALUE * shard.num_features * matrices


def _halo_values(config: Config, widths: list[int], shard: Shard, crossing: CrossingRows) -> int:
    """Values of halo rows: those that have just been decoded or added up, and what is remembered between epochs."""
    values = (crossing.arriving + (crossing.sent if crossing.summed else 0)) * max(widths, default=0)
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
    crossing = CrossingRows(shard.num_halo, shard.send_index.numel(), summed=False)
    return MemoryEstimate(
        features=VALUE * shard.num_features * rows,
        edges=_edges(shard, crossing),
        optimiser=VALUE * COPIES * weights,
        whole=False,
    )


def placed_memory(features: int, edges: int) -> MemoryEstimate:
    """What a part needs at least whose tensors of nodes and of edges have so many bytes, in a loop of one's own."""
    return MemoryEstimate(features=features, edges=edges, optimiser=0, whole=False)


def refuse_too_large(found: MemoryEstimate, device: torch.device, rank: int, warn: Callable[[str], None]) -> None:
    """Refuse a run that cannot fit into the memory of ``device``, which is not the CPU; warn of one that may not.

    The need of a run can lie below the estimate by `FACTOR`, but not below what is counted of the user's own model.
    """
    free = free_memory(device)
    needed, there = found.sentence(device), size_text(free)
    too_large = found.total > (FACTOR if found.whole else 1.0) * free
    if too_large and not found.trains:
        raise InputError(f"rank {rank} needs {needed}, but {there} are free; use --device cpu")
    if too_large:
        smaller = "a smaller --model.hidden, fewer --model.layers" if found.whole else "a smaller model"
        raise InputError(
            f"rank {rank} needs {needed}, but {there} are free; use more workers, {smaller}, or --device cpu"
        )
    if found.total > free:
        warn(f"rank {rank} needs {needed}, but {there} are free: it may end for lack of memory")
