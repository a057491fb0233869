"""Outside of a model, what is computed of each row by itself has the mean that it has on the whole graph."""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from torch import nn
from torch.distributions import Categorical, Normal
from torch_geometric.utils import add_self_loops, scatter

import halowire
from halowire.pyg.own_rows import OwnEdges, OwnRows, plain
from halowire.pyg.shard_data import cut_data
from halowire.wire import run_threads
from tests.support.pyg_case import NODES, assert_close, make_graph, make_owner, seeded
from tests.support.pyg_models import two

LABELS = torch.arange(NODES) % 4
EDGES = make_graph()["edge_index"].shape[1]
VALUES = torch.rand(EDGES, 3, generator=torch.Generator().manual_seed(4))
GRAPH = make_graph() | {"y": LABELS, "train_mask": torch.arange(NODES) % 3 == 0}
GRAPH |= {"edge_attr": VALUES, "edge_weight": VALUES[:, 0], "edge_type": torch.arange(EDGES) % 3}
MODEL = seeded(lambda: two(pyg.SAGEConv))
HOT = torch.eye(4)
WIDE = torch.arange(12.0).view(4, 3) / 12


def make_parts():
    return {
        "mlp": nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 2)),
        "cell": nn.GRUCell(4, 4), "gru": nn.GRU(2, 4, batch_first=True), "late": nn.GRU(2, 4), "lstm": nn.LSTM(2, 4),
        "attention": nn.MultiheadAttention(4, 2, batch_first=True), "conv": nn.Conv1d(1, 2, 3), "table": HOT,
        "transformer": nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True), "mask": nn.Parameter(HOT[0] + 1),
        "embedding": nn.Embedding(4, 4), "bilinear": nn.Bilinear(4, 4, 2), "prelu": nn.PReLU(),
    }  # fmt: skip


PARTS = seeded(make_parts)


def pair(z):
    return torch.stack([z, z * 2], 1)


def changed(z, mask):
    out = z.clone()
    out[mask] = 0.5
    out[:, 0] += 1
    return out.mul_(2)


ROWS = {
    "heads": lambda z, y, mask: z.view(-1, 2, 2).softmax(-1),
    "a mean of heads": lambda z, y, mask: z.view(len(z), 2, 2).mean(1),
    "heads first": lambda z, y, mask: z.view(-1, 2, 2).permute(1, 0, 2).softmax(-1).mean(0),
    "columns side by side": lambda z, y, mask: torch.cat([z, z * 2], 1).view(len(z), 2, 4).mean(1),
    "rows on top of each other": lambda z, y, mask: torch.cat([z, z * 2]).square().mean(1),
    "stacked last": lambda z, y, mask: torch.stack([z, z * 2], -1).mean(-1),
    "stacked first": lambda z, y, mask: torch.stack([z, z * 2]).amax(0),
    "stacked values of rows": lambda z, y, mask: torch.stack([z.sum(1), z.mean(1)], 1).softmax(1),
    "a mask": lambda z, y, mask: (z[mask & (y != 1)] - 1).abs().sum(1),
    "a learnt mask": lambda z, y, mask: z * PARTS["mask"].sigmoid(),
    "a head": lambda z, y, mask: PARTS["mlp"](z),
    "labels looked up": lambda z, y, mask: PARTS["embedding"](y) * z + PARTS["table"][y],
    "one-hot labels": lambda z, y, mask: F.kl_div(z.log_softmax(-1), F.one_hot(y, 4) * 0.9 + 0.025, reduction="none"),
    "margins": lambda z, y, mask: F.multi_margin_loss(z, y, reduction="none"),
    "a variance": lambda z, y, mask: F.gaussian_nll_loss(z[:, 0], y.float(), z[:, 1].exp(), reduction="none"),
    "focal": lambda z, y, mask: (1 - torch.exp(-F.cross_entropy(z, y, reduction="none"))) ** 2,
    "columns of the same shape": lambda z, y, mask: F.mse_loss(z[:, :1], y.float().view(-1, 1), reduction="none"),
    "a cell": lambda z, y, mask: PARTS["cell"](z, z),
    "a GRU for each row": lambda z, y, mask: PARTS["gru"](z.view(-1, 2, 2))[0][:, -1],
    "a GRU's last state": lambda z, y, mask: PARTS["late"](z.view(-1, 2, 2).permute(1, 0, 2))[1][-1],
    "an LSTM's last state": lambda z, y, mask: PARTS["lstm"](z.view(-1, 2, 2).transpose(0, 1))[1][0][0],
    "attention in each row": lambda z, y, mask: PARTS["attention"](pair(z), pair(z), pair(z))[0].mean(1),
    "a transformer in each row": lambda z, y, mask: PARTS["transformer"](pair(z)).square().sum(-1),
    "a convolution in each row": lambda z, y, mask: PARTS["conv"](z[:, None]).flatten(1),
    "semantic attention": lambda z, y, mask: (pair(z) * WIDE[:2, :1].softmax(0)).sum(1),
    "cosines": lambda z, y, mask: 1 - F.cosine_similarity(z, z + 1, dim=-1),
    "distances": lambda z, y, mask: F.pairwise_distance(z, z * 2),
    "products": lambda z, y, mask: torch.einsum("nd,de->ne", z, WIDE) + z @ WIDE + torch.addmm(WIDE[0, :3], z, WIDE),
    "products of each row": lambda z, y, mask: torch.bmm(z.view(-1, 1, 4), z.view(-1, 4, 1)).squeeze(-1),
    "an outer product of each row": lambda z, y, mask: torch.einsum("nd,ne->nde", z, z).triu(1),
    "tensordot": lambda z, y, mask: torch.tensordot(z, WIDE, dims=1),
    "turned and back": lambda z, y, mask: (z @ WIDE).T.softmax(0).T,
    "gather": lambda z, y, mask: -z.log_softmax(1).gather(1, y.view(-1, 1)).squeeze(1),
    "one entry of each row": lambda z, y, mask: z[torch.arange(len(z)), y],
    "where": lambda z, y, mask: torch.where(mask[:, None], z, torch.zeros_like(z)),
    "the best columns": lambda z, y, mask: z.topk(2, dim=1).values + z.max(dim=1, keepdim=True)[0],
    "repeated columns": lambda z, y, mask: z[:, :1].expand(-1, 4) * z + z.repeat(1, 2)[:, 4:],
    "samples of each row": lambda z, y, mask: z.unsqueeze(0).expand(3, -1, -1) + HOT[:3, :1, None],
    "rows repeated": lambda z, y, mask: z.repeat_interleave(3, 0) * z.repeat_interleave(3, 0),
    "densities": lambda z, y, mask: Normal(z, z.exp()).log_prob(z + 1),
    "entropies": lambda z, y, mask: Categorical(logits=z).entropy() + Categorical(logits=z).log_prob(y),
    "parts of columns": lambda z, y, mask: torch.mul(*z.chunk(2, dim=-1)) + sum(z.split(2, 1)),
    "changed in place": lambda z, y, mask: changed(z, mask),
    "new zeros": lambda z, y, mask: (z.new_zeros(len(z), 4).scatter_(1, y[:, None], 1.0) * z).sum(1),
    "norms within rows": lambda z, y, mask: (F.group_norm(z, 2) + F.layer_norm(z, (4,))).square(),
    "norms of channels": lambda z, y, mask: F.instance_norm(z[:, None])[:, 0].exp(),
    "standardised rows": lambda z, y, mask: ((z - z.mean(1, keepdim=True)) / z.std(1, keepdim=True)).exp(),
    "quantiles": lambda z, y, mask: torch.quantile(z, 0.5, dim=1) + z.median(1).values,
    "complex numbers": lambda z, y, mask: torch.view_as_complex(z.view(-1, 2, 2)).abs(),
    "determinants": lambda z, y, mask: torch.linalg.det(z.view(-1, 2, 2)),
    "activations": lambda z, y, mask: F.gelu(z) + F.elu(z) + F.silu(z) + F.softplus(z) + F.logsigmoid(z) + F.relu6(z)
        + F.selu(z) + F.mish(z) + F.celu(z) + F.threshold(z, 0, 0) + F.softsign(z) + PARTS["prelu"](z),
    "bilinear": lambda z, y, mask: PARTS["bilinear"](z, z) + F.glu(z, -1),
}  # fmt: skip


