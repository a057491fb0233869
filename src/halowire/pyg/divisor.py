"""What torch would divide a loss by, as far as the loss's own history tells it."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from halowire.pyg.own_rows import plain

CLASS_LOSSES = ("NllLossBackward0", "NllLoss2DBackward0")
"""The autograd nodes of ``F.cross_entropy`` and ``F.nll_loss`` of class labels."""
SCALING = ("AddBackward0", "MulBackward0", "MulBackward1", "DivBackward0", "NegBackward0", "ViewBackward0",
           "AliasBackward0")  # fmt: skip
"""The nodes between a loss's values and its classes, such as those of label smoothing."""


def misleading_mean(values: Tensor) -> tuple[str, Tensor | None]:
    """Why the plain mean of ``values`` is not the one that torch would take, and a tensor that says whether it is so.

    Without a tensor it is so for sure; the reason is empty where the mean is right, or nobody can tell. Only values of
    ``reduction="none"`` that no row was removed from are told: torch's mean leaves ignored labels out of the count, and
    divides by the weights of the labels.
    """
    waiting: list[Any] = [values.grad_fn]
    while waiting:
        node = waiting.pop()
        name = node.name() if node is not None else ""
        if name in SCALING and not _weighs_rows(node):
            waiting += [parent for parent, _ in node.next_functions]
        elif name in CLASS_LOSSES and node._saved_reduction == 0:
            if node._saved_weight is not None:
                return "the labels have class weights, whose sum torch divides by", None
            # On a device, reading the answer here would make the host wait.
            ignored = (plain(node._saved_target) == node._saved_ignore_index).any()
            return "some labels are ignored, and torch does not count them", ignored
    return "", None


def _weighs_rows(node: Any) -> bool:
    """Whether ``node`` multiplies every value by a number of its own: then the loss is the user's, not torch's."""
    factors = (getattr(node, name, None) for name in ("_saved_other", "_saved_self"))
    return any(isinstance(factor, Tensor) and factor.dim() > 0 for factor in factors)
