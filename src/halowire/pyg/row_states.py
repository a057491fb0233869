"""Gradients and optimiser states of weights with a row for each node, of which every worker has its own rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from halowire.errors import InputError
from halowire.pyg.distribute import Attachment, state_of


def clip_grad_norm_(model: nn.Module, max_norm: float) -> Tensor:
    """Scale the gradients of a distributed ``model`` down to the norm ``max_norm``; returns the norm that they had.

    As ``torch.nn.utils.clip_grad_norm_``, with the rows of all workers: ``norm^2`` is the sum over the weights that all
    workers share, plus the sum over all workers' rows of the weights that have a row for each node.

    Example:
        >>> loss.backward()
        >>> halowire.clip_grad_norm_(model, 1.0)
        >>> optimizer.step()
    """
    attached = state_of(model)
    shared = [value.grad for value in attached.weights.shared(model) if value.grad is not None]
    own = [value.grad for value in attached.weights.own(model) if value.grad is not None]
    of_rows = _squares(own)
    attached.data.transport.all_reduce(of_rows, "norm of the gradients", account=None)
    norm = (_squares(shared) + of_rows).sqrt()[0]
    factor = float((max_norm / (norm + 1e-6)).clamp(max=1.0))
    for grad in (*shared, *own):
        grad.mul_(factor)
    return norm


def optimizer_state(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """``optimizer.state_dict()`` with the rows of all nodes in the user's order; all workers call it together.

    Example:
        >>> saved = {"model": model.state_dict(), "optimizer": halowire.optimizer_state(model, optimizer)}
        >>> if data.transport.rank == 0:
        ...     torch.save(saved, "checkpoint.pt")
    """
    attached = state_of(model)
    whole = attached.tables.whole
    return _changed(attached, model, optimizer, optimizer.state_dict(), lambda key, value, dim: whole(value, dim))


def load_optimizer_state(model: nn.Module, optimizer: torch.optim.Optimizer, state: Mapping[str, Any]) -> None:
    """Load what `halowire.optimizer_state` gave, on any number of workers, or the state of plain PyG's optimizer.

    Example:
        >>> saved = torch.load("checkpoint.pt")
        >>> model.load_state_dict(saved["model"])
        >>> halowire.load_optimizer_state(model, optimizer, saved["optimizer"])
    """
    attached = state_of(model)
    optimizer.load_state_dict(_changed(attached, model, optimizer, state, attached.tables.part))


def _changed(
    attached: Attachment,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    state: Mapping[str, Any],
    change: Callable[[str, Tensor, int], Tensor],
) -> dict[str, Any]:
    """``state`` with every tensor that has a row for each node replaced by ``change(name, tensor, dim)``."""
    names = {id(value): name for name, value in model.named_parameters()}
    order = [names.get(id(value), "") for group in optimizer.param_groups for value in group["params"]]
    if len(order) != sum(len(group["params"]) for group in state["param_groups"]):
        raise InputError("the optimizer's state is of other weights; make the optimizer as when it was saved")
    changed = {}
    for number, entry in sorted(state["state"].items()):  # all workers change the rows in one order
        dim = attached.weights.dims.get(order[number])
        changed[number] = {
            key: change(f"{key} of {order[number]}", value, dim)
            if dim is not None and isinstance(value, Tensor) and value.dim()
            else value
            for key, value in sorted(entry.items())
        }
    return {**state, "state": changed}


def _squares(grads: list[Tensor]) -> Tensor:
    """The sum of squares of ``grads``, dense or sparse, float32 ``[1]``."""
    values = [grad.coalesce().values() if grad.is_sparse else grad for grad in grads]
    sums = [value.float().square().sum() for value in values]
    return torch.stack(sums).sum()[None] if sums else torch.zeros(1)
