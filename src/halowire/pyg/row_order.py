"""Layers with a weight for every kind of node order the nodes by kind once, while the kinds stay the same.

    out_i = W_d x_i + V_d sum over edges (j, i) of x_j         ``MFConv``: d is the in-degree of i, up to a limit
    out_i = W_t x_i + b_t                                      ``HeteroLinear``: t is the type of i

PyG looks for the rows of each kind in every pass, and on a device the host waits for the number of them. Here rows are
put in the order of their kinds, each kind's rows are multiplied, and the results go back to their places.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from halowire.pyg.edge_mask import unmasked
from halowire.pyg.edges import Edges, unmarked
from halowire.pyg.seen import Seen
from halowire.pyg.stacked import Stacked


class RowOrder:
    """The order of rows by ``number`` kinds, made anew where the tensor that decides on the kinds is another."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._seen: Seen | None = None
        self._order = torch.empty(0, dtype=torch.int64)
        self._back = self._order
        self._counts: list[int] = []

    def follow(self, values: Tensor, kinds: Callable[[Tensor], Tensor], device: torch.device) -> None:
        """Order rows on ``device`` by ``kinds(values)``, if ``values`` are others than in the last pass.

        The ``values`` may be elsewhere: ``HGTConv`` makes the types of its rows on the CPU, in every pass anew, and
        they are compared there, where no device is waited for.
        """
        if self._seen is not None and self._order.device == device and _same(self._seen, values):
            return
        found = kinds(values)
        counts = found.new_zeros(self._number).scatter_add_(0, found, torch.ones_like(found))
        order = torch.argsort(found, stable=True)
        back = torch.empty_like(order).scatter_(0, order, torch.arange(found.numel(), device=found.device))
        self._order, self._back = order.to(device), back.to(device)
        self._counts = counts.tolist()
        self._seen = Seen.now(values)

    def split(self, rows: Tensor) -> tuple[Tensor, ...]:
        """The rows of each kind."""
        return torch.split(rows.index_select(0, self._order), self._counts)

    def join(self, parts: list[Tensor]) -> Tensor:
        """What was made of the rows of each kind, at the places of these rows."""
        return torch.cat(parts).index_select(0, self._back)


def _same(seen: Seen, values: Tensor) -> bool:
    """Whether ``values`` are those that were ``seen``: the same memory, or equal numbers on the CPU."""
    if seen.still(values):
        return True
    on_host = values.device.type == seen.values.device.type == "cpu"
    return on_host and seen.unchanged and torch.equal(seen.values, values)


class DegreeForward:
    """Stands in for ``forward`` of one ``MFConv``, and calls that method where it is no layer of a part's nodes."""

    def __init__(self, layer: Any) -> None:
        self._layer = layer
        self._order = RowOrder(len(layer.lins_l))

    def __call__(self, x: Any, edge_index: Any, size: Any = None) -> Tensor:
        """The layer's output ``[n, k]``."""
        layer = self._layer
        whole = isinstance(edge_index, Edges) and not isinstance(edge_index.bridge, Stacked) and size is None
        forth = layer.flow == "source_to_target" and whole and edge_index.sources == (True, False)
        if not forth or not isinstance(x, Tensor) or x.dim() != 2 or x.shape[0] != edge_index.bridge.num_targets:
            usual: Tensor = type(layer).forward(layer, x, edge_index, size)
            return usual
        nodes, most = x.shape[0], len(layer.lins_l) - 1

        def degrees(edges: Tensor) -> Tensor:
            return edges.new_zeros(nodes).scatter_add_(0, edges[1], torch.ones_like(edges[1])).clamp_(max=most)

        self._order.follow(unmarked(edge_index), degrees, x.device)
        sums = self._order.split(layer.propagate(edge_index, x=(x, x), size=None))
        parts = zip(sums, self._order.split(x), layer.lins_l, layer.lins_r, strict=True)
        return self._order.join([of_sum(total) + of_self(own) for total, own, of_sum, of_self in parts])


class TypeForward:
    """Stands in for ``forward`` of one ``HeteroLinear``."""

    def __init__(self, layer: Any) -> None:
        self._layer = layer
        self._order = RowOrder(layer.num_types)

    def __call__(self, x: Tensor, type_vec: Tensor) -> Tensor:
        """The layer's output ``[n, k]``."""
        layer, type_vec = self._layer, unmasked(type_vec)
        self._order.follow(type_vec, Tensor.long, x.device)
        found = [rows @ weight for rows, weight in zip(self._order.split(x), layer.weight, strict=True)]
        if layer.bias is not None:
            found = [rows + bias for rows, bias in zip(found, layer.bias, strict=True)]
        return self._order.join(found)
