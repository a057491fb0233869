"""A PyG model in a training loop of one's own: ``torchrun --nproc-per-node 2 examples/own_loop.py``."""

import torch
import torch.nn.functional as F
from torch_geometric.nn.models import GraphSAGE

import halowire

torch.manual_seed(0)
data = halowire.shard("sbm:nodes=2000,edges=20000,features=16,classes=5")
model = halowire.distribute(GraphSAGE(16, 64, 2, 5), data, recipe="sylvie-s")
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(60):
    model.train()
    optimizer.zero_grad()
    out = model(data.x, data.edge_index)
    loss = data.mean(F.cross_entropy(out[data.train_mask], data.y[data.train_mask], reduction="none"))
    loss.backward()
    optimizer.step()
model.eval()
with torch.no_grad():
    correct = model(data.x, data.edge_index).argmax(1) == data.y
accuracy = data.mean(correct[data.test_mask].float())
if data.shard.rank == 0:
    print(f"loss {loss:.4f}, test accuracy {accuracy:.4f}")
