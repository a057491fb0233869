"""The memory that the threads of a block share: a byte must not pass between warps without a barrier in between."""

from __future__ import annotations

import numpy as np

from tests.support.ptx.addresses import bytes_of, marked, values_of, wrong_access
from tests.support.ptx.lanes import Array, Lanes
from tests.support.ptx.program import Instruction


class Shared:
    """The shared memory of every block, and which warps wrote and read a byte since the last barrier, as bits."""

    def __init__(self, blocks: int, size: int) -> None:
        self.data = np.zeros((blocks, size), np.uint8)
        self.writers = np.zeros((blocks, size), np.int64)
        self.readers = np.zeros((blocks, size), np.int64)

    def barrier(self, blocks: Array) -> None:
        """All warps of ``blocks`` have met: what was written before may be read after."""
        self.writers[blocks] = 0
        self.readers[blocks] = 0

    def load(self, lanes: Lanes, at: Array, width: int, active: Array, one: Instruction) -> Array:
        """A number of ``width`` bytes for every thread, uint64."""
        result = np.zeros(lanes.count, np.uint64)
        for here, cells, bit in self._warps(lanes, at, width, active, one):
            if bool((self.writers[cells] & ~bit != 0).any()):
                raise wrong_access(
                    "RACE, a warp reads what another one wrote before a barrier", lanes, at, marked(lanes, here), one
                )
            self.readers[cells] |= bit
            result[here] = values_of(self.data[cells])
        return result

    def store(self, lanes: Lanes, at: Array, width: int, values: Array, active: Array, one: Instruction) -> None:
        """Write a number of ``width`` bytes of every thread; several warps may write the same value."""
        for here, cells, bit in self._warps(lanes, at, width, active, one):
            new = bytes_of(values[here], width)
            others = (self.writers[cells] | self.readers[cells]) & ~bit
            if bool(((others != 0) & (self.data[cells] != new)).any()):
                raise wrong_access(
                    "RACE, a warp changes what another one uses before a barrier", lanes, at, marked(lanes, here), one
                )
            self.writers[cells] |= bit
            self.data[cells] = new
            if bool((self.data[cells] != new).any()):
                raise wrong_access("RACE, a warp writes different values", lanes, at, marked(lanes, here), one)

    def _warps(
        self, lanes: Lanes, at: Array, width: int, active: Array, one: Instruction
    ) -> list[tuple[Array, tuple[Array, Array], int]]:
        """For each warp of a block: its threads, the bytes they reach, and the warp's bit."""
        outside = active & ((at < 0) | (at + width > self.data.shape[1]))
        if bool(outside.any()):
            raise wrong_access(f"OUT OF BOUNDS of {self.data.shape[1]} shared bytes", lanes, at, outside, one)
        found = []
        for warp in range(int(lanes.warp.max()) + 1):
            here = np.flatnonzero(active & (lanes.warp == warp))
            if here.size:
                cells = lanes.block[here, None], at[here, None] + np.arange(width)
                found.append((here, cells, 1 << warp))
        return found
