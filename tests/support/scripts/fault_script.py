"""A plain script that a test starts to end it early: ``fault_script.py KIND RUN``; it prints what its caller gets."""

import sys

import torch
import torch.nn.functional as F
from torch_geometric.nn import GCNConv

import halowire

KIND, RUN = sys.argv[1:]


def loss(out, part):
    if KIND == "error" and part.shard.rank == 1:
        raise ValueError(f"no values for {part.num_nodes * 0} rows")
    return F.cross_entropy(out[part.train_mask], part.y[part.train_mask], reduction="none")


class Net(torch.nn.Module):
    """One layer."""

    def __init__(self):
        super().__init__()
        self.conv = GCNConv(4, 3)

    def forward(self, x, edge_index):
        return self.conv(x, edge_index)


settings = {"epochs": 100_000, "eval.every": 50_000, "threads": 1}
try:
    halowire.fit(
        Net(), halowire.block_model(80, 400, 4, 3), workers=2, loss=loss, settings=settings, out=RUN, quiet=True
    )
except BaseException as error:
    print(f"{type(error).__name__}: {error}")
