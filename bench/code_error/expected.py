"""What the formulas of docs/theory.md expect of a code, evaluated on given rows; written out slowly, in float64."""

from __future__ import annotations

import torch
from torch import Tensor

from halowire.wire import Rate


def squared_error(rows: Tensor, rate: Rate) -> float:
    """``E |h' - h|^2`` summed over the rows ``[n, k]``: over the random numbers of ``minmax`` and ``clipped``, over the
    subsets of columns; ``levels`` draws nothing, so that it is the error itself up to the bf16 of the levels."""
    if rate.ratio > 1 and rate.bits != 32:
        raise ValueError(f"the formula for columns is for float32 values, not for {rate.bits} bits")
    if rate.bits == 32:
        lost = 1 - rate.columns(rows.shape[1]) / rows.shape[1]
        return lost * float(rows.double().square().sum())
    if rate.code == "levels":
        return _levels(rows.double())
    if rate.code == "clipped":
        return _clipped(rows.double())
    low, high = _outwards(rows.amin(1, keepdim=True), -1), _outwards(rows.amax(1, keepdim=True), 1)
    return _minmax(rows.double(), low, high, 2**rate.bits - 1)


def _outwards(value: Tensor, way: int) -> Tensor:
    """The nearest bf16 that is not above (``way`` -1) or not below (1) the value."""
    near = value.bfloat16()
    beyond = torch.nextafter(near, torch.full_like(near, way * torch.inf))
    return torch.where((near.float() - value) * way < 0, beyond, near).double()


def _minmax(rows: Tensor, low: Tensor, high: Tensor, steps: int) -> float:
    """``s^2 f (1 - f)`` with ``s = (hi - lo) / L`` and ``f`` the fraction of ``(h - lo) / s``."""
    step = (high - low) / steps
    place = torch.where(step > 0, (rows - low) / step.clamp(min=1e-300), torch.zeros_like(rows))
    fraction = place - place.floor()
    return float((step.square() * fraction * (1 - fraction)).sum())


def _side_means(rows: Tensor) -> list[tuple[Tensor, Tensor]]:
    """The values below the row's mean, as a mask, and their mean; the same of those above."""
    upper = rows > rows.mean(1, keepdim=True)
    sides = (~upper, upper)
    return [(side, (rows * side).sum(1, keepdim=True) / side.sum(1, keepdim=True).clamp(min=1)) for side in sides]


def _levels(rows: Tensor) -> float:
    """What the split at the mean does not explain: the squares around the means of either side."""
    return sum(float(((rows - centre) * side).square().sum()) for side, centre in _side_means(rows))


def _clipped(rows: Tensor) -> float:
    """``(h - lo') (hi' - h)`` between the ends, the square of the distance beyond them."""
    (_, below), (_, above) = _side_means(rows)
    middle, reach = (below + above) / 2, 1.5 * (above - below) / 2
    low = torch.maximum(middle - reach, rows.amin(1, keepdim=True))
    high = torch.minimum(middle + reach, rows.amax(1, keepdim=True))
    inside = rows.clamp(low, high)
    return float(((inside - low) * (high - inside) + (rows - inside).square()).sum())
