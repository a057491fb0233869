"""Norms with a ``batch`` vector: the statistics of each of many graphs are taken over the nodes of all workers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from halowire.pyg.model_pass import ModelPass


class GraphMeans:
    """Means over the nodes of each graph, on all workers.

    ``batch`` ``[n]`` is the graph of every row; there are at least ``least`` graphs, ``B``. ``sizes`` ``[n, 1]`` are
    the sizes of every row's graph, ``counts`` ``[B, 1]`` those of all graphs.
    """

    def __init__(self, passing: ModelPass, batch: Tensor, least: int = 0) -> None:
        self._passing = passing
        self._batch = batch
        transport = passing.transport
        largest = torch.zeros(transport.size, dtype=torch.int64)
        largest[transport.rank] = int(batch.max()) + 1 if batch.numel() else 0
        self._graphs = max(least, int(transport.all_reduce(largest, "number of graphs", account=None).max()))
        self.counts = self.sums(torch.ones(batch.numel(), 1, device=batch.device))
        self.sizes = self.counts[batch]

    def of(self, rows: Tensor) -> Tensor:
        """The mean of the ``rows`` ``[n, k]`` of every row's graph, ``[n, k]``."""
        return self.sums(rows)[self._batch] / self.sizes.to(rows.dtype)

    def sums(self, rows: Tensor) -> Tensor:
        """The sum of the ``rows`` ``[n, k]`` of every graph, ``[B, k]``."""
        return self._passing.whole_sum(rows.new_zeros(self._graphs, rows.shape[1]).index_add(0, self._batch, rows))


def layer_norm(module: Any, x: Tensor, means: GraphMeans) -> Tensor:
    """PyG's ``LayerNorm``, mode ``graph``: one mean and one variance for all values of a graph."""
    centred = x - means.of(x).mean(1, keepdim=True)
    var = means.of(centred.square()).mean(1, keepdim=True)
    return _affine(module, centred / (var + module.eps).sqrt())


def graph_norm(module: Any, x: Tensor, means: GraphMeans) -> Tensor:
    """PyG's ``GraphNorm``: ``(x - a mean) / sqrt(var + eps) * weight + bias``, by column and graph."""
    centred = x - means.of(x) * module.mean_scale
    return _affine(module, centred / (means.of(centred.square()) + module.eps).sqrt())


def pair_norm(module: Any, x: Tensor, means: GraphMeans) -> Tensor:
    """PyG's ``PairNorm``: centred rows, divided by the root of their mean squared length, or each by its own length."""
    centred = x - means.of(x)
    if module.scale_individually:
        return module.scale * centred / (module.eps + centred.norm(2, -1, keepdim=True))  # type: ignore[no-any-return]
    length = means.of(centred.square().sum(1, keepdim=True))
    return module.scale * centred / (module.eps + length).sqrt()  # type: ignore[no-any-return]


def mean_subtraction_norm(module: Any, x: Tensor, means: GraphMeans) -> Tensor:
    """PyG's ``MeanSubtractionNorm``: ``x - mean``, by column and graph."""
    return x - means.of(x)


def graph_size_norm(module: Any, x: Tensor, means: GraphMeans) -> Tensor:
    """PyG's ``GraphSizeNorm``: ``x / sqrt(size of the graph)``."""
    return x / means.sizes.sqrt()


def instance_norm(module: Any, x: Tensor, means: GraphMeans) -> Tensor:
    """PyG's ``InstanceNorm``: ``(x - mean) / sqrt(var + eps) * weight + bias``, by column and graph.

    The running statistics are means over the graphs, whatever their sizes: ``mean over graphs of mean`` and
    ``mean over graphs of sum (x - mean)^2 / (size - 1)``.
    """
    centred = x - means.of(x)
    squares = centred.square()
    if module.training and module.running_mean is not None:
        with torch.no_grad():
            counts = means.counts.to(x.dtype)
            first = (means.sums(x) / counts.clamp(min=1)).mean(0)
            second = (means.sums(squares) / (counts - 1).clamp(min=1)).mean(0)
            module.running_mean.lerp_(first.to(module.running_mean.dtype), module.momentum)
            module.running_var.lerp_(second.to(module.running_var.dtype), module.momentum)
    return _affine(module, centred / (means.of(squares) + module.eps).sqrt())


def _affine(module: Any, out: Tensor) -> Tensor:
    return out if module.weight is None else out * module.weight + module.bias


BATCH_NORMS = {
    "InstanceNorm": instance_norm, "LayerNorm": layer_norm, "GraphNorm": graph_norm, "PairNorm": pair_norm,
    "MeanSubtractionNorm": mean_subtraction_norm, "GraphSizeNorm": graph_size_norm,
}  # fmt: skip
"""Layers of ``torch_geometric.nn`` and what they compute where they are called with ``batch``."""
