"""All threads of all blocks of a launch, and their registers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tests.support.ptx.program import KernelError

Array = NDArray[np.generic]
UNSIGNED = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
SIGNED = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}
FLOAT = {32: np.float32, 64: np.float64}
WARP = 32


def type_of(kind: str) -> type[np.generic]:
    """The numpy type of a PTX type such as ``s32``, ``b8`` or ``f32``."""
    table = {"s": SIGNED, "f": FLOAT, "u": UNSIGNED, "b": UNSIGNED}[kind[0]]
    return table[int(kind[1:])]


class Lanes:
    """The registers of every thread; a register is a vector over all threads, of uint64, or of bool for predicates."""

    def __init__(self, grid: tuple[int, int, int], threads: int) -> None:
        blocks = grid[0] * grid[1] * grid[2]
        self.count = blocks * threads
        self.block = np.repeat(np.arange(blocks), threads)
        self.thread = np.tile(np.arange(threads), blocks)
        self.warp = self.thread // WARP
        self._registers: dict[str, Array] = {}
        self._special = {"%tid.x": self.thread, "%laneid": self.thread % WARP}
        number = self.block
        for axis, size in zip("xyz", grid, strict=True):
            self._special[f"%ctaid.{axis}"] = number % size
            self._special[f"%nctaid.{axis}"] = np.full(self.count, size)
            number = number // size

    def raw(self, operand: str) -> Array:
        """The operand's bits, uint64 ``[threads]``; bool for a predicate."""
        if operand in self._special:
            return self._special[operand].astype(np.uint64)
        if operand.startswith("%"):
            if operand not in self._registers:
                raise KernelError(f"register {operand} is read before it is written")
            return self._registers[operand]
        if operand.startswith("0f"):
            value = int(operand[2:], 16)
        elif operand == "global_smem":
            value = 0
        else:
            value = int(operand.rstrip("U"), 0) & (2**64 - 1)
        return np.full(self.count, value, np.uint64)

    def read(self, operand: str, kind: str) -> Array:
        """The operand as values of the PTX type ``kind``."""
        bits = self.raw(operand)
        if kind == "pred":
            return bits if bits.dtype == bool else bits != 0
        wanted = type_of(kind)
        return bits.astype(UNSIGNED[int(kind[1:])]).view(wanted)

    def write(self, operand: str, values: Array, active: Array) -> None:
        """Set a register of the ``active`` threads; ``values`` are of any type."""
        if operand == "_":
            return
        if values.dtype != bool:
            values = values.view(UNSIGNED[values.dtype.itemsize * 8]).astype(np.uint64)
        old = self._registers.get(operand)
        if old is None:
            old = np.zeros(self.count, values.dtype)
        self._registers[operand] = values.copy() if active.all() else np.where(active, values, old)
