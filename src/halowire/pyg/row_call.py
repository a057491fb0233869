"""A call of a function of torch with rows of this worker: what it is given, and along which dimensions the rows lie."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from halowire.pyg.leaves import leaves
from halowire.pyg.row_picks import argument
from halowire.pyg.row_wise import base_name
from halowire.pyg.view_dims import Dims

Along = Callable[[Any], Dims]
"""Gives the dimensions along which a tensor has different rows of this worker; none for all else."""


@dataclass(frozen=True)
class Call:
    """``func(*args, **kwargs)``, where ``along`` tells which of the tensors have rows, and ``count`` how many.

    ``base`` is the name without what says that the function changes its tensor; ``tensors`` are all that it is given,
    ``marked`` those that have rows.
    """

    func: Callable[..., Any]
    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    along: Along
    count: int
    base: str
    tensors: tuple[Tensor, ...]
    marked: tuple[Tensor, ...]

    @staticmethod
    def of(
        func: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any], along: Along, count: int
    ) -> Call:
        """The call of ``func``, which is known by ``name``."""
        tensors = tuple(value for value in leaves((args, kwargs)) if isinstance(value, Tensor))
        marked = tuple(value for value in tensors if along(value))
        return Call(func, name, args, kwargs, along, count, base_name(name), tensors, marked)

    @property
    def first(self) -> Any:
        """The first argument."""
        return self.given(0, "input", self.kwargs.get("tensors"))

    def given(self, place: int, name: str, default: Any = None) -> Any:
        """The argument ``name``, which is also argument number ``place``."""
        return argument(self.args, self.kwargs, place, name, default)

    def listed(self, place: int, name: str) -> tuple[int, ...]:
        """Whole numbers that are given as one list, or each as an argument of its own."""
        rest = self.args[place:]
        found = rest[0] if len(rest) == 1 and isinstance(rest[0], tuple | list) else rest or self.kwargs.get(name, ())
        return (found,) if isinstance(found, int) else tuple(found)

    def from_end(self) -> set[Dims]:
        """The dimensions with rows of each tensor that has some, counted from the last, which is -1."""
        return {frozenset(dim - value.dim() for dim in self.along(value)) for value in self.marked}

    def from_start(self) -> set[Dims]:
        """The dimensions with rows of each tensor that has some."""
        return {self.along(value) for value in self.marked}
