"""A pass without chance, watched: dropout does nothing, other draws are refused, and whole numbers are noted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch.overrides import TorchFunctionMode

from halowire.errors import InputError

DRAWS = {
    "rand", "rand_like", "randn", "randn_like", "randint", "randint_like", "randperm", "bernoulli", "bernoulli_",
    "uniform_", "normal", "normal_", "random_", "exponential_", "multinomial", "poisson", "cauchy_", "geometric_",
    "log_normal_", "rrelu", "rrelu_",
}  # fmt: skip
"""Functions that draw random numbers, other than dropout."""


@dataclass
class Notes:
    """What passes were seen to do.

    ``numbers`` are all that torch was handed: one of them may be the number of a node or of an edge. ``drops`` are the
    places at which values would have been dropped: how many exchanges came before.
    """

    numbers: set[float] = field(default_factory=set)
    drops: set[int] = field(default_factory=set)


class Still(TorchFunctionMode):
    """Inside the block, dropout gives its input back and every other draw is refused; ``notes`` are taken.

    ``exchanges``: how many the pass has had so far.
    """

    def __init__(self, notes: Notes, exchanges: Callable[[], int] = lambda: 0) -> None:
        super().__init__()
        self._notes, self._exchanges = notes, exchanges

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Call ``func``, unless it draws."""
        kwargs, name = kwargs or {}, getattr(func, "__name__", "")
        if "dropout" in name:
            if _drops(args, kwargs):
                self._notes.drops.add(self._exchanges())
            return args[0] if args else kwargs["input"]
        if name in DRAWS:
            raise InputError(
                f"the model's forward draws random numbers (torch's `{name}`), and every worker would draw others; for "
                "randomly dropped edges use halowire.DropEdges, for dropped values torch's dropout; draw anything else "
                "before the forward"
            )
        self._note(args)
        self._note(kwargs)
        return func(*args, **kwargs)

    def _note(self, value: Any) -> None:
        if isinstance(value, int | float):
            self._notes.numbers.add(value)
        elif isinstance(value, slice):
            self._note((value.start, value.stop))
        elif isinstance(value, tuple | list):
            for item in value:
                self._note(item)
        elif isinstance(value, dict):
            self._note(tuple(value.values()))


def _drops(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a call of dropout, ``(input, p, training)`` by place or by name, drops anything."""
    p = kwargs.get("p", args[1] if len(args) > 1 else 0.5)
    training = kwargs.get("training", kwargs.get("train", args[2] if len(args) > 2 else True))
    return bool(training) and p > 0
