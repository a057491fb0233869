"""A recommender on many workers: LightGCN or matrix factorisation, learnt by BPR, ranked by Recall@K and NDCG@K.

``torchrun --nproc-per-node 2 examples/recommender.py``; every worker keeps the rows of its own users and items.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import LGConv

import halowire
from halowire.pyg import ShardData

USERS, ITEMS, GROUPS = 300, 200, 5


class LightGCN(nn.Module):
    """The mean of ``layers + 1`` propagations of a row for each node; without layers, matrix factorisation."""

    def __init__(self, num_nodes: int, width: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(num_nodes, width)
        nn.init.normal_(self.embedding.weight, std=0.1, generator=torch.Generator().manual_seed(0))
        self.convs = nn.ModuleList([LGConv() for _ in range(layers)])

    def forward(self, edge_index: Tensor) -> Tensor:
        x = out = self.embedding.weight
        for conv in self.convs:
            x = conv(x, edge_index)
            out = out + x
        return out / (len(self.convs) + 1)


def interactions(seed: int = 0) -> tuple[Tensor, Tensor]:
    """Pairs (user, item) to learn and to test, ``[2, P]``: a user likes items of its own group. Items follow users."""
    generator = torch.Generator().manual_seed(seed)
    likes = torch.rand(USERS, ITEMS, generator=generator)
    same = torch.arange(USERS)[:, None] % GROUPS == torch.arange(ITEMS)[None] % GROUPS
    pairs = (likes < torch.where(same, 0.4, 0.02)).nonzero().t() + torch.tensor([[0], [USERS]])
    tested = torch.rand(pairs.shape[1], generator=generator) < 0.2
    return pairs[:, ~tested], pairs[:, tested]


def bpr_loss(data: ShardData, out: Tensor, pairs: Tensor, epoch: int, penalty: float = 1e-3) -> Tensor:
    """``mean -log sigmoid(u (i - j))`` over all pairs ``(u, i)``, each with a random item ``j``, of all workers."""
    generator = torch.Generator().manual_seed(epoch)  # the same items on any number of workers
    negative = torch.randint(USERS, USERS + ITEMS, (pairs.shape[1],), generator=generator)
    mine = data.places()[pairs[0]] >= 0
    user, item, other = data.rows_of(out, torch.stack([*pairs, negative])[:, mine])
    values = -F.logsigmoid((user * (item - other)).sum(-1))
    return data.mean(values + penalty * (user.square() + item.square() + other.square()).sum(-1))


@torch.no_grad()
def ranking(data: ShardData, out: Tensor, learnt: Tensor, tested: Tensor, k: int = 10) -> tuple[float, float]:
    """Recall@k and NDCG@k, means over the users of all workers; pairs that were learnt are not recommended."""
    users = data.rows[data.rows < USERS]
    scores = data.rows_of(out, users) @ data.rows_of(out, torch.arange(USERS, USERS + ITEMS)).t()
    is_learnt, is_tested = torch.zeros(2, USERS, ITEMS, dtype=torch.bool)
    is_learnt[learnt[0], learnt[1] - USERS] = True
    is_tested[tested[0], tested[1] - USERS] = True
    best = scores.masked_fill(is_learnt[users], -torch.inf).topk(k).indices
    hits, wanted = is_tested[users].gather(1, best).float(), is_tested[users].sum(1)
    discount = 1 / torch.log2(torch.arange(k) + 2.0)
    ideal = discount.cumsum(0)[wanted.clamp(1, k) - 1]
    counts = wanted > 0
    recall = data.mean((hits.sum(1) / wanted.clamp(min=1))[counts])
    ndcg = data.mean(((hits * discount).sum(1) / ideal)[counts])
    return float(recall), float(ndcg)


def train(layers: int, epochs: int = 60, transport: object = None, recipe: str = "exact") -> tuple[float, float, float]:
    """Loss, Recall@10 and NDCG@10 after training; ``layers`` 0 is matrix factorisation."""
    learnt, tested = interactions()
    graph = Data(edge_index=torch.cat([learnt, learnt.flip(0)], 1), num_nodes=USERS + ITEMS)
    data = halowire.shard(graph, device="cpu", transport=transport)
    model = halowire.distribute(LightGCN(USERS + ITEMS, 16, layers), data, recipe)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for epoch in range(epochs):
        optimizer.zero_grad()
        loss = bpr_loss(data, model(data.edge_index), learnt, epoch)
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        out = model.eval()(data.edge_index)
    recall, ndcg = ranking(data, out, learnt, tested)
    if data.shard.rank == 0 and transport is None:
        print(f"{layers} layers: loss {loss.item():.4f}, Recall@10 {recall:.4f}, NDCG@10 {ndcg:.4f}")
    return loss.item(), recall, ndcg


if __name__ == "__main__":
    for layers in (0, 2):
        train(layers)
