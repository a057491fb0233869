"""A watch over one pass of a model finds the first place where values are not finite.

A pass that is watched runs the segments as always and looks at every matrix that they write. This costs a pass over
every matrix, so only an epoch that went wrong is run again under a watch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from halowire.layers import Entry, Kept, Layer, Output, Rows, Segment
from halowire.schedules.stage import Stage

AFTER_ALL_LAYERS = 1 << 30


class Spot(NamedTuple):
    """A place in a pass; spots are ordered as a pass reaches them, backward after forward."""

    backward: bool
    step: int
    part: int = 0


@dataclass(frozen=True)
class Sighting:
    """``count`` values that are not finite, at ``spot``, which ``where`` says in words."""

    spot: Spot
    where: str
    count: int


class Watch:
    """Counts the values that are not finite, by the place in the pass where they were seen."""

    def __init__(self) -> None:
        self._seen: dict[Spot, Sighting] = {}

    def look(self, spot: Spot, where: str, values: Tensor) -> None:
        """Look at the ``values`` of a spot; a spot may be looked at several times, some rows each time."""
        count = count_not_finite(values)
        if count:
            before = self._seen.get(spot, Sighting(spot, where, 0))
            self._seen[spot] = replace(before, count=before.count + count)

    @property
    def first(self) -> Sighting | None:
        """The values that are not finite at the place that the pass reached first; None: all values were finite."""
        return self._seen[min(self._seen)] if self._seen else None


def count_not_finite(values: Tensor) -> int:
    """How many of ``values`` are NaN or infinite."""
    return int(values.numel() - torch.isfinite(values).sum())


def watched(stage: Stage, watch: Watch) -> Stage:
    """``stage`` with segments that show ``watch`` everything they write."""
    segments: Sequence[Segment] = [WatchedSegment(**vars(segment), watch=watch) for segment in stage.segments]
    return replace(stage, segments=tuple(segments))


@dataclass(frozen=True, eq=False)
class WatchedSegment(Segment):
    """A segment that shows a watch what it writes.

    Layers are counted as in the ledger: layer 0 reads the input features.
    """

    watch: Watch

    def finish(self, rows: Rows, kept: Kept | None, initial: Tensor | None, u: Tensor, own: bool = True) -> None:
        """Write ``u`` and look at it."""
        super().finish(rows, kept, initial, u, own)
        if self.first is not None:  # rows from another stage were looked at there
            number = _number(self.first)
            self.watch.look(Spot(False, number, 1), f"the output of layer {number}, forward,", u)

    def prepare(self, rows: Rows, kept: Kept | None, a: Tensor | None) -> None:
        """Write ``a`` and look at it."""
        super().prepare(rows, kept, a)
        if self.second is not None and a is not None:
            number = _number(self.second)
            name = "the model's output" if isinstance(self.second, Output) else f"what layer {number} sums up"
            self.watch.look(Spot(False, number), f"{name}, forward,", a)

    def prepare_back(
        self, rows: Rows, kept: Kept | None, a_grad: Tensor | None, u_grad: Tensor, out_grad: Tensor | None, adds: bool
    ) -> None:
        """Look at the gradient of ``a``, write that of ``u``, and look at it."""
        number = AFTER_ALL_LAYERS if self.second is None else _number(self.second)
        summed, entering = f"what layer {number} sums up", f"what enters layer {number}"
        if number == AFTER_ALL_LAYERS:
            summed, entering = "the model's output", "the last hidden rows"
        back = AFTER_ALL_LAYERS - number
        if a_grad is not None:  # first, because the gradient of ``u`` may be written to the same memory
            self.watch.look(Spot(True, back), f"the gradient of {summed}, backward,", a_grad)
        super().prepare_back(rows, kept, a_grad, u_grad, out_grad, adds)
        self.watch.look(Spot(True, back, 1), f"the gradient of {entering}, backward,", u_grad)


def _number(piece: Layer | Entry | Output) -> int:
    """The number of a layer; the entry is layer 0, the output comes after all layers."""
    if isinstance(piece, Layer):
        return piece.number
    return 0 if isinstance(piece, Entry) else AFTER_ALL_LAYERS
