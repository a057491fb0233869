"""PyG's ``HeteroBatchNorm``: rows of each type are normed by the statistics of all workers' rows of that type.

    out_i = (x_i - mean_t) / sqrt(max(var_t, eps)) * weight_t + bias_t,    t = the type of row i

``mean`` and ``var`` ``[T, k]`` carry no gradient, as in PyG.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from halowire.pyg.model_pass import ModelPass


def typed_batch_norm(module: Any, passing: ModelPass, x: Tensor, type_vec: Tensor) -> Tensor:
    """Norm the rows ``x`` ``[n, k]`` whose types are ``type_vec`` ``[n]``, and keep the running statistics."""
    if not module.training and module.track_running_stats:
        mean, var = module.running_mean, module.running_var
    else:
        mean, var, seen = _statistics(module, passing, x.detach(), type_vec)
        if module.training and module.track_running_stats:
            _remember(module, mean, var, seen)
    out: Tensor = (x - mean[type_vec]) / var.clamp(module.eps).sqrt()[type_vec]
    if module.affine:
        out = out * module.weight[type_vec] + module.bias[type_vec]
    return out


def _statistics(module: Any, passing: ModelPass, x: Tensor, type_vec: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mean and variance ``[T, k]`` of every type's rows of all workers, and which types have any, bool ``[T]``."""
    rows = torch.cat([x, x.square(), x.new_ones(x.shape[0], 1)], 1)
    sums = passing.whole_sum(rows.new_zeros(module.num_types, rows.shape[1]).index_add(0, type_vec, rows))
    first, second, count = torch.split(sums, [x.shape[1], x.shape[1], 1], 1)
    mean = first / count.clamp(min=1)
    return mean, second / count.clamp(min=1) - mean.square(), count[:, 0] > 0


@torch.no_grad()
def _remember(module: Any, mean: Tensor, var: Tensor, seen: Tensor) -> None:
    """Move the running statistics of the types that were ``seen`` towards those of this pass."""
    factor = module.momentum
    if factor is None:
        module.num_batches_tracked.add_(1)
        factor = 1.0 / module.num_batches_tracked.to(mean.dtype)
    for running, now in ((module.running_mean, mean), (module.running_var, var)):
        # A mask as an index, or a number that is read, would let the host wait for a device.
        running.copy_(torch.where(seen[:, None], torch.lerp(running, now, factor), running))
