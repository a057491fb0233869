"""Link prediction between node types equals plain PyG: scores, gradients, three steps, on two and three workers."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch_geometric.data import HeteroData

import halowire
from halowire.errors import InputError
from halowire.pyg.hetero_data import cut_hetero
from halowire.wire import Transport, run_threads
from tests.support.pyg_case import assert_close
from tests.support.typed_pair_case import (
    BACK,
    LINK_MODELS,
    MOVIES,
    RATES,
    USERS,
    build_link_model,
    graphs_of,
    learn_links,
    make_rating_owners,
    plain_links,
    split_ratings,
)


def run_links(transport: Transport, name: str, model: nn.Module, graphs: tuple[HeteroData, ...]) -> dict[str, object]:
    train, test = (cut_hetero(data, make_rating_owners(transport.size), transport) for data in graphs)
    model = halowire.distribute(copy.deepcopy(model), train)
    record = learn_links(model, train, test, name, train)
    record |= {"rows": train.pair_rows[RATES, "edge_label_index"][0]}
    record |= {"tested rows": test.pair_rows[RATES, "edge_label_index"][0]}
    transport.settle()
    return record


def compare(found: list[dict[str, object]], want: dict[str, object]) -> None:
    for scores, rows in (("scores", "rows"), ("tested", "tested rows")):
        got = torch.full_like(want[scores], torch.nan)
        for part in found:
            got[part[rows]] = part[scores]
        assert_close(scores, got, want[scores])
    scale = max(float(grad.abs().max()) for grad in want["grads"].values())
    for part in found:
        assert_close("loss", part["loss"], want["loss"])
        for name, grad in want["grads"].items():
            assert_close(f"gradient of {name}", part["grads"][name], grad, floor=0.01 * scale)
        for name, value in want["state"].items():
            assert_close(name, part["state"][name], value)


@pytest.mark.parametrize("workers", [2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", LINK_MODELS)
def test_three_steps_equal_plain_pyg(name, workers):
    model, graphs = build_link_model(name), graphs_of(name)
    found = run_threads(workers, lambda transport: run_links(transport, name, model, graphs))
    compare(found, plain_links(name))


def links_here(rank: int, name: str) -> dict[str, object]:
    return run_links(Transport(), name, build_link_model(name), graphs_of(name))


@pytest.mark.parametrize("workers", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_real_workers_equal_plain_pyg(on_workers, workers):
    compare(on_workers(workers, links_here, "hetero_link_pred.py"), plain_links("hetero_link_pred.py"))


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["halowire", "sylvie-s", "sylvie-a", "varco", "bns", "half"])
@pytest.mark.parametrize("name", ["hetero_link_pred.py", "encode and decode"])
def test_coded_rows_learn(name, recipe):
    whole, plain, call = graphs_of(name)[0], build_link_model(name), LINK_MODELS[name][1]

    def here(transport):
        train = cut_hetero(whole, make_rating_owners(2), transport)
        model = halowire.distribute(copy.deepcopy(plain), train, recipe)
        optimiser, losses = torch.optim.Adam(model.parameters(), lr=0.02), []
        for _ in range(40):
            optimiser.zero_grad()
            scores, label = call(model, train), train[RATES].edge_label.float()
            loss = train.mse_loss(scores, label)
            loss.backward()
            optimiser.step()
            losses.append(float(loss.detach()))
        transport.settle()
        return losses

    first, second = run_threads(2, here)
    assert first == second and sum(first[-5:]) < 0.8 * sum(first[:5])


def test_lazy_layers_get_their_widths_from_the_part():
    """Where pairs stand at one edge type only, forward can be called by the names of its parameters."""
    train, _ = graphs_of("hetero_link_pred.py")
    plain = LINK_MODELS["hetero_link_pred.py"][0](train.metadata())

    def here(transport):
        data = cut_hetero(train, make_rating_owners(2), transport)
        model = halowire.distribute(copy.deepcopy(plain), data)
        return float(data.mean(model(data.x_dict, data.edge_index_dict, data["rates"].edge_label_index)).detach())

    first, second = run_threads(2, here)
    assert first == second


def test_drawn_pairs_are_no_edges_and_the_same_on_any_number_of_workers():
    train = split_ratings()[0]
    edges = {kind: set(map(tuple, train[kind].edge_index.t().tolist())) for kind in (RATES, BACK)}

    def here(transport):
        data = cut_hetero(train, make_rating_owners(transport.size), transport)
        draws = [data.negative_sampling(150, kind) for kind in (RATES, ("movie", "user"), "sims", RATES)]
        return [data.gather(draw.as_subclass(torch.Tensor).t()) for draw in draws]

    found = [run_threads(workers, here)[0] for workers in (1, 3)]
    for one, three in zip(*found, strict=True):
        assert len(three) == 150 and sorted(one.tolist()) == sorted(three.tolist())
    rates, back, alike, again = ([tuple(pair) for pair in draw.tolist()] for draw in found[1])
    assert not edges[RATES] & {*rates, *again} and not edges[BACK] & set(back) and rates != again
    assert all(first != second for first, second in alike)
    assert max(user for user, _ in rates) < USERS <= max(movie for _, movie in rates) < MOVIES


def test_pairs_of_other_types_are_made_joined_and_read():
    whole = torch.stack([torch.arange(30) % MOVIES, torch.arange(30) * 7 % USERS])
    train = split_ratings()[0]

    def here(transport):
        data = cut_hetero(train, make_rating_owners(2), transport)
        pairs = torch.cat([data.pairs(whole, ("movie", "user")), data.negative_sampling(20, BACK)], dim=1)
        movie, user = pairs.flip(0)[1], pairs[1:][0]
        stacked = torch.stack([movie, user])
        places = {name: data[name].rows.double() for name in ("movie", "user")}
        plain = pairs.as_subclass(torch.Tensor)
        assert torch.equal(places["movie"][movie], plain[0].double())
        assert torch.equal(places["user"][stacked[1]], plain[1].double())
        assert torch.equal(places["user"][pairs[:, :3][1]], plain[1, :3].double())
        return plain.t().tolist()

    assert sum(map(len, run_threads(2, here))) == 50


def test_wrong_uses_of_pairs_are_refused_with_what_to_write():
    train, plain = graphs_of("encode and decode")[0], build_link_model("encode and decode")

    def here(transport):
        data = cut_hetero(train, make_rating_owners(2), transport)
        model = halowire.distribute(copy.deepcopy(plain), data)
        z, pairs = model.encode(data.x_dict, data.edge_index_dict), data[RATES].edge_label_index
        for wrong, words in (
            (lambda: z["user"][pairs], "read each end by itself"),
            (lambda: torch.zeros(USERS + 1, 2)[pairs[0]], "one row for each of the .* user of this worker"),
            (lambda: torch.cat([pairs, data.negative_sampling(9, BACK)], 1), "different types"),
            (lambda: torch.cat([pairs, torch.zeros(2, 3).long()], 1), r"data\.negative_sampling"),
            (lambda: data.pairs(torch.zeros(2, 3).long(), "rated"), "names no two node types"),
            (lambda: data.negative_sampling(9, ("user", "user")), "names 0 edge types"),
            (lambda: data.pairs(torch.full((2, 1), MOVIES), RATES), f"{USERS} nodes"),
            (lambda: z["user"][train[RATES].edge_label_index[0]], r"data\.translate\(index, 'user'\)"),
        ):
            with pytest.raises(InputError, match=words):
                wrong()
        transport.settle()

    run_threads(2, here)
