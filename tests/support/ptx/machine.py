"""Runs a program: all threads of all blocks in step, the ones that are furthest behind first."""

from __future__ import annotations

import re
import struct
from typing import Any

import numpy as np
from torch import Tensor

from tests.support.ptx.addresses import aligned, offset_of
from tests.support.ptx.arithmetic import compute
from tests.support.ptx.global_memory import Global
from tests.support.ptx.lanes import Array, Lanes
from tests.support.ptx.program import Instruction, KernelError, Program, members
from tests.support.ptx.shared_memory import Shared
from tests.support.ptx.warps import matrices, reduce, shuffle

MOST_STEPS = 500_000


def execute(program: Program, grid: tuple[int, ...], arguments: list[Any], shared_bytes: int) -> None:
    """Run ``program`` on ``grid`` blocks; tensors among the ``arguments`` are read and written where they are.

    Triton's kernels have two more parameters, for scratch memory, which these kernels do not use: they are 0.
    """
    x, y, z = (*grid, 1, 1)[:3]
    tensors = [value for value in arguments if isinstance(value, Tensor)]
    values = [in_bits(value) for value in arguments]
    values += [0] * (len(program.parameters) - len(values))
    machine = Machine(program, (x, y, z), values, Global(tensors), shared_bytes)
    machine.run()


def in_bits(value: Any) -> int:
    """An argument as the bits that a kernel gets: an address, a float32 or an integer."""
    if isinstance(value, Tensor):
        return value.data_ptr()
    if isinstance(value, float):
        return int(struct.unpack("<I", struct.pack("<f", value))[0])
    return int(value)


class Machine:
    """One launch of a program."""

    def __init__(
        self, program: Program, grid: tuple[int, int, int], values: list[int], memory: Global, shared_bytes: int
    ) -> None:
        self._program = program
        self._lanes = Lanes(grid, program.threads)
        self._memory = memory
        self._shared = Shared(grid[0] * grid[1] * grid[2], max(shared_bytes, 1))
        self._parameters = {
            name: value & (256**size - 1) for (name, size), value in zip(program.parameters, values, strict=True)
        }
        self._next = np.zeros(self._lanes.count, np.int64)
        self._alive = np.ones(self._lanes.count, bool)

    def run(self) -> None:
        """Execute until every thread has returned."""
        for _ in range(MOST_STEPS):
            if not self._alive.any():
                return
            place = int(self._next[self._alive].min())
            if place >= len(self._program.code):
                return
            active = self._alive & (self._next == place)
            self._next[active] = place + 1
            one = self._program.code[place]
            if one.guard is not None:
                active = active & (self._lanes.read(one.guard, "pred") ^ one.negated)
            self._step(one, active)
        raise KernelError(f"{self._program.name} has not ended after {MOST_STEPS} steps")

    def _step(self, one: Instruction, active: Array) -> None:
        name = one.parts[0]
        if name == "bra":
            self._next[active] = self._program.labels[one.operands[0]]
        elif name == "ret":
            self._alive[active] = False
        elif name == "bar":
            if one.parts[1] != "warp":
                self._meet(one, active)
        elif name in ("ld", "st"):
            self._access(one, active)
        elif name == "shfl":
            shuffle(self._lanes, one, active)
        elif name == "redux":
            reduce(self._lanes, one, active)
        elif name in ("ldmatrix", "stmatrix"):
            matrices(self._lanes, self._shared, one, active)
        else:
            compute(self._lanes, one, active)

    def _meet(self, one: Instruction, active: Array) -> None:
        """A barrier, which all threads of a block must reach together."""
        blocks = np.unique(self._lanes.block[active])
        waiting = self._alive & np.isin(self._lanes.block, blocks)
        if bool((waiting != active).any()):
            raise KernelError(f"only some threads of a block reach {one}")
        self._shared.barrier(blocks)

    def _access(self, one: Instruction, active: Array) -> None:
        """A load or a store."""
        lanes, load, space = self._lanes, one.parts[0] == "ld", one.parts[1]
        if space == "param":
            name = re.match(r"\[\s*(\w+)", one.operands[1])
            assert name is not None
            lanes.write(one.operands[0], np.full(lanes.count, self._parameters[name[1]], np.uint64), active)
            return
        width = int(one.kind[1:]) // 8
        target, place = one.operands if load else reversed(one.operands)
        names, at = members(target), offset_of(lanes, place)
        if space == "global":
            if load:
                found = self._memory.load(lanes, at, width, len(names), active, one)
                for name_of, value in zip(names, found, strict=True):
                    lanes.write(name_of, value, active)
            else:
                self._memory.store(lanes, at, width, [lanes.raw(name_of) for name_of in names], active, one)
        elif space == "shared":
            aligned(lanes, at, width * len(names), active, one)
            for i, name_of in enumerate(names):
                if load:
                    lanes.write(name_of, self._shared.load(lanes, at + i * width, width, active, one), active)
                else:
                    self._shared.store(lanes, at + i * width, width, lanes.raw(name_of), active, one)
        else:
            raise KernelError(f"the executor does not know {one}")
