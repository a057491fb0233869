"""Link prediction on a graph of users and movies, as PyG's ``examples/hetero`` write it; the models are our own."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F
import torch_geometric
import torch_geometric.nn as pyg
from torch import Tensor, nn
from torch_geometric.data import HeteroData
from torch_geometric.transforms import RandomLinkSplit, ToUndirected

USERS, MOVIES, RATINGS = 31, 43, 260
HIDDEN, WIDTH = 8, 5
RATES = ("user", "rates", "movie")
BACK = ("movie", "rev_rates", "user")


def make_ratings(seed: int = 0) -> HeteroData:
    """Users that are told apart by their numbers, movies with features, ratings between them, movies that are alike."""
    generator = torch.Generator().manual_seed(seed)
    data = HeteroData()
    data["user"].x = torch.arange(USERS)
    data["movie"].x = torch.randn(MOVIES, WIDTH, generator=generator)
    pairs = torch.randperm(USERS * MOVIES, generator=generator)[:RATINGS]
    data[RATES].edge_index = torch.stack([pairs // MOVIES, pairs % MOVIES])
    data[RATES].edge_label = torch.randint(1, 6, (RATINGS,), generator=generator)
    data["movie", "sims", "movie"].edge_index = torch.randint(MOVIES, (2, 90), generator=generator)
    data = ToUndirected(merge=False)(data)
    del data[BACK].edge_label
    del data["movie", "rev_sims", "movie"]
    return data


def split_ratings(negatives: float = 0.0) -> tuple[HeteroData, ...]:
    """Training, validation and test graphs, as ``RandomLinkSplit`` makes them of one edge type and its reverse."""
    torch_geometric.seed_everything(3)
    data = make_ratings()
    if negatives:
        del data[RATES].edge_label
    split = RandomLinkSplit(0.1, 0.2, neg_sampling_ratio=negatives, edge_types=[RATES], rev_edge_types=[BACK])
    found: tuple[HeteroData, ...] = split(data)
    return found


def make_rating_owners(parts: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(5)
    return {"user": torch.randint(parts, (USERS,), generator=generator),
            "movie": torch.randint(parts, (MOVIES,), generator=generator)}  # fmt: skip


class Encoder(nn.Module):
    """Two layers of SAGE, for ``to_hetero``."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = pyg.SAGEConv((-1, -1), HIDDEN), pyg.SAGEConv((-1, -1), HIDDEN)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv2(self.conv1(x, edge_index).relu(), edge_index)


class Decoder(nn.Module):
    """A score of two rows side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.lin1, self.lin2 = nn.Linear(2 * HIDDEN, HIDDEN), nn.Linear(HIDDEN, 1)

    def forward(self, z_user: Tensor, z_movie: Tensor, edge_label_index: Tensor) -> Tensor:
        row, col = edge_label_index
        return self.lin2(self.lin1(torch.cat([z_user[row], z_movie[col]], dim=-1)).relu()).view(-1)


class HeteroLinkPred(nn.Module):
    """``hetero_link_pred.py``: forward takes the pairs; lazy layers, of all types."""

    def __init__(self, metadata: Any) -> None:
        super().__init__()
        self.user = nn.Embedding(USERS, HIDDEN)
        self.encoder = pyg.to_hetero(Encoder(), metadata, aggr="sum")
        self.decoder = Decoder()

    def forward(self, x_dict: Any, edge_index_dict: Any, edge_label_index: Tensor) -> Tensor:
        x_dict = {"user": self.user(x_dict["user"]), "movie": x_dict["movie"]}
        z = self.encoder(x_dict, edge_index_dict)
        return self.decoder(z["user"], z["movie"], edge_label_index)


class BipartiteSage(nn.Module):
    """``bipartite_sage.py`` and ``bipartite_sage_unsup.py``: an encoder of its own for each type, which changes
    ``x_dict``."""

    def __init__(self, metadata: Any) -> None:
        super().__init__()
        self.user = nn.Embedding(USERS, HIDDEN)
        self.alike, self.movie = pyg.SAGEConv(-1, HIDDEN), pyg.SAGEConv(-1, HIDDEN)
        self.first, self.second = pyg.SAGEConv((-1, -1), HIDDEN), pyg.SAGEConv((-1, -1), HIDDEN)
        self.decoder = Decoder()

    def forward(self, x_dict: Any, edge_index_dict: Any, edge_label_index: Tensor) -> Tensor:
        alike = edge_index_dict["movie", "sims", "movie"]
        x_dict["user"] = self.user(x_dict["user"])
        z_movie = self.movie(x_dict["movie"], alike).relu()
        h = self.alike(x_dict["movie"], alike).relu()
        x_dict["user"] = self.first([x_dict["movie"], x_dict["user"]], edge_index_dict[BACK]).relu()
        z_user = self.second((h, x_dict["user"]), edge_index_dict[BACK])
        return self.decoder(z_user, z_movie, edge_label_index)


class Recommender(nn.Module):
    """``recommender_system.py``: numbers of the nodes beside the features; ``encoder`` is called by itself too."""

    def __init__(self, metadata: Any) -> None:
        super().__init__()
        self.user, self.movie = nn.Embedding(USERS, HIDDEN), nn.Embedding(MOVIES, HIDDEN)
        self.encoder = pyg.to_hetero(Encoder(), metadata, aggr="sum")
        self.decoder = Decoder()

    def forward(self, user_id: Any, movie_id: Any, x_dict: Any, edge_index_dict: Any, pairs: Tensor) -> Tensor:
        rows = {"user": self.user(user_id), "movie": torch.cat([self.movie(movie_id), x_dict["movie"]], -1)}
        z = self.encoder(rows, edge_index_dict)
        return self.decoder(z["user"], z["movie"], pairs)


class WholeData(nn.Module):
    """PyG's tutorial of link prediction: forward takes the graph itself, with its pairs."""

    def __init__(self, metadata: Any) -> None:
        super().__init__()
        self.user = nn.Embedding(USERS, HIDDEN)
        self.encoder = pyg.to_hetero(Encoder(), metadata)
        self.decoder = Decoder()

    def forward(self, data: Any) -> Tensor:
        rows = {"user": self.user(data["user"].x), "movie": data["movie"].x}
        z = self.encoder(rows, data.edge_index_dict)
        return self.decoder(z["user"], z["movie"], data["user", "rates", "movie"].edge_label_index)


