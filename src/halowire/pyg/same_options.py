"""What a loss is told beside rows, such as the weights of classes, must be the same on all workers."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.pyg.own_rows import plain
from halowire.pyg.same_weights import all_alike, digest


def options_said(options: Mapping[str, Any], dims: int, by_class: bool, device: torch.device) -> Tensor:
    """What a message says of the ``options`` of a loss of values with ``dims`` dimensions, float64 on ``device``.

    A tensor with as many dimensions as the values has a row for each of them, unless it is ``by_class``.
    """
    tensors = {name: plain(value) for name, value in options.items() if isinstance(value, Tensor)}
    compared = [value for value in tensors.values() if by_class or value.dim() < dims]
    # On another device the numbers would have to be waited for.
    numbers = [(name, value) for name, value in options.items() if isinstance(value, int | float | str | None)]
    shapes = [(name, value.dim()) for name, value in tensors.items()]
    said = digest(compared, device, zlib.crc32(repr((numbers, shapes)).encode()))
    return torch.cat([said, said.square()]).double()


def refuse_other_options(size: int, sums: Sequence[float], names: Sequence[str]) -> None:
    """Refuse options of a loss that differ by the ``sums`` of what all ``size`` workers said of them."""
    if not all_alike(size, sums[: len(sums) // 2], sums[len(sums) // 2 :]):
        raise InputError(
            f"the loss is told other numbers on other workers ({', '.join(names)}), such as weights of classes that "
            "were counted on this worker's rows; count them on the whole graph: data.gather(data.y).bincount(), or "
            "before the graph is cut"
        )
