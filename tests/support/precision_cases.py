"""Models in other types than float32, under autocast, and with layers that are computed again in backward."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
import torch_geometric.nn as pyg
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from tests.support.pyg_case import CLASSES, FEATURES, make_graph

HIDDEN = 8
Mode = Callable[[], AbstractContextManager[Any]]


class Net(nn.Module):
    """Two layers with a norm between them, which may be recomputed in backward."""

    def __init__(self, conv: Callable[..., nn.Module] = pyg.SAGEConv, recompute: str = "") -> None:
        super().__init__()
        self.begin = nn.Linear(FEATURES, HIDDEN)
        self.first, self.second = conv(HIDDEN, HIDDEN), conv(HIDDEN, HIDDEN)
        self.norm, self.last = nn.BatchNorm1d(HIDDEN), nn.Linear(HIDDEN, CLASSES)
        self.recompute = recompute

    def block(self, h: Tensor, edge_index: Tensor) -> Tensor:
        return self.second(self.norm(self.first(h, edge_index)).relu(), edge_index)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = self.begin(x)
        if self.recompute:
            h = checkpoint(self.block, h, edge_index, use_reentrant=self.recompute == "reentrant")
        else:
            h = self.block(h, edge_index)
        return self.last(h)


class Reversible(nn.Module):
    """Two reversible blocks: backward runs them backwards, and then forwards again."""

    def __init__(self) -> None:
        super().__init__()
        self.begin, self.last = nn.Linear(FEATURES, HIDDEN), nn.Linear(HIDDEN, CLASSES)
        self.blocks = nn.ModuleList(
            [pyg.GroupAddRev(layer(HIDDEN // 2, HIDDEN // 2), num_groups=2) for layer in (pyg.SAGEConv, pyg.GATv2Conv)]
        )

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = self.begin(x)
        for block in self.blocks:
            h = block(h, edge_index)
        return self.last(h)


def bf16() -> AbstractContextManager[Any]:
    return torch.autocast("cpu", dtype=torch.bfloat16)


CASES: dict[str, tuple[Callable[[], nn.Module], torch.dtype, Mode, float]] = {
    "float64": (lambda: Net(pyg.GATv2Conv), torch.float64, contextlib.nullcontext, 1e-12),
    "float64, sums at sources": (lambda: Net(lambda a, b: pyg.GCNConv(a, b, flow="target_to_source")), torch.float64,
                                 contextlib.nullcontext, 1e-12),
    "bf16": (Net, torch.bfloat16, contextlib.nullcontext, 0.03),
    "autocast": (lambda: Net(pyg.GCNConv), torch.float32, bf16, 0.03),
    "checkpoint": (lambda: Net(recompute="new"), torch.float32, contextlib.nullcontext, 1e-4),
    "checkpoint, reentrant": (lambda: Net(pyg.GATv2Conv, "reentrant"), torch.float32, contextlib.nullcontext, 1e-4),
    "reversible": (Reversible, torch.float32, contextlib.nullcontext, 1e-4),
}  # fmt: skip


def graph_of(kind: torch.dtype) -> dict[str, Tensor]:
    return {name: value.to(kind) if value.is_floating_point() else value for name, value in make_graph().items()}
