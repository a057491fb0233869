"""The operations in which the threads of a warp exchange values: shuffles, reductions, matrices of 8 by 8 halves."""

from __future__ import annotations

import re

import numpy as np

from tests.support.ptx.addresses import offset_of
from tests.support.ptx.lanes import WARP, Array, Lanes
from tests.support.ptx.program import Instruction, KernelError, members
from tests.support.ptx.shared_memory import Shared


def whole_warps(lanes: Lanes, one: Instruction, active: Array) -> None:
    """Raise unless every warp takes part with all its threads or with none."""
    together = active.reshape(-1, WARP)
    if bool((together.any(1) != together.all(1)).any()):
        raise KernelError(f"only some threads of a warp reach {one}")


def shuffle(lanes: Lanes, one: Instruction, active: Array) -> None:
    """Every thread reads a register of another thread of its warp."""
    whole_warps(lanes, one, active)
    value, lane = lanes.raw(one.operands[1]), np.arange(lanes.count)
    distance = lanes.read(one.operands[2], "u32").astype(np.int64)
    if one.parts[2] == "bfly":
        source = lane ^ distance
    elif one.parts[2] == "idx":
        source = lane // WARP * WARP + distance % WARP
    else:
        raise KernelError(f"the executor does not know {one}")
    lanes.write(one.operands[0].split("|")[0], value[source], active)


def reduce(lanes: Lanes, one: Instruction, active: Array) -> None:
    """The least, the largest or the sum over the threads of a warp."""
    whole_warps(lanes, one, active)
    value = lanes.read(one.operands[1], one.kind).reshape(-1, WARP)
    function = {"min": np.min, "max": np.max, "add": lambda v, axis: v.sum(axis, dtype=v.dtype)}.get(one.parts[2])
    if function is None:
        raise KernelError(f"the executor does not know {one}")
    lanes.write(one.operands[0], np.repeat(function(value, axis=1), WARP), active)


def matrices(lanes: Lanes, shared: Shared, one: Instruction, active: Array) -> None:
    """``ldmatrix`` and ``stmatrix``: thread ``8 m + r`` gives the place of row ``r`` of matrix ``m``.

    Thread ``4 r + c`` holds the columns ``2 c`` and ``2 c + 1`` of row ``r`` of every matrix, 32 bits together.
    """
    whole_warps(lanes, one, active)
    count = re.search(r"\.m8n8\.x(\d)\.shared\.b16$", ".".join(one.parts))
    if count is None:
        raise KernelError(f"the executor does not know {one}")
    load = one.parts[0] == "ldmatrix"
    target, place = one.operands if load else reversed(one.operands)
    given = offset_of(lanes, place)
    lane, first = np.arange(lanes.count) % WARP, np.arange(lanes.count) // WARP * WARP
    for number, name in zip(range(int(count[1])), members(target), strict=True):
        at = given[first + 8 * number + lane // 4] + 4 * (lane % 4)
        if load:
            lanes.write(name, shared.load(lanes, at, 4, active, one), active)
        else:
            shared.store(lanes, at, 4, lanes.raw(name), active, one)
