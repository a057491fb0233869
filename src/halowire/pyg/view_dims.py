"""Where the rows of a tensor are once it has another shape: views, turned tensors, and entries that are picked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

Dims = frozenset[int]
"""Dimensions of a tensor, counted from 0."""


def reshaped(before: Sequence[int], after: Sequence[int], dims: Dims) -> Dims:
    """The dimensions of shape ``after`` with entries of several of the rows that shape ``before`` has along ``dims``.

    Both shapes fall into shortest groups of equal size, ``[n, 4] -> [n, 2, 2]`` into ``n | 4`` and ``n | 2, 2``. A
    group with rows gives one with rows, in all of its dimensions.
    """
    if 0 in before:
        return frozenset(dim for dim in dims if dim < len(after))
    found: set[int] = set()
    for old, new in _groups(before, after):
        if dims.intersection(old):
            found.update([dim for dim in new if after[dim] > 1] or new)
    return frozenset(found)


def _groups(before: Sequence[int], after: Sequence[int]) -> Iterator[tuple[range, range]]:
    """The dimensions of each group, in ``before`` and in ``after``."""
    old = new = 0
    while old < len(before) and new < len(after):
        first, second = old, new
        sizes = [before[old], after[new]]
        old, new = old + 1, new + 1
        while sizes[0] != sizes[1]:
            if sizes[0] < sizes[1]:
                sizes[0] *= before[old]
                old += 1
            else:
                sizes[1] *= after[new]
                new += 1
        yield range(first, old), range(second, new)


def squeezed(shape: Sequence[int], which: Any, dims: Dims) -> Dims:
    """``dims`` of a tensor of this ``shape`` without its dimensions of one entry, or those among ``which``."""
    asked = range(len(shape)) if which is None else which if isinstance(which, tuple | list) else (which,)
    gone = {dim % len(shape) for dim in asked if shape[dim] == 1} if shape else set()
    return frozenset(dim - sum(other < dim for other in gone) for dim in dims if dim not in gone)


def turned(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], dims: Dims) -> Dims:
    """``dims`` of the first argument, where ``func`` brings its dimensions into another order, or adds some."""
    probe = torch.empty([place + 2 for place in range(args[0].dim())], device="meta")
    shape = func(probe, *args[1:], **kwargs).shape
    return frozenset(place for place, extent in enumerate(shape) if extent - 2 in dims)


def without(ndim: int, removed: Sequence[int], dims: Dims) -> Dims:
    """``dims`` of a tensor of ``ndim`` dimensions once those in ``removed`` are gone."""
    gone = {dim % ndim for dim in removed}
    return frozenset(dim - sum(other < dim for other in gone) for dim in dims if dim not in gone)


def picked(target: Tensor, index: Any, along: Callable[[Any], Dims]) -> Dims:
    """The dimensions of ``target[index]`` with rows of ``target``, or with those of the tensors in ``index``."""
    items = list(index) if isinstance(index, tuple) else [index]
    used = sum(_consumed(item) for item in items)
    if not any(item is Ellipsis for item in items):
        items.append(Ellipsis)
    place, before = 0, 0
    found: set[int] = set()
    listed: list[tuple[int, Any, bool]] = []
    for item in items:
        if item is None:
            place += 1
        elif item is Ellipsis:
            rest = target.dim() - used
            found.update(place + dim - before for dim in along(target) if before <= dim < before + rest)
            place, before = place + rest, before + rest
        elif isinstance(item, slice):
            found.update([place] if before in along(target) else [])
            place, before = place + 1, before + 1
        else:
            rows = any(before + step in along(target) for step in range(_consumed(item)))
            before += _consumed(item)
            if _extent(item) or listed:
                listed.append((place, item, rows))
    return frozenset(found) if not listed else _with_lists(found, listed, along)


def _with_lists(found: set[int], listed: list[tuple[int, Any, bool]], along: Callable[[Any], Dims]) -> Dims:
    """``found``, moved to the right by the dimensions of index tensors, and those of these that have rows."""
    first, width = listed[0][0], max(_extent(item) for _, item, _ in listed)
    moved = {dim if dim < first else dim + width for dim in found}
    for _, item, rows in listed:
        shift = first + width - _extent(item)
        marks = {dim for dim in along(item) if dim < _extent(item)} if isinstance(item, Tensor) else set()
        if isinstance(item, Tensor) and item.dtype == torch.bool:
            marks = {0} if marks else set()
        moved.update(shift + dim for dim in marks)
        if rows and _extent(item):
            moved.add(shift)
    return frozenset(moved)


def _consumed(item: Any) -> int:
    """The dimensions of the indexed tensor that an item of an index takes."""
    if item is None or item is Ellipsis:
        return 0
    return item.dim() if isinstance(item, Tensor) and item.dtype in (torch.bool, torch.uint8) else 1


def _extent(item: Any) -> int:
    """The dimensions that an item of an index gives in the place of those that it takes."""
    if isinstance(item, Tensor):
        return 1 if item.dtype in (torch.bool, torch.uint8) else item.dim()
    return 1 if isinstance(item, list) else 0
