"""The tensors of a launch, with the checks that make a kernel's faults visible.

Every access must be aligned and lie in an element of a tensor that was passed, and no byte that one block writes may be
read or written by another, because blocks run in any order.
"""

from __future__ import annotations

import ctypes

import numpy as np
import torch
from torch import Tensor

from tests.support.ptx.addresses import aligned, bytes_of, marked, values_of, wrong_access
from tests.support.ptx.lanes import Array, Lanes
from tests.support.ptx.program import Instruction

MANY = -1
"""Several blocks."""

Places = list[tuple["Region", Array, Array]]


class Region:
    """The memory of tensors that overlap: its bytes, which of them belong to a tensor, who wrote and who read them."""

    def __init__(self, start: int, stop: int) -> None:
        self.start = start
        self.stop = stop
        self.data = np.ctypeslib.as_array((ctypes.c_uint8 * (stop - start)).from_address(start))
        self.held = np.zeros(stop - start, bool)
        self.writer = np.zeros(stop - start, np.int64)
        self.reader = np.zeros(stop - start, np.int64)

    def hold(self, tensor: Tensor) -> None:
        """Let accesses reach the elements of ``tensor``, but not the gaps between its rows."""
        size = tensor.element_size()
        every = torch.zeros((self.stop - self.start) // size * size, dtype=torch.bool).view(-1, size)
        first = (tensor.data_ptr() - self.start) // size
        every[:, 0].as_strided(tensor.shape, [stride * size for stride in tensor.stride()], first * size).fill_(True)
        self.held[: every.numel()] |= every[:, :1].expand(-1, size).reshape(-1).numpy()


class Global:
    """The tensors that a kernel got."""

    def __init__(self, tensors: list[Tensor]) -> None:
        ends = sorted((t.data_ptr(), t.data_ptr() + extent(t), i) for i, t in enumerate(tensors) if t.numel())
        self.regions: list[Region] = []
        groups: list[tuple[int, int, list[int]]] = []
        for start, stop, i in ends:
            if groups and start < groups[-1][1]:
                before = groups.pop()
                groups.append((before[0], max(before[1], stop), [*before[2], i]))
            else:
                groups.append((start, stop, [i]))
        for start, stop, which in groups:
            region = Region(start, stop)
            for i in which:
                region.hold(tensors[i])
            self.regions.append(region)

    def places(self, lanes: Lanes, at: Array, width: int, active: Array, one: Instruction) -> Places:
        """The threads that reach each region, and the bytes they reach there, ``[n, width]``; raises outside of all."""
        aligned(lanes, at, width, active, one)
        found, seen = [], np.zeros(lanes.count, bool)
        for region in self.regions:
            here = np.flatnonzero(active & (at >= region.start) & (at + width <= region.stop))
            if not here.size:
                continue
            cells = at[here, None] - region.start + np.arange(width)
            seen[here] = region.held[cells].all(1)
            found.append((region, here, cells))
        if bool((active & ~seen).any()):
            raise wrong_access("OUT OF BOUNDS", lanes, at, active & ~seen, one)
        return found

    def load(self, lanes: Lanes, at: Array, width: int, count: int, active: Array, one: Instruction) -> list[Array]:
        """``count`` adjacent numbers of ``width`` bytes for every thread, uint64."""
        result = np.zeros((count, lanes.count), np.uint64)
        for region, here, cells in self.places(lanes, at, width * count, active, one):
            block = lanes.block[here, None] + 1
            other = (region.writer[cells] != 0) & (region.writer[cells] != block)
            if bool(other.any()):
                raise wrong_access(
                    "RACE, a block reads what another one writes", lanes, at, marked(lanes, here[other.any(1)]), one
                )
            reader = region.reader[cells]
            region.reader[cells] = np.where((reader == 0) | (reader == block), block, MANY)
            region.reader[cells[region.reader[cells] != block]] = MANY  # several blocks in this instruction
            for i in range(count):
                result[i, here] = values_of(region.data[cells[:, i * width : (i + 1) * width]])
        return list(result)

    def store(self, lanes: Lanes, at: Array, width: int, values: list[Array], active: Array, one: Instruction) -> None:
        """Write adjacent numbers of ``width`` bytes of every thread."""
        for region, here, cells in self.places(lanes, at, width * len(values), active, one):
            block = lanes.block[here, None] + 1
            new = np.concatenate([bytes_of(value[here], width) for value in values], 1)
            for known, what in ((region.writer, "writes"), (region.reader, "reads")):
                other = (known[cells] != 0) & (known[cells] != block)
                if bool(other.any()):
                    place = marked(lanes, here[other.any(1)])
                    raise wrong_access(f"RACE, a block writes what another one {what}", lanes, at, place, one)
            region.writer[cells] = block
            region.data[cells] = new
            if bool((region.writer[cells] != block).any()):
                raise wrong_access("RACE, a block writes what another one writes", lanes, at, marked(lanes, here), one)
            if bool((region.data[cells] != new).any()):
                raise wrong_access("RACE, threads write different values", lanes, at, marked(lanes, here), one)


def extent(tensor: Tensor) -> int:
    """Bytes from the first element of ``tensor`` to the end of its last."""
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return (last + 1) * tensor.element_size()
