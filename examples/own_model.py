"""A PyG model of one's own on two local workers, in one call: ``python examples/own_model.py``."""

import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv, SAGEConv

import halowire


class Net(torch.nn.Module):
    def __init__(self, features, hidden, classes):
        super().__init__()
        self.first = SAGEConv(features, hidden)
        self.second = GCNConv(hidden, classes)

    def forward(self, x, edge_index):
        x = self.first(x, edge_index).relu()
        return self.second(torch.nn.functional.dropout(x, 0.3, self.training), edge_index)


graph = halowire.block_model(2000, 20000, 16, 5, seed=0)  # or any graph of yours, as PyG Data
masks = {name: getattr(graph, name) for name in ("train_mask", "val_mask", "test_mask")}
data = Data(x=graph.x, edge_index=graph.edge_index(), y=graph.y, **masks)
torch.manual_seed(0)
done = halowire.fit(Net(16, 64, 5), data, workers=2, recipe="sylvie-a", settings={"epochs": 40}, quiet=True)

right = done.model(data.x, data.edge_index).argmax(1) == data.y  # the trained model is a plain PyG model again
print(f"report in {done.report}, test accuracy {right[data.test_mask].float().mean():.4f}")
