"""PyG's ``LabelPropagation`` makes a column for each class that it sees; here, for each class of all workers."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from halowire.pyg.model_pass import ModelPass


def propagate_labels(module: Any, passing: ModelPass, y: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """PyG's forward, where labels ``y`` ``[n]`` that are numbers of classes have as many columns on every worker."""
    if y.dtype == torch.long and y.shape[0] == y.numel():
        classes = 1 + passing.whole_max(int(y.max()) if y.numel() else -1)
        y = F.one_hot(y.view(-1), classes).float()
    out: Tensor = type(module).forward(module, y, *args, **kwargs)
    return out
