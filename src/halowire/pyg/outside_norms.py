"""Norms outside of the distributed model would take the mean of one worker's rows: they are found in the history."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor

from halowire.errors import InputError

NORMS = ("NativeBatchNormBackward0", "CudnnBatchNormBackward0", "MiopenBatchNormBackward0")
"""The autograd nodes of ``BatchNorm1d`` and, by a reshaped tensor, of ``InstanceNorm``."""
MODEL = "GuardedBackward"
"""The node of a distributed model's output: what is behind it was checked."""
MARKED = "AliasBackward0"
"""The node of a result that was marked as rows of this worker."""


def refuse_outside_norms(terms: Iterable[Tensor]) -> None:
    """Refuse ``terms``, a loss or a model's inputs, if a norm over rows was used on the way from the last model."""
    waiting: list[Any] = [term.grad_fn for term in terms if term.grad_fn is not None]
    seen: set[Any] = set(waiting)
    while waiting:
        node = waiting.pop()
        if node.name() in NORMS and node._saved_training and _over_rows(node):
            raise InputError(
                "a norm outside of the distributed model, such as BatchNorm1d in a head or before the model, takes the "
                "mean and the deviation of this worker's rows; make it part of the model that halowire.distribute is "
                "given, where it takes those of all rows, or use one that looks at each row, such as torch.nn.LayerNorm"
            )
        parents = {parent for parent, _ in node.next_functions if parent is not None and parent.name() != MODEL}
        waiting += parents - seen
        seen |= parents


def _over_rows(node: Any) -> bool:
    """Whether the norm runs over rows: torch's ``InstanceNorm1d`` of a matrix looks at each row, PyG's at columns."""
    if node._saved_input.shape[0] != 1:
        return True
    names: list[str] = []
    while node is not None and len(names) < 4:
        node = node.next_functions[0][0] if node.next_functions else None
        if node is not None and node.name() != MARKED:
            names.append(node.name())
    return "TBackward0" in names or "TransposeBackward0" in names
