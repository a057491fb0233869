"""The image of a safetensors file: its bytes, copied from tensors into memory that serves the next file again.

The copy is all that a run waits for when it is saved; the image is written to disk while the run goes on.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping

import torch
from torch import Tensor

from halowire.files import BLOCK

DTYPES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64",
    torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL",
}  # fmt: skip
"""The names of types in safetensors files."""
ALIGNED = 64
"""The values of a file begin at a multiple of so many bytes."""
LENGTH = 8
"""Bytes of the number that a file begins with: the length of the header after it."""


class TensorImage:
    """Memory for the bytes of one safetensors file after another."""

    def __init__(self) -> None:
        self._memory = torch.empty(0, dtype=torch.uint8)

    def take(self, tensors: Mapping[str, Tensor]) -> memoryview:
        """The bytes of a file with copies of ``tensors``; they are valid until the next call."""
        # Values of wide types first: then every tensor begins at a multiple of its type's size.
        order = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
        header, ends = _header({name: tensors[name] for name in order})
        size = len(header) + (ends[-1] if ends else 0)
        if self._memory.numel() < size:
            self._memory = _aligned_memory(size)
        values = self._memory[len(header) : size]
        self._memory[: len(header)] = torch.frombuffer(bytearray(header), dtype=torch.uint8)
        for name, start, end in zip(order, [0, *ends], ends, strict=False):
            tensor = tensors[name].detach()
            values[start:end].view(tensor.dtype).view(tensor.shape).copy_(tensor)
        return self._memory[:size].numpy().data


def _aligned_memory(size: int) -> Tensor:
    """Memory of ``size`` bytes that begins where a disk can take its blocks from."""
    memory = torch.empty(size + BLOCK, dtype=torch.uint8)
    start = -memory.data_ptr() % BLOCK
    return memory[start : start + size]


def _header(tensors: Mapping[str, Tensor]) -> tuple[bytes, list[int]]:
    """The header of a file, and where the values of every tensor end, counted from the header's end."""
    entries, ends, start = {}, [], 0
    for name, tensor in tensors.items():
        end = start + tensor.numel() * tensor.element_size()
        entries[name] = {"dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [start, end]}
        ends.append(end)
        start = end
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-(LENGTH + len(text)) % ALIGNED)
    return struct.pack("<Q", len(text)) + text, ends