class Encoded(nn.Module):
    """Methods beside forward: ``encode``, then ``decode`` outside of a pass."""

    def __init__(self, metadata: Any) -> None:
        super().__init__()
        self.user = nn.Embedding(USERS, HIDDEN)
        self.convs = pyg.HeteroConv({kind: pyg.SAGEConv((-1, -1), HIDDEN) for kind in metadata[1]})
        self.weigh = nn.Bilinear(HIDDEN, HIDDEN, 1)

    def encode(self, x_dict: Any, edge_index_dict: Any) -> Any:
        return self.convs({"user": self.user(x_dict["user"]), "movie": x_dict["movie"]}, edge_index_dict)

    def decode(self, z: Any, pairs: Tensor) -> Tensor:
        return self.weigh(z["user"][pairs[0]], z["movie"][pairs[1]]).view(-1)

    def forward(self, x_dict: Any, edge_index_dict: Any) -> Any:
        return self.encode(x_dict, edge_index_dict)


def call_named(model: nn.Module, data: Any) -> Tensor:
    out: Tensor = model(data.x_dict, data.edge_index_dict, data["user", "movie"].edge_label_index)
    return out


def call_numbers(model: nn.Module, data: Any) -> Tensor:
    out: Tensor = model(
        data["user"].n_id, data["movie"].n_id, data.x_dict, data.edge_index_dict, data[RATES].edge_label_index
    )
    return out


def call_whole(model: nn.Module, data: Any) -> Tensor:
    out: Tensor = model(data)
    return out


def call_methods(model: Any, data: Any) -> Tensor:
    out: Tensor = model.decode(model.encode(data.x_dict, data.edge_index_dict), data["rates"].edge_label_index)
    return out


LINK_MODELS: dict[str, tuple[Any, Any, float]] = {
    "hetero_link_pred.py": (HeteroLinkPred, call_named, 0.0),
    "bipartite_sage.py": (BipartiteSage, call_named, 0.0),
    "bipartite_sage_unsup.py": (BipartiteSage, call_named, 1.0),
    "recommender_system.py": (Recommender, call_numbers, 0.0),
    "forward(data)": (WholeData, call_whole, 1.0),
    "encode and decode": (Encoded, call_methods, 1.0),
}
"""The model, how it is called, and how many negatives ``RandomLinkSplit`` draws for each pair."""


def graphs_of(name: str) -> tuple[HeteroData, HeteroData]:
    """The graphs that a model of `LINK_MODELS` is trained on and tested on."""
    train, _, test = split_ratings(LINK_MODELS[name][2])
    for data in (train, test):
        for kind, count in (("user", USERS), ("movie", MOVIES)):
            data[kind].n_id = torch.arange(count)
    return train, test


def build_link_model(name: str) -> nn.Module:
    """The model with the same weights wherever it is built; a first call on the whole graph gives it its widths."""
    make, call, _ = LINK_MODELS[name]
    data = graphs_of(name)[0]
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model: nn.Module = make(data.metadata())
        with torch.no_grad():
            call(model, data)
    return model


def learn_links(model: nn.Module, data: Any, test: Any, name: str, losses: Any) -> dict[str, Any]:
    """Three steps on ``data``, with the scores and gradients of the first; then the scores of ``test``."""
    _, call, negatives = LINK_MODELS[name]
    model, record = model.train(), {}
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(3):
        optimiser.zero_grad()
        scores, label = call(model, data), data["user", "movie"].edge_label
        kind = losses.binary_cross_entropy_with_logits if negatives else losses.mse_loss
        loss = kind(scores, label.float())
        loss.backward()
        if not step:
            record |= {"loss": loss.detach(), "scores": scores.detach()}
            record["grads"] = {key: value.grad.clone() for key, value in model.named_parameters()}
        optimiser.step()
    with torch.no_grad():
        record["tested"] = call(model.eval(), test)
    record["state"] = {key: value.detach().clone() for key, value in model.state_dict().items()}
    return record


def plain_links(name: str) -> dict[str, Any]:
    """The record of plain PyG."""
    train, test = graphs_of(name)
    return learn_links(copy.deepcopy(build_link_model(name)), train, test, name, F)
