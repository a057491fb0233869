"""Aggregations that lay the edges into every node out as a list, padded to the length of the longest one.

    out_i = f(x_1, ..., x_d, 0, ..., 0)        with L entries, L = the largest in-degree of the whole graph

PyG's LSTM, GRU and their like read the padding too, so that ``L`` must not be the largest degree of a worker's nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from halowire.pyg.model_pass import ModelPass

EXTRA = {
    "LSTMAggregation": 0, "GRUAggregation": 0, "LCMAggregation": 0, "GraphMultisetTransformer": 0,
    "SetTransformerAggregation": 0, "SortAggregation": 0, "PatchTransformerAggregation": 1,
}  # fmt: skip
"""Aggregations of ``torch_geometric.nn.aggr`` that pad, and how many entries more than the longest list they take."""


def pad_alike(module: nn.Module, passing: ModelPass) -> Callable[..., Tensor] | None:
    """What serves ``forward`` of an aggregation that pads; None for other modules."""
    kind = type(module)
    if kind.__name__ not in EXTRA or not kind.__module__.startswith("torch_geometric."):
        return None
    return partial(_padded, module, passing, EXTRA[kind.__name__])


def _padded(
    module: Any, passing: ModelPass, extra: int, x: Tensor, index: Tensor | None = None, *args: Any, **kwargs: Any
) -> Tensor:
    """Call the module's own ``forward``, with the length of the longest list of all workers."""
    if index is not None and kwargs.get("max_num_elements") is None:
        longest = int(torch.bincount(index).max()) if index.numel() else 0
        kwargs["max_num_elements"] = passing.whole_max(longest) + extra
    out: Tensor = type(module).forward(module, x, index, *args, **kwargs)
    return out
