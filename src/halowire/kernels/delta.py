"""The step of delta coding's memory, rounded in the same way on every machine and device."""

from __future__ import annotations

import torch
from torch import Tensor

from halowire.kernels.buffers import empty
from halowire.kernels.dispatch import adjacent, triton_for


def delta_step(kept: Tensor, values: Tensor, decay: float, gain: float, columns: Tensor | None = None) -> None:
    """``kept[:, columns] <- decay kept[:, columns] + gain values``, two products and one sum, each of them rounded.

    Args:
        kept: float32 ``[n, k]``, changed in place.
        values: float32 ``[n, k]``, or ``[n, k']`` with ``columns``.
        decay, gain: numbers that float32 holds with the same rounding everywhere.
        columns: integer ``[k']``, all different; the others stay. None: all columns.
    """
    gpu = triton_for(values.shape[1], kept, values, columns)
    if gpu is not None and adjacent(kept, values):
        gpu.delta_step(kept, values, decay, gain, columns)
        return
    if gain != 1:
        on_cpu = values.device.type == "cpu"
        values = torch.mul(values, gain, out=empty(*values.shape) if on_cpu else None)
    if columns is None:
        kept.mul_(decay).add_(values)
    else:
        kept[:, columns] = (kept[:, columns] * decay).add_(values)
