"""A watch over the modules of a user's model: what enters and leaves each, and the gradients on the way back."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from halowire.schedules import Spot, Watch


@contextmanager
def modules_watched(model: nn.Module, watch: Watch) -> Iterator[None]:
    """Show ``watch`` the tensors of every call of a module of ``model`` inside the block.

    Calls are counted in the order in which they begin and end, which is the same on all workers.
    """
    looker = _Looker(watch)
    handles: list[Any] = []
    for name, module in model.named_modules():
        words = f"{name or 'the model'} ({type(module).__name__})"
        before, after = looker.hooks(words)
        handles.append(module.register_forward_pre_hook(before))
        handles.append(module.register_forward_hook(after))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


class _Looker:
    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._steps = itertools.count()

    def hooks(self, name: str) -> tuple[Any, Any]:
        """The hooks that look at the inputs and at the outputs of the module ``name``."""
        return (
            lambda module, given: self._look(f"the input of {name}", given),
            lambda module, given, out: self._look(f"the output of {name}", (out,)),
        )

    def _look(self, where: str, values: tuple[Any, ...]) -> None:
        step = next(self._steps)
        for tensor in _floats(values):
            self._watch.look(Spot(False, step), f"{where}, forward,", tensor.detach())
            if tensor.requires_grad:
                tensor.register_hook(lambda grad: self._look_back(where, step, grad))  # type: ignore[no-untyped-call]

    def _look_back(self, where: str, step: int, grad: Tensor) -> None:
        self._watch.look(Spot(True, -step), f"the gradient of {where}, backward,", grad.detach())


def _floats(values: Any) -> Iterator[Tensor]:
    """The tensors of numbers among ``values``, also inside tuples and lists."""
    if isinstance(values, Tensor) and values.is_floating_point():
        yield values
    elif isinstance(values, tuple | list):
        for value in values:
            yield from _floats(value)
