"""A pass without chance: dropout does nothing, and a model that draws random numbers itself is refused."""

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
    """Inside the block, dropout gives its input back and every other draw is refused."""

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
        return func(*args, **kwargs)
