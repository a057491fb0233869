"""A heterogeneous graph in a training loop of one's own: ``torchrun --nproc-per-node 2 examples/hetero.py``.

Papers, authors and venues: the class of a paper shows in its authors and in the papers it cites, hardly in its words.
"""

import torch
import torch.nn.functional as F
from torch_geometric.data import HeteroData
from torch_geometric.nn import HeteroConv, Linear, SAGEConv
from torch_geometric.transforms import ToUndirected

import halowire

PAPERS, AUTHORS, VENUES, CLASSES = 2000, 800, 20, 4


def make_graph() -> HeteroData:
    """The same graph in every process: it is drawn from a seed."""
    draw = torch.Generator().manual_seed(0)
    topic = {name: torch.arange(count) % CLASSES for name, count in (("paper", PAPERS), ("author", AUTHORS))}

    def alike(source: str, count: int) -> torch.Tensor:
        """Edges to papers, 4 of 5 of them from nodes of the paper's topic."""
        ends = torch.stack([torch.randint(topic[name].numel(), (count,), generator=draw) for name in (source, "paper")])
        near = ends[0] - topic[source][ends[0]] + topic["paper"][ends[1]]
        ends[0] = torch.where(torch.rand(count, generator=draw) < 0.8, near, ends[0])
        return ends

    data = HeteroData()
    data["paper"].x = F.one_hot(topic["paper"], 16).float() + 2 * torch.randn(PAPERS, 16, generator=draw)
    data["author"].x = F.one_hot(topic["author"], 8).float() + 2 * torch.randn(AUTHORS, 8, generator=draw)
    data["venue"].x = torch.eye(VENUES)
    data["paper"].y = topic["paper"]
    data["paper"].train_mask = torch.rand(PAPERS, generator=draw) < 0.3
    data["author", "writes", "paper"].edge_index = alike("author", 3 * PAPERS)
    data["paper", "cites", "paper"].edge_index = alike("paper", 4 * PAPERS)
    venue = torch.randint(VENUES, (PAPERS,), generator=draw)
    data["venue", "prints", "paper"].edge_index = torch.stack([venue, torch.arange(PAPERS)])
    return ToUndirected()(data)


class Model(torch.nn.Module):
    """A map of its own for every node type, then two layers with a SAGEConv for every edge type."""

    def __init__(self, graph: HeteroData, hidden: int = 32) -> None:
        super().__init__()
        self.enter = torch.nn.ModuleDict({name: Linear(graph[name].num_features, hidden) for name in graph.node_types})
        self.convs = torch.nn.ModuleList(
            HeteroConv({kind: SAGEConv(hidden, hidden) for kind in graph.edge_types}) for _ in range(2)
        )
        self.leave = Linear(hidden, CLASSES)

    def forward(self, x_dict, edge_index_dict):
        h = {name: self.enter[name](x).relu() for name, x in x_dict.items()}
        for conv in self.convs:
            h = {name: rows.relu() for name, rows in conv(h, edge_index_dict).items()}
        return self.leave(h["paper"])


torch.manual_seed(0)
graph = make_graph()
data = halowire.shard(graph)
model = halowire.distribute(Model(graph), data, recipe="halowire")
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
paper = data["paper"]
for _ in range(40):
    optimizer.zero_grad()
    out = model(data.x_dict, data.edge_index_dict)
    loss = data.cross_entropy(out, paper.y, paper.train_mask)
    loss.backward()
    optimizer.step()
model.eval()
with torch.no_grad():
    correct = model(data.x_dict, data.edge_index_dict).argmax(1) == paper.y
accuracy = data.mean(correct[~paper.train_mask].float())
if data.shard.rank == 0:
    print(f"loss {loss:.4f}, test accuracy {accuracy:.4f}")
