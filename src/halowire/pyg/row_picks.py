"""Which functions of torch pick rows of a tensor, and by what: numbers, or places counted from the first row."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from halowire.pyg.seen import Seen

INDEXED = {"index_select", "index_add", "index_copy", "index_fill", "index_reduce", "gather", "take_along_dim",
           "scatter", "scatter_add", "scatter_reduce"}  # fmt: skip
"""Functions of ``(tensor, dim, index)``; with an underscore at the end they change the tensor."""
PLACED = {"select": "a number", "narrow": "a slice", "split": "a slice", "split_with_sizes": "a slice",
          "chunk": "a slice", "tensor_split": "a slice", "vsplit": "a slice",
          "unbind": "their places, one after the other"}  # fmt: skip
"""Functions that pick rows by their places, and what they pick them by."""
PLACE_OF_DIM = {"select": 1, "narrow": 1, "unbind": 1, "split": 2, "split_with_sizes": 2, "chunk": 2,
                "tensor_split": 2}  # fmt: skip
"""Where these functions take the dimension."""


def picked_rows(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any] | None:
    """The tensor whose rows the function ``name`` picks, and what it picks them by; None where it picks no rows.

    What it picks by is an index, or a few words about it.
    """
    name = name.removesuffix("_") if not name.endswith("__") else name
    if name in ("__getitem__", "__setitem__"):
        return args[0], _first_index(args[0], args[1])
    if name == "embedding":
        return argument(args, kwargs, 1, "weight"), argument(args, kwargs, 0, "input")
    if name not in {*INDEXED, *PLACED, "take", "index_put"}:
        return None
    target = argument(args, kwargs, 0, "input")
    by = _by_places(name, args, kwargs, target) if name in PLACED else _by_index(name, args, kwargs, target)
    return None if by is None else (target, by)


def kept_places(rows: Tensor, mask: Tensor, bare: Tensor) -> Tensor:
    """The places at which ``mask`` ``[n]`` of ``rows`` is true; ``mask`` itself where it is no such mask.

    On a device the host waits wherever a mask picks rows. The places are kept with the mask while ``bare``, the mask
    without marks, is unchanged.
    """
    if bare.dtype != torch.bool or bare.device.type == "cpu" or bare.shape != rows.shape[:1]:
        return mask
    kept: tuple[Seen, Tensor] | None = vars(mask).get("kept_places")
    if kept is None or not kept[0].still(bare):
        kept = vars(mask)["kept_places"] = Seen.now(bare), bare.nonzero()[:, 0]
    return kept[1]


def _by_index(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], target: Tensor) -> Any:
    """The index of a function that is given one; None where it picks along another dimension."""
    if name == "index_put":
        return argument(args, kwargs, 1, "indices")[0]
    if name == "take":
        return argument(args, kwargs, 1, "index")
    swapped = name == "take_along_dim"  # (tensor, index, dim)
    dim = argument(args, kwargs, 2 if swapped else 1, "dim")
    index = argument(args, kwargs, 1 if swapped else 2, "indices" if swapped else "index")
    return index if dim is None or is_first(dim, target) else None


def _by_places(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], target: Tensor) -> str | None:
    """What a function picks by that counts from the first row; None where it does not part the rows."""
    parts = is_first(argument(args, kwargs, PLACE_OF_DIM.get(name, 9), "dim", 0), target)
    return PLACED[name] if parts and not _takes_all(name, args, kwargs, target) else None


def argument(args: tuple[Any, ...], kwargs: dict[str, Any], place: int, name: str, default: Any = None) -> Any:
    """The argument ``name`` of a call, which is also its argument number ``place``."""
    return args[place] if len(args) > place else kwargs.get(name, default)


def is_first(dim: Any, tensor: Tensor) -> bool:
    """Whether ``dim`` is the first dimension of ``tensor``."""
    return isinstance(dim, int) and dim in (0, -tensor.dim())


def _first_index(tensor: Tensor, index: Any) -> Any:
    """What an index in brackets picks along the first dimension of ``tensor``."""
    if not isinstance(index, tuple):
        return index
    items = [item for item in index if item is not None]
    if items and items[0] is Ellipsis:
        return items[1] if len(items) - 1 == tensor.dim() else Ellipsis
    return items[0] if items else Ellipsis


def _takes_all(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], target: Tensor) -> bool:
    """Whether all rows stay together."""
    if name == "narrow":
        start, length = argument(args, kwargs, 2, "start"), argument(args, kwargs, 3, "length")
        return bool(start == 0 and length == target.shape[0])
    size = argument(args, kwargs, 1, "split_size_or_sections" if name == "split" else "split_size")
    if name in ("split", "split_with_sizes"):
        return size >= target.shape[0] if isinstance(size, int) else len(size) == 1
    sections = argument(args, kwargs, 1, "chunks" if name == "chunk" else "indices_or_sections")
    return name in ("chunk", "tensor_split", "vsplit") and sections == 1
