"""A plain script that a test runs: layers and a loss of its own, ``halowire.fit``, and the same loop in plain PyG."""

import copy
import json
import sys

import torch
import torch.nn.functional as F
from torch_geometric.data import Data
from torch_geometric.nn import BatchNorm, GCNConv, MessagePassing

import halowire

EPOCHS, SLOPE = 6, 0.1


def activation(x):
    return F.elu(x)


class Difference(MessagePassing):
    """A layer of the script's own, with a keyword default, a global and edge features."""

    def __init__(self, channels, out):
        super().__init__(aggr="mean")
        self.lin, self.edge = torch.nn.Linear(channels, out), torch.nn.Linear(2, out)

    def forward(self, x, edge_index, edge_attr):
        return self.propagate(edge_index, x=self.lin(x), edge_attr=edge_attr)

    def message(self, x_i, x_j, edge_attr, slope=SLOPE):
        return activation(x_j - slope * x_i) * self.edge(edge_attr).sigmoid()


class Net(torch.nn.Module):
    """Two layers and a norm over all nodes."""

    def __init__(self, channels, classes):
        super().__init__()
        self.first, self.norm, self.last = Difference(channels, 16), BatchNorm(16), GCNConv(16, classes)

    def forward(self, x, edge_index, edge_attr):
        return self.last(self.norm(self.first(x, edge_index, edge_attr)), edge_index)


def smooth_loss(out, part):
    mask = part.train_mask
    return F.cross_entropy(out[mask], part.y[mask], reduction="none", label_smoothing=SLOPE)


graph = halowire.block_model(300, 2000, 8, 3, seed=1)
torch.manual_seed(0)
masks = {name: getattr(graph, name) for name in ("train_mask", "val_mask", "test_mask")}
edge_index = graph.edge_index()[:, torch.randperm(graph.num_edges)]
data = Data(x=graph.x, edge_index=edge_index, y=graph.y, edge_attr=torch.randn(graph.num_edges, 2), **masks)
net = Net(8, 3)
before = copy.deepcopy(net.state_dict())
settings = {"epochs": EPOCHS, "eval.every": EPOCHS, "optim.lr": 0.01}
done = halowire.fit(net, data, workers=2, loss=smooth_loss, settings=settings, out=sys.argv[1], quiet=True)

assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items()), "the given model is unchanged"
plain = copy.deepcopy(net)
optimiser = torch.optim.Adam(plain.parameters(), lr=0.01)
for _ in range(EPOCHS):
    optimiser.zero_grad()
    loss = smooth_loss(plain(data.x, data.edge_index, data.edge_attr), data).mean()
    loss.backward()
    optimiser.step()
plain.eval()
with torch.no_grad():
    want, got = (model(data.x, data.edge_index, data.edge_attr) for model in (plain, done.model))
scale = float(want.abs().max())
facts = {
    "loss": [float(loss), done.summary["train_loss"]],
    "trained": float((got - want).abs().max()) / scale,
    "predicted": float((done.predictions - want).abs().max()) / scale,
    "model": done.summary["model"],
    "report": done.report.exists(),
    "test": [float((want.argmax(1) == data.y)[data.test_mask].float().mean()), done.summary["test"]],
}
print(json.dumps(facts))
