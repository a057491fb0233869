"""Hooks on weights run before the gradients of all workers are summed, and so are refused."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor

from halowire.errors import InputError


def refuse_hooks(weights: Iterable[Tensor]) -> None:
    """Refuse hooks on ``weights``: they would run before the gradients of all workers are summed."""
    for weight in weights:
        if weight._backward_hooks or weight._post_accumulate_grad_hooks:
            raise InputError(
                f"a weight of shape {list(weight.shape)} has a hook, by register_hook or "
                "register_post_accumulate_grad_hook, that would see the gradient of this worker's rows alone; do the "
                "same after loss.backward(), when the gradients of all workers are summed, such as "
                "for p in model.parameters(): p.grad.clamp_(-1, 1)"
            )
