"""Models around one layer of PyG, by what the layer takes: rows, rows of the beginning, places, two sets of edges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch_geometric.nn as pyg
from torch import Tensor, nn

from tests.support.pyg_case import CLASSES, FEATURES
from tests.support.pyg_models import HIDDEN


class One(nn.Module):
    """A layer that takes rows of the hidden width and gives rows of ``width``, between two linear maps."""

    def __init__(self, layer: nn.Module, width: int = HIDDEN) -> None:
        super().__init__()
        self.first, self.layer, self.last = nn.Linear(FEATURES, HIDDEN), layer, nn.Linear(width, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor, *more: Tensor) -> Tensor:
        return self.last(self.layer(self.first(x).tanh(), edge_index, *more))


class Called(nn.Module):
    """A layer between two linear maps, called as ``call(layer, h, x, edge_index, ...)`` says."""

    def __init__(self, layer: nn.Module, call: Callable[..., Any], width: int = HIDDEN) -> None:
        super().__init__()
        self.first, self.layer, self.last = nn.Linear(FEATURES, HIDDEN), layer, nn.Linear(width, CLASSES)
        self.call = call

    def forward(self, x: Tensor, edge_index: Tensor, *more: Tensor) -> Tensor:
        return self.last(self.call(self.layer, self.first(x).tanh(), x, edge_index, *more))


def initial(layer: nn.Module) -> nn.Module:
    """A layer that takes the rows of the beginning too."""
    return Called(layer, lambda layer, h, x, edge_index: layer(h, h, edge_index))


def points(layer: nn.Module, width: int = HIDDEN) -> nn.Module:
    """A layer of points, whose places are the first columns of the features."""
    return Called(layer, lambda layer, h, x, edge_index: layer(h, x[:, :3], edge_index), width)


def oriented(layer: nn.Module) -> nn.Module:
    """A layer of points with normals."""
    return Called(layer, lambda layer, h, x, edge_index: layer(h, x[:, :3], x[:, 3:], edge_index))


def signed(layer: nn.Module, width: int = HIDDEN) -> nn.Module:
    """A layer of two sets of edges, told apart by their type."""

    def call(layer: nn.Module, h: Tensor, x: Tensor, edge_index: Tensor, edge_type: Tensor) -> Tensor:
        return layer(h, edge_index[:, edge_type == 0], edge_index[:, edge_type != 0])

    return Called(layer, call, width)


def histories(layer: nn.Module) -> nn.Module:
    """A layer that takes the rows of all earlier layers, ``[N, L, F]``."""
    return Called(layer, lambda layer, h, x, edge_index: layer(torch.stack([h, h.sin()], 1), edge_index))


def aggregated(aggr: Any, width: int = HIDDEN) -> nn.Module:
    """A sum over edges by ``aggr``, which gives rows of ``width``."""
    return One(pyg.SimpleConv(aggr=aggr), width)
