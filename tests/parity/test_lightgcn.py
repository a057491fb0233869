"""PyG's own ``LightGCN`` class equals plain PyG: scores, both of its losses, its steps and its recommendations."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn import LightGCN

import halowire
from halowire.errors import InputError
from halowire.pyg.shard_data import cut_data
from halowire.wire import Transport, run_threads
from tests.support.interactions import USERS, interactions
from tests.support.pyg_case import NODES, assert_close, make_owner, seeded


def trained(model: Any, data: Any, kind: str, pairs: Tensor) -> dict[str, Any]:
    """Three steps as PyG's ``examples/lightgcn.py`` writes them; ``pairs`` are the positive, then the negative ones."""
    optimizer = torch.optim.SGD(model.parameters(), lr=2.0)
    losses, scores = [], []
    for _ in range(3):
        optimizer.zero_grad()
        rank = model(data.edge_index, pairs)
        positive, negative = rank.chunk(2)
        if kind == "ranking":
            loss = model.recommendation_loss(positive, negative, node_id=pairs.unique(), lambda_reg=0.1)
        else:
            loss = model.link_pred_loss(rank, torch.cat([torch.ones_like(positive), torch.zeros_like(negative)]))
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        scores.append(rank.detach())
    model.eval()
    with torch.no_grad():
        best = model.recommend(data.edge_index, src_index=torch.arange(7), dst_index=torch.arange(USERS, NODES), k=5)
        guess = model.predict_link(data.edge_index, pairs, prob=True)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    return {"losses": losses, "scores": scores, "state": state, "best": best, "guess": guess}


@pytest.mark.parametrize(("kind", "workers"), [("ranking", 2), ("ranking", 3), ("links", 2)])
def test_three_steps_equal_plain_pyg(kind, workers):
    graph, positive, negative = interactions()
    pairs = torch.cat([positive, negative], 1)
    model = seeded(lambda: LightGCN(NODES, 8, 2))
    want = trained(copy.deepcopy(model), Data(**graph, num_nodes=NODES), kind, pairs)

    def here(transport: Transport) -> tuple[dict[str, Any], Tensor]:
        data = cut_data(graph, make_owner(transport.size), transport)
        own = halowire.distribute(copy.deepcopy(model), data)
        assert own.embedding.weight.shape == (data.num_nodes, 8)
        found = trained(own, data, kind, data.pairs(pairs))
        transport.settle()
        return found, data.node_places.owner[pairs[0]] == transport.rank

    for found, mine in run_threads(workers, here):
        for step in range(3):
            assert_close("loss", found["losses"][step], want["losses"][step])
            assert_close("scores", found["scores"][step], want["scores"][step][mine], float(want["scores"][step].max()))
        assert_close("guess", found["guess"], want["guess"][mine])
        assert torch.equal(found["best"], want["best"])
        for name, value in want["state"].items():
            assert_close(name, found["state"][name], value)


def test_rows_of_edges_and_all_recommendations():
    graph, _, _ = interactions()
    model = seeded(lambda: LightGCN(NODES, 8, 2)).eval()
    with torch.no_grad():
        want = model(graph["edge_index"]), model.recommend(graph["edge_index"], k=3)

    def here(transport: Transport) -> None:
        data = cut_data(graph, make_owner(transport.size), transport)
        own = halowire.distribute(copy.deepcopy(model), data).eval()
        with torch.no_grad():
            scores, best = own(data.edge_index), data.gather(own.recommend(data.edge_index, k=3))
            total = data.gather(scores)
        assert torch.equal(best, want[1])
        assert_close("scores", total.sort().values, want[0].sort().values)
        with pytest.raises(InputError, match=r"make them pairs: data\.pairs\(index\)"):
            own(data.edge_index, torch.zeros(2, 4, dtype=torch.int64))

    run_threads(2, here)


@pytest.mark.parametrize("recipe", ["halowire", pytest.param("sylvie-a", marks=pytest.mark.slow)])
def test_coded_rows_learn(recipe):
    graph, positive, negative = interactions()
    pairs = torch.cat([positive, negative], 1)
    model = seeded(lambda: LightGCN(NODES, 8, 2))

    def here(transport: Transport) -> list[float]:
        data = cut_data(graph, make_owner(transport.size), transport)
        own = halowire.distribute(copy.deepcopy(model), data, recipe)
        optimizer, own_pairs, losses = torch.optim.Adam(own.parameters(), lr=0.05), data.pairs(pairs), []
        for _ in range(25):
            optimizer.zero_grad()
            loss = own.recommendation_loss(*own(data.edge_index, own_pairs).chunk(2), own_pairs.unique())
            loss.backward()
            optimizer.step()
            losses.append(float(loss))
        transport.settle()
        return losses

    losses = run_threads(2, here)[0]
    assert losses[-1] < 0.7 * losses[0]
