"""Which rows of the whole graph a part's tensors hold: one list of numbers, or one for each node type."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class TypedRows:
    """The numbers of a part's rows by node type, and the whole graph's number of rows of each type.

    A tensor belongs to the type that has as many rows: the random graphs of the rehearsal are drawn so that no two
    types have the same number, neither as a whole nor in a part.
    """

    rows: dict[str, Tensor]
    counts: dict[str, int]

    @staticmethod
    def whole(counts: dict[str, int]) -> TypedRows:
        """All rows, in their order."""
        return TypedRows({name: torch.arange(count) for name, count in counts.items()}, counts)

    def name_of(self, extent: int, key: object = None) -> str | None:
        """The type with ``extent`` rows here; the type ``key``, if it is one that has as many."""
        fitting = [name for name, found in self.rows.items() if found.numel() == extent]
        return key if isinstance(key, str) and key in fitting else next(iter(fitting), None)

    def flipped(self) -> TypedRows:
        """The same rows, each type from the last to the first."""
        return TypedRows({name: rows.flip(0) for name, rows in self.rows.items()}, self.counts)


RowNumbers = Tensor | TypedRows


def numbers_in_part(rows: RowNumbers, extent: int) -> Tensor | None:
    """The numbers of the rows of a part's tensor that has ``extent`` rows; None where no type has as many."""
    lists = rows.rows.values() if isinstance(rows, TypedRows) else (rows,)
    return next((found for found in lists if found.numel() == extent), None)


def numbers_of_whole(rows: RowNumbers, count: int) -> Tensor | None:
    """The part's rows of a tensor that has ``count`` rows on the whole graph; None where no type has as many."""
    if isinstance(rows, Tensor):
        return rows
    return next((rows.rows[name] for name, found in rows.counts.items() if found == count), None)


def count_text(rows: RowNumbers) -> str:
    """The number of the rows, in words."""
    if isinstance(rows, Tensor):
        return f"{rows.numel()} nodes"
    return ", ".join(f"{found.numel()} {name}" for name, found in rows.rows.items())
