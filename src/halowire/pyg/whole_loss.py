"""The loss of the whole graph: a number that refuses to be mixed with what only this worker knows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.pyg.reduction import Reduction


class WholeLoss(Tensor):
    """What ``data.mean`` gives where there is a gradient: it may be scaled, and added to others of its kind.

    The gradients of all workers are summed, so a term that is added beside the mean would count once per worker, and a
    mean of this worker's rows would be taken for one of all rows.
    """

    reduction: Reduction

    @staticmethod
    def of(value: Tensor, reduction: Reduction) -> Tensor:
        """Mark ``value``, where it has a gradient."""
        if not value.requires_grad:
            return value
        with torch._C.DisableTorchFunctionSubclass():
            marked: WholeLoss = value.as_subclass(WholeLoss)
        marked.reduction = reduction
        return marked

    def __format__(self, spec: str) -> str:
        """As that of a plain tensor, which torch does not offer to subclasses."""
        return format(self.item(), spec)

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Call ``func``, unless a gradient would be wrong."""
        kwargs, name = kwargs or {}, getattr(func, "__name__", "")
        given = list(_tensors((args, kwargs)))
        reduction = next(value.reduction for value in given if isinstance(value, WholeLoss))
        if kwargs.get("create_graph"):
            raise InputError(
                "second derivatives (create_graph=True) do not cross to other workers; leave create_graph out"
            )
        if name == "grad":
            _refuse_local(given, reduction)
        elif name not in ("backward", "__get__"):
            _refuse_mixture(given)
        with torch._C.DisableTorchFunctionSubclass():
            out = func(*args, **kwargs)
        return WholeLoss.of(out, reduction) if isinstance(out, Tensor) and out.is_floating_point() else out


def _refuse_mixture(given: Sequence[Tensor]) -> None:
    if any(value.requires_grad and not isinstance(value, WholeLoss) for value in given):
        raise InputError(
            "the loss of all workers, data.mean(values), is combined with a term that only this worker knows or that "
            "would count once per worker; put what depends on rows into the values, and a penalty on the weights into "
            "data.mean(values, penalty=...)"
        )


def _refuse_local(given: Sequence[Tensor], reduction: Reduction) -> None:
    if reduction.knows(given):
        raise InputError(
            "torch.autograd.grad gives the gradients of this worker's rows alone; use loss.backward() and the weights' "
            ".grad, which are summed over all workers"
        )


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, dict):
        yield from _tensors(tuple(value.values()))
