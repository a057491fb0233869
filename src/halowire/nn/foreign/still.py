"""A pass without chance, watched: dropout does nothing, other draws are refused, and whole numbers are noted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch.overrides import TorchFunctionMode

from halowire.kernels import InputError

DRAWS = {
    "rand", "rand_like", "randn", "randn_like", "randint", "randint_like", "randperm", "bernoulli", "bernoulli_",
    "uniform_", "normal", "normal_", "random_", "exponential_", "multinomial", "poisson", "cauchy_", "geometric_",
    "log_normal_", "rrelu", "rrelu_",
}  # fmt: skip
"""Functions that draw random numbers, other than dropout."""


class Still(TorchFunctionMode):
    """Inside the block, dropout gives its input back and every other draw is refused.

    ``numbers`` gets every number that torch is handed: one of them may be the number of a node or of an edge.
    """

    def __init__(self, numbers: set[float]) -> None:
        super().__init__()
        self._numbers = numbers

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Call ``func``, unless it draws."""
        kwargs, name = kwargs or {}, getattr(func, "__name__", "")
        if "dropout" in name:
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
            self._numbers.add(value)
        elif isinstance(value, slice):
            self._note((value.start, value.stop))
        elif isinstance(value, tuple | list):
            for item in value:
                self._note(item)
        elif isinstance(value, dict):
            self._note(tuple(value.values()))
