"""The loss of the whole graph: the mean of all workers' values, which refuses to be mixed with one worker's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from halowire.errors import InputError
from halowire.pyg.nested import leaves
from halowire.pyg.reduction import Reduction

SPREAD = 1e-9
"""Relative variance of a number over the workers that rounding may cause."""


class WholeLoss(Tensor):
    """What ``data.mean`` gives where there is a gradient: it may be scaled, and added to others of its kind.

    The gradients of all workers are summed, so a term that is added beside the mean would count once per worker, and a
    mean of this worker's rows would be taken for one of all rows.
    """

    reduction: Reduction

    @staticmethod
    def of(value: Tensor, reduction: Reduction) -> Tensor:
        """``value`` as a `WholeLoss` where it has a gradient, or else as it is."""
        if not value.requires_grad:
            return value
        with torch._C.DisableTorchFunctionSubclass():
            marked: WholeLoss = value.as_subclass(WholeLoss)
        marked.reduction = reduction
        return marked

    def __format__(self, spec: str) -> str:
        """Format the number as torch does for plain tensors; it does not do so for subclasses."""
        return format(self.item(), spec)

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Call ``func``, or refuse it where a gradient would be wrong."""
        kwargs, name = kwargs or {}, getattr(func, "__name__", "")
        given = [leaf for leaf in leaves((args, kwargs)) if isinstance(leaf, Tensor)]
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


class WholeMean(Function):
    """The mean of all workers' values, the same on every worker; each value has the gradient ``1 / count``."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, reduction: Reduction) -> Tensor:
        """``sum over workers of sum(values) / sum over workers of the number of values``."""
        sums = torch.stack([values.sum().double(), torch.tensor(float(values.numel()), device=values.device).double()])
        total, count = reduction.transport.all_reduce(sums, "reduction of the loss", account=None)
        if not count:
            raise InputError("the loss has no rows on any worker; check the mask")
        mean: Tensor = total / count
        ctx.reduction = reduction
        ctx.count = float(count)
        ctx.shape = values.shape
        ctx.mean = float(mean)
        return mean.to(values.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """``1 / count`` for every value; the sum of the weights' gradients over the workers begins here."""
        ctx.reduction.begin()
        ctx.reduction.hear(float(grads[0]) * ctx.mean)
        return (grads[0] / ctx.count).expand(ctx.shape), None


class Penalty(Function):
    """A term of the loss that is the same on every worker, as a penalty on the weights; it counts once."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, reduction: Reduction) -> Tensor:
        """``value``, which must be the same on all workers."""
        own = value.detach().double()
        first, second = reduction.transport.all_reduce(torch.stack([own, own.square()]), "check of the penalty", None)
        size = reduction.transport.size
        mean = first / size
        if float(second / size - mean.square()) > SPREAD * float(mean.square()):
            raise InputError(
                "the penalty of the loss is not the same on all workers, so it depends on rows; put what depends on "
                "rows into the values: data.mean(values + ..., penalty=...)"
            )
        ctx.reduction = reduction
        ctx.value = float(own)
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """An equal share of the gradient for every worker, since the workers' gradients are summed at the end."""
        ctx.reduction.begin()
        ctx.reduction.hear(float(grads[0]) * ctx.value)
        return grads[0] / ctx.reduction.transport.size, None


class Guarded(Function):
    """The output of a distributed model, unchanged; backward refuses a loss that is not summed over the workers."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, reduction: Reduction) -> Tensor:
        """Give ``values`` back."""
        ctx.reduction = reduction
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Give the gradient back, unless it did not begin at ``data.mean``."""
        if not ctx.reduction.running:
            raise InputError(
                "backward of a distributed model began at a loss of this worker's rows alone; make it the loss of all "
                "workers: loss = data.mean(values), with one value per row (reduction='none')"
            )
        return grads[0], None


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
