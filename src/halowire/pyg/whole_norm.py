"""Normalisation layers with statistics of the whole graph: parameters and buffers of the layer, rows of all workers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from halowire.errors import InputError
from halowire.pyg.bridge import Bridge

Forward = Callable[..., Tensor]


def whole_mean(bridge: Bridge, x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean ``[k]`` of the rows ``[m, k]`` of all workers, and how many rows they have in all; one message."""
    sums = torch.cat([x.sum(0), x.new_tensor([float(x.shape[0])])])
    total = bridge.whole_sum(sums)
    count = total[-1].detach()
    return total[:-1] / count, count


def batch_norm(module: nn.BatchNorm1d, bridge: Bridge, x: Tensor) -> Tensor:
    """``(x - mean) / sqrt(var + eps) * weight + bias`` by column; running statistics as in ``torch.nn.BatchNorm1d``."""
    if x.dim() != 2:
        raise InputError(f"BatchNorm1d got a tensor of shape {list(x.shape)}; on many workers it takes rows [n, C]")
    if not module.training and module.running_mean is not None:
        return F.batch_norm(
            x, module.running_mean, module.running_var, module.weight, module.bias, False, 0.0, module.eps
        )
    return _standardised(module, bridge, x, _momentum)


def instance_norm(module: Any, bridge: Bridge, x: Tensor, batch: None = None, batch_size: None = None) -> Tensor:
    """PyG's ``InstanceNorm``: of one graph, by column, as batch norm."""
    _refuse_batch(module, batch)
    if not module.training and module.track_running_stats:
        out = (x - module.running_mean) * (module.running_var + module.eps).rsqrt()
        return _affine(module, out)
    return _standardised(module, bridge, x, lambda layer: float(layer.momentum))


def layer_norm(module: Any, bridge: Bridge, x: Tensor, batch: None = None, batch_size: None = None) -> Tensor:
    """PyG's ``LayerNorm``: mode ``graph`` has one mean and one deviation for all values of the whole graph."""
    if module.mode == "node":
        return F.layer_norm(x, (module.in_channels,), module.weight, module.bias, module.eps)
    _refuse_batch(module, batch)
    centred = x - whole_mean(bridge, x)[0].mean()
    deviation = whole_mean(bridge, centred.square())[0].mean().sqrt()
    return _affine(module, centred / (deviation + module.eps))


def graph_norm(module: Any, bridge: Bridge, x: Tensor, batch: None = None, batch_size: None = None) -> Tensor:
    """PyG's ``GraphNorm``: ``(x - a mean) / sqrt(var + eps) * weight + bias``, by column."""
    _refuse_batch(module, batch)
    centred = x - whole_mean(bridge, x)[0] * module.mean_scale
    var = whole_mean(bridge, centred.square())[0]
    return _affine(module, centred / (var + module.eps).sqrt())


def pair_norm(module: Any, bridge: Bridge, x: Tensor, batch: None = None, batch_size: None = None) -> Tensor:
    """PyG's ``PairNorm``: centred rows, scaled by their mean squared length, or each by its own."""
    _refuse_batch(module, batch)
    centred = x - whole_mean(bridge, x)[0]
    if module.scale_individually:
        return module.scale * centred / (module.eps + centred.norm(2, -1, keepdim=True))  # type: ignore[no-any-return]
    length = whole_mean(bridge, centred.square())[0].sum()
    return module.scale * centred / (module.eps + length).sqrt()  # type: ignore[no-any-return]


def mean_subtraction_norm(module: Any, bridge: Bridge, x: Tensor, batch: None = None, dim_size: None = None) -> Tensor:
    """PyG's ``MeanSubtractionNorm``: ``x - mean``, by column."""
    _refuse_batch(module, batch)
    return x - whole_mean(bridge, x)[0]


def graph_size_norm(module: Any, bridge: Bridge, x: Tensor, batch: None = None, batch_size: None = None) -> Tensor:
    """PyG's ``GraphSizeNorm``: ``x / sqrt(N)``."""
    _refuse_batch(module, batch)
    return x / math.sqrt(bridge.shard.num_nodes)


NORMS: dict[str, Forward] = {
    "torch.nn.BatchNorm1d": batch_norm,
    "torch_geometric.nn.InstanceNorm": instance_norm,
    "torch_geometric.nn.LayerNorm": layer_norm,
    "torch_geometric.nn.GraphNorm": graph_norm,
    "torch_geometric.nn.PairNorm": pair_norm,
    "torch_geometric.nn.MeanSubtractionNorm": mean_subtraction_norm,
    "torch_geometric.nn.GraphSizeNorm": graph_size_norm,
}
"""Layers whose statistics run over all nodes, by name, and their forward on many workers."""


def _standardised(module: Any, bridge: Bridge, x: Tensor, momentum: Callable[[Any], float]) -> Tensor:
    """``(x - mean) / sqrt(var + eps) * weight + bias`` by column; while training, running statistics follow.

    ``momentum(module)`` is asked once for each update of the running statistics.
    """
    mean, count = whole_mean(bridge, x)
    centred = x - mean
    var, _ = whole_mean(bridge, centred.square())
    if module.training and module.running_mean is not None:
        with torch.no_grad():
            factor = momentum(module)
            module.running_mean.lerp_(mean, factor)
            module.running_var.lerp_(var * (count / (count - 1)), factor)
    return _affine(module, centred * (var + module.eps).rsqrt())


def _momentum(module: nn.BatchNorm1d) -> float:
    """The momentum of this update of a batch norm, which counts its updates; ``None`` means their average."""
    factor = module.momentum
    if module.num_batches_tracked is not None:
        module.num_batches_tracked.add_(1)
        factor = 1.0 / float(module.num_batches_tracked) if factor is None else factor
    return factor or 0.0


def _affine(module: Any, out: Tensor) -> Tensor:
    return out if module.weight is None else out * module.weight + module.bias


def _refuse_batch(module: nn.Module, batch: object) -> None:
    if batch is not None:
        raise InputError(
            f"{type(module).__name__} got a batch vector; a shard is part of one graph: call the layer without batch"
        )
