"""What an exchange keeps between epochs: message buffers, and the state of delta coding and smoothing."""

from __future__ import annotations

import torch
from torch import Tensor


class Memory:
    """Reused byte buffers (not part of the state), and named float32 matrices that start at zero (checkpointed)."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._buffers: dict[tuple[object, ...], Tensor] = {}
        self.matrices: dict[str, Tensor] = {}
        self.applied: dict[str, int] = {}

    def buffer(self, nbytes: int, *key: object) -> Tensor:
        """uint8 ``[nbytes]``, the same memory for the same ``key``."""
        buffer = self._buffers.get(key)
        if buffer is None or buffer.numel() < nbytes:
            buffer = torch.empty(nbytes, dtype=torch.uint8, device=self._device)
            self._buffers[key] = buffer
        return buffer[:nbytes]

    def matrix(self, name: str, rows: int, columns: int) -> Tensor:
        """float32 ``[rows, columns]`` that lives as long as the exchange."""
        if name not in self.matrices:
            self.matrices[name] = torch.zeros(rows, columns, device=self._device)
        return self.matrices[name]

    def is_new(self, name: str, epoch: int) -> bool:
        """Whether the message of ``epoch`` was not applied to ``name`` yet; from now on it was."""
        new = epoch > self.applied.get(name, -1)
        self.applied[name] = max(epoch, self.applied.get(name, -1))
        return new
