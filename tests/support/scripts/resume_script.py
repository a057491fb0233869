"""A plain script that a test runs: `fit` in one go and in two, with everything that remembers; prints what differs."""

import json
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from torch_geometric.data import Data

import halowire


class Net(torch.nn.Module):
    """Dropout, dropped edges, a norm with running statistics, and a weight that is used twice."""

    def __init__(self):
        super().__init__()
        self.drop = halowire.DropEdges(0.2, seed=1)
        self.first, self.last = pyg.SAGEConv(6, 8), pyg.SAGEConv(8, 8)
        self.norm, self.out = pyg.BatchNorm(8), torch.nn.Linear(8, 3)
        self.last.lin_l.weight = self.last.lin_r.weight

    def forward(self, x, edge_index):
        edge_index = self.drop(edge_index)
        h = F.dropout(self.norm(self.first(x, edge_index)).relu(), 0.3, self.training)
        return self.out(self.last(h, edge_index).relu())


folder, workers, recipe = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
graph = halowire.block_model(150, 900, 6, 3, seed=2)
masks = {name: getattr(graph, name) for name in ("train_mask", "val_mask", "test_mask")}
data = Data(x=graph.x, edge_index=graph.edge_index(), y=graph.y, **masks)
torch.manual_seed(0)
net = Net()


def fit(name, epochs, **more):
    settings = {"epochs": epochs, "eval.every": 3, "optim.lr": 0.02}
    return halowire.fit(net, data, workers, recipe, settings=settings, out=folder / name, quiet=True, **more)


whole = fit("whole", 6)
fit("parts", 3)
torch.manual_seed(99)
parts = fit("parts", 6, resume=True)
same = {
    "predictions": torch.equal(whole.predictions, parts.predictions),
    "loss": whole.summary["train_loss"] == parts.summary["train_loss"],
    "weights": all(torch.equal(a, b) for a, b in zip(whole.model.state_dict().values(),
                                                     parts.model.state_dict().values(), strict=True)),
    "tied": parts.model.last.lin_l.weight is parts.model.last.lin_r.weight,
}  # fmt: skip
print(json.dumps(same))
