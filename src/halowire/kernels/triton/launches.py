"""How a kernel is launched: on the device of its tensors, with tiles that fit its registers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

TILE = 1024
"""Elements of a tile of several rows."""
PER_WARP = 256
"""Elements of a tile that one warp holds: eight for each of its 32 threads, so that no register spills."""
MOST_WARPS = 16


def launch(kernel: Any, grid: tuple[int, ...], *arguments: Any, **constants: Any) -> None:
    """Run ``kernel`` on ``grid`` programs; an empty grid runs nothing."""
    if 0 in grid:
        return
    with torch.cuda.device_of(next(value for value in arguments if isinstance(value, Tensor))):
        kernel[grid](*arguments, **constants)


def power_above(number: int, least: int = 16) -> int:
    """The least power of two that is neither below ``number`` nor below ``least``, itself a power of two."""
    return max(least, 1 << (number - 1).bit_length())


def row_tile(columns: int) -> dict[str, int]:
    """A tile of whole rows: ``M`` rows of ``KP`` columns, and the warps that hold it."""
    width = power_above(columns)
    rows = max(1, TILE // width)
    return {"M": rows, "KP": width, "num_warps": min(MOST_WARPS, max(1, rows * width // PER_WARP))}


def edge_tile(columns: int, most: int, elements: int = 512) -> dict[str, int]:
    """A tile of one row's edges: ``EB`` edges of ``CB`` columns, up to ``most``, and the warps that hold it."""
    width = min(power_above(columns), most)
    edges = min(32, max(1, elements // width))
    return {"EB": edges, "CB": width, "num_warps": max(1, edges * width // elements)}


def blocks(count: int, size: int) -> int:
    """How many blocks of ``size`` hold ``count`` elements."""
    return -(-count // size)
