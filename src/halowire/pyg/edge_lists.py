"""Aggregations that lay the edges into every node out as a list, padded to the length of the longest one.

    out_i = f(x_1, ..., x_d, 0, ..., 0)        with L entries, L = the largest in-degree of the whole graph

PyG's LSTM, GRU and their like read the padding too, so that ``L`` must not be the largest degree of a worker's nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from halowire.pyg.edges import unmarked
from halowire.pyg.model_pass import ModelPass
from halowire.pyg.seen import Seen

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
    return PaddedForward(module, passing, EXTRA[kind.__name__])


class PaddedForward:
    """Calls the module's own ``forward`` with the length of the longest list of all workers.

    The lists of this worker are measured once, while the edges stay the same: on a device the host waits for it.
    """

    def __init__(self, module: Any, passing: ModelPass, extra: int) -> None:
        self._module = module
        self._passing = passing
        self._extra = extra
        self._seen: Seen | None = None
        self._longest = 0

    def __call__(self, x: Tensor, index: Tensor | None = None, *args: Any, **kwargs: Any) -> Tensor:
        """The module's output."""
        if index is not None and kwargs.get("max_num_elements") is None:
            kwargs["max_num_elements"] = self._passing.whole_max(self._longest_of(unmarked(index))) + self._extra
        out: Tensor = type(self._module).forward(self._module, x, index, *args, **kwargs)
        return out

    def _longest_of(self, index: Tensor) -> int:
        if self._seen is None or not self._seen.still(index):
            self._longest = int(torch.bincount(index).max()) if index.numel() else 0
            self._seen = Seen.now(index)
        return self._longest
