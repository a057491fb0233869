"""Which pairs of nodes are linked: a PyG encoder on two local workers: ``python examples/link_prediction.py``.

A share of the edges is held out, nothing travels along them, and the encoder learns rows whose dot product is high
where there is an edge. Each held-out edge is ranked among 100 pairs without one, over all workers.
"""

import torch
from torch_geometric.nn.models import GraphSAGE

import halowire

graph = halowire.block_model(1000, 20000, 16, 10, homophily=0.95, feature_noise=0.5, seed=0)
torch.manual_seed(0)
encoder = GraphSAGE(16, 64, 2, 32)
done = halowire.fit(encoder, graph, workers=2, task="link", settings={"epochs": 60, "optim.lr": 0.01}, quiet=True)

rows = done.predictions  # [nodes, 32], in the order of the graph
source, target = graph.edge_index()[:, :5]
print("scores of five edges:", [round(float(score), 2) for score in (rows[source] * rows[target]).sum(1)])
print(f"MRR of the held-out edges {done.summary['test']:.4f}")
