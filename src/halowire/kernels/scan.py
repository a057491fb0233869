"""Looks for the first value that an array must not hold: outside a range, not finite, or falling.

Native code looks for all three while it computes a checksum (see `look.py`), and for the first one also alone.
"""

from __future__ import annotations

import torch
from torch import Tensor

from halowire.kernels.dispatch import check_vector, native_for, run

WHOLE = (torch.int64, torch.int32, torch.uint8, torch.bool)


def first_outside(values: Tensor, low: int, high: int) -> int | None:
    """The first place whose value is not in ``low .. high - 1``; None where there is none.

    ``values`` are int64, int32, uint8 or bool ``[n]``; of a bool its byte counts, which a file may have set to any.
    """
    check_vector("values", values, WHOLE)
    native = native_for(values)
    if native is None:
        return first_outside_twin(values, low, high)
    return found(run(native.scan_range, values, values.element_size(), values.numel(), low, high))


def found(place: int) -> int | None:
    """The answer of native code, where -1 stands for no place."""
    return None if place < 0 else place


def first_outside_twin(values: Tensor, low: int, high: int) -> int | None:
    """:func:`first_outside` in torch."""
    numbers = (values.view(torch.uint8) if values.dtype == torch.bool else values).long()
    return first_true((numbers < low) | (numbers >= high))


def first_not_finite_twin(values: Tensor, positive: bool) -> int | None:
    """The first place whose value is NaN or infinite, or below zero where ``positive``; float32 ``[n]``."""
    bad = ~values.isfinite()
    return first_true(bad | (values < 0) if positive else bad)


def first_fall_twin(values: Tensor, before: int, high: int) -> int | None:
    """The first place whose value is below the one before it, ``before`` for the first, or not below ``high``."""
    earlier = torch.cat([torch.tensor([before]), values[:-1]])
    return first_true((values < earlier) | (values >= high))


def first_true(bad: Tensor) -> int | None:
    """The first place where ``bad`` is true; None where there is none."""
    return int(bad.nonzero()[0]) if bool(bad.any()) else None
