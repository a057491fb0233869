"""A user's program trains a model of its own for three epochs: in a loop, or by `halowire.fit` if told ``fit``."""

from __future__ import annotations

import sys

import torch
from torch import Tensor, nn

import halowire

NODES, EDGES = 200, 1_000


class Mean(nn.Module):
    """Two layers that add up their neighbours' rows."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.second = nn.Linear(16, 3)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """The output of every node."""
        for layer in (self.first, self.second):
            rows = layer(x).relu()
            x = rows + torch.zeros_like(rows).index_add(0, edge_index[1], rows[edge_index[0]])
        return x


def graph() -> halowire.Graph:
    """A random graph."""
    torch.manual_seed(0)
    masks = {f"{name}_mask": torch.arange(NODES) % 3 == place for place, name in enumerate(("train", "val", "test"))}
    edges = torch.randint(NODES, (2, EDGES))
    return halowire.Graph.from_edge_index(edges, NODES, torch.randn(NODES, 8), torch.arange(NODES) % 3, **masks)


def loop() -> None:
    """The loop of a user's script."""
    data = halowire.shard(graph())
    model = halowire.distribute(Mean(), data)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(3):
        optimizer.zero_grad()
        loss = data.cross_entropy(model(data.x, data.edge_index), data.y, data.train_mask)
        loss.backward()
        optimizer.step()
    print("trained", float(loss))


if __name__ == "__main__":
    if sys.argv[1:] == ["fit"]:
        done = halowire.fit(Mean(), graph(), workers=2, settings={"epochs": 3})
        print("trained", done.summary["train_loss"])
    else:
        loop()
