"""A user's own program: a PyG model trained by ``halowire.fit``; the flags are those of ``halowire train``."""

from __future__ import annotations

import argparse
import os
import sys

import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from torch import Tensor
from torch_geometric.data import Data

import halowire
from halowire.errors import explain


class Net(torch.nn.Module):
    """Two layers with dropout between them."""

    def __init__(self) -> None:
        super().__init__()
        self.first = pyg.SAGEConv(8, 16)
        self.second = pyg.SAGEConv(16, 3)
        self.passes = 0

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """The logits of all nodes; in training pass ``SOAK_NAN`` of worker 1 a weight goes bad, as memory does."""
        self.passes += self.training
        if self.training and str(self.passes) == os.environ.get("SOAK_NAN") and os.environ.get("RANK") == "1":
            self.second.lin_l.weight.data[0, 0] = float("nan")
        hidden = F.dropout(self.first(x, edge_index).relu(), 0.4, self.training)
        logits: Tensor = self.second(hidden, edge_index)
        return logits


def main() -> int:
    """Train, or go on; the exit code is that of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--checkpoint.every", type=int, dest="every", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--deadline", type=float, default=600.0)
    parser.add_argument("--max-restarts", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--on-nan", default="stop")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--overwrite", action="store_true")
    given = parser.parse_args()
    graph = halowire.block_model(400, 2400, 8, 3, seed=0)
    masks = {name: getattr(graph, name) for name in ("train_mask", "val_mask", "test_mask")}
    data = Data(x=graph.x, edge_index=graph.edge_index(), y=graph.y, **masks)
    torch.manual_seed(0)
    settings = {"epochs": given.epochs, "eval.every": 50, "checkpoint.every": given.every, "threads": 1}
    settings |= {"deadline": given.deadline, "on_nan": given.on_nan}
    try:
        halowire.fit(
            Net(), data, given.workers, "sylvie-a", settings=settings, out=given.out, resume=given.resume,
            overwrite=given.overwrite, max_restarts=given.max_restarts, quiet=True,
        )  # fmt: skip
    except (Exception, KeyboardInterrupt) as error:
        found = explain(error)
        if found is None:
            raise
        print(f"halowire: {found[1]}", file=sys.stderr)
        return found[0]
    return 0


if __name__ == "__main__":
    sys.exit(main())