def place(transport):
    data = cut_data(GRAPH, make_owner(transport.size), transport)
    return data, halowire.distribute(copy.deepcopy(MODEL), data)


def test_values_of_each_row_have_the_mean_of_the_whole_graph():
    whole = MODEL(GRAPH["x"], GRAPH["edge_index"]).detach()
    want = {name: plain(make(whole, LABELS, GRAPH["train_mask"])).mean() for name, make in ROWS.items()}

    def here(transport):
        data, model = place(transport)
        with torch.no_grad():
            z = model(data.x, data.edge_index)
            return {name: data.mean(make(z, data.y, data.train_mask)) for name, make in ROWS.items()}

    for found in run_threads(2, here):
        for name, value in want.items():
            assert_close(name, found[name].detach(), value.detach())


def test_values_of_edges_are_changed_picked_added_up_and_gathered():
    target, weight = GRAPH["edge_index"][1], GRAPH["edge_weight"]
    strength = torch.zeros(NODES).index_add_(0, target, weight)
    means = torch.zeros(NODES, 3).index_reduce_(0, target, VALUES, "mean", include_self=False)

    def here(transport):
        data, _ = place(transport)
        assert type(data.edge_attr) is type(data.edge_type) is OwnEdges
        values = F.normalize(data.edge_attr[:, :2] * 2, dim=1).clamp(max=0.9)
        assert_close("values", data.gather(values), F.normalize(VALUES[:, :2] * 2, dim=1).clamp(max=0.9))
        assert_close("mean", data.mean(data.edge_weight.square()), weight.square().mean())
        assert_close("picked", data.mean(data.edge_weight[data.edge_type == 1]), weight[1::3].mean())
        for found, want, how in ((data.edge_weight, strength, "sum"), (data.edge_attr, means, "mean")):
            rows = scatter(found, data.edge_index[1], 0, data.num_nodes, reduce=how)
            assert type(rows) is OwnRows
            assert_close(how, data.gather(rows), want)
        assert data.edge_index[:, data.edge_weight > 0.3].shape[1] == int(plain(data.edge_weight > 0.3).sum())
        return add_self_loops(data.edge_index, data.edge_weight, num_nodes=data.num_nodes)[1].shape[0]

    assert sum(run_threads(2, here)) == EDGES + NODES
