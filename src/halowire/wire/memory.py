"""What an exchange keeps between epochs: message buffers, and the memory of delta coding and smoothing."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.kernels import delta_step, empty


class Memory:
    """Reused byte buffers (not part of the state), and named float32 matrices that start at zero (checkpointed)."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._buffers: dict[tuple[object, ...], Tensor] = {}
        self.matrices: dict[str, Tensor] = {}
        self.applied: dict[str, int] = {}

    def buffer(self, nbytes: int, *key: object) -> Tensor:
        """A buffer, uint8 ``[nbytes]``; the same ``key`` gives the same memory."""
        buffer = self._buffers.get(key)
        if buffer is None or buffer.numel() < nbytes:
            buffer = torch.empty(nbytes, dtype=torch.uint8, device=self._device)
            self._buffers[key] = buffer
        return buffer[:nbytes]

    def matrix(self, name: str, rows: int, columns: int) -> Tensor:
        """The matrix ``name``, float32 ``[rows, columns]``, which lives as long as the exchange."""
        if name not in self.matrices:
            self.matrices[name] = torch.zeros(rows, columns, device=self._device)
        found = self.matrices[name]
        if found.shape != (rows, columns) or found.dtype != torch.float32:  # native code would read beyond its end
            raise InputError(
                f"the checkpoint's {name} is {found.dtype} {list(found.shape)}, expected torch.float32 "
                f"[{rows}, {columns}]; put the files back from a copy, or train anew"
            )
        return found

    def is_new(self, name: str, epoch: int) -> bool:
        """Whether the message of ``epoch`` is new to the matrix ``name``; from now on it counts as applied."""
        new = epoch > self.applied.get(name, -1)
        self.applied[name] = max(epoch, self.applied.get(name, -1))
        return new


@dataclass(frozen=True)
class Delta:
    """Delta coding: rows travel as their change from a memory ``m`` that both ends hold, at first 0.

    ``Q(h - g m)`` travels; the receiver uses ``r = g m + Q(h - g m)``, and both ends go on from
    ``m <- g m + a Q(h - g m)``, with the ``decay`` ``g`` and the ``gain`` ``a``. With a code whose error is smaller
    than its input (``levels``) and ``a = 1``, ``m`` approaches rows that stand still. The error of an unbiased code
    (``minmax`` at one bit) may be several times as large as its input, and with ``a = 1`` errors would pile up.
    With a small gain (Mishchenko et al. 2019) ``m`` still approaches the row, ``r`` is unbiased in every epoch, and its
    noise shrinks with ``h - m``.
    """

    decay: float
    gain: float = 1.0

    def change(self, rows: Tensor, kept: Tensor) -> Tensor:
        """The change that travels, ``h - g m``."""
        # A fresh matrix of this size would cost ten times the subtraction, in page faults.
        return torch.sub(rows, kept, alpha=self.decay, out=empty(kept.shape[0], kept.shape[1], device=kept.device))

    def step(self, kept: Tensor, values: Tensor, columns: Tensor | None) -> None:
        """``m <- g m + a values``, rounded in the same way on every machine; columns not sent stay."""
        delta_step(kept, values, self.decay, self.gain, columns)

    def rows(self, kept: Tensor, values: Tensor, columns: Tensor | None) -> Tensor:
        """``r = g m + values``: the memory after :meth:`step`, ``kept``, plus ``(1 - a) values``."""
        if self.gain == 1:
            return kept
        rows = empty(kept.shape[0], kept.shape[1], device=kept.device).copy_(kept)
        add_columns(rows, columns, values, 1 - self.gain)
        return rows


def add_columns(out: Tensor, columns: Tensor | None, part: Tensor, factor: float = 1.0) -> None:
    """``out[:, columns] += factor part``; None: all columns."""
    if columns is None:
        out.add_(part, alpha=factor)
    else:
        out.index_add_(1, columns, part, alpha=factor)


def check_shapes(state: dict[str, Tensor], **rows: int) -> None:
    """Refuse a memory of delta coding that has not the ``rows`` of a shard by direction, or its layer's columns."""
    columns: dict[str, int] = {}
    for way, count in rows.items():
        for name in (name for name in state if name.startswith(f"delta.{way}.")):
            shape = tuple(state[name].shape)
            layer = name.rpartition(".")[2]
            if len(shape) != 2 or shape[0] != count or columns.setdefault(layer, shape[1]) != shape[1]:
                want = f"[{count}, {columns.get(layer, 'columns of the layer')}]"
                raise ValueError(f"{name} is {list(shape)}, expected {want}")
