"""Weights with a row for each node: three steps of training equal plain PyG, row by row, on any number of workers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn.models import GCN

import halowire
from halowire.pyg.shard_data import cut_data
from halowire.wire import Transport, run_threads
from tests.support.node_weight_models import NODE_WEIGHTS, build
from tests.support.pyg_case import NODES, assert_close, make_graph, make_owner, weights_of
from tests.support.worker_counts import two_and_three

STEPS = 3


def graph_of() -> dict[str, Tensor]:
    return make_graph() | {"n_id": torch.arange(NODES)}


def optimizers(model: nn.Module) -> list[torch.optim.Optimizer]:
    sparse = [module.weight for module in model.modules() if isinstance(module, nn.Embedding) and module.sparse]
    dense = [value for value in model.parameters() if all(value is not other for other in sparse)]
    found: list[torch.optim.Optimizer] = [torch.optim.Adam(dense, lr=0.05)]
    return [*found, torch.optim.SparseAdam(sparse, lr=0.05)] if sparse else found


def train(model: nn.Module, inputs: Sequence[Any], loss_of: Any) -> list[Tensor]:
    used = optimizers(model)
    losses = []
    for _ in range(STEPS):
        for optimizer in used:
            optimizer.zero_grad()
        loss = loss_of(model(*inputs))
        loss.backward()
        for optimizer in used:
            optimizer.step()
        losses.append(loss.detach())
    return losses


def train_plain(name: str) -> tuple[list[Tensor], dict[str, Tensor]]:
    (model, inputs), graph = build(name), graph_of()
    losses = train(model, [graph[key] for key in inputs], lambda out: (out * weights_of(out)).square().mean())
    return losses, model.state_dict()


def train_part(transport: Transport, model: nn.Module, inputs: Sequence[str]) -> dict[str, Any]:
    data = cut_data(graph_of(), make_owner(transport.size), transport)
    model = halowire.distribute(copy.deepcopy(model), data)

    def loss_of(out: Tensor) -> Tensor:
        return data.mean((out * weights_of(torch.empty(NODES, *out.shape[1:]))[data.rows]).square())

    losses = train(model, [getattr(data, key) for key in inputs], loss_of)
    sizes = {key: tuple(value.shape) for key, value in model.named_parameters()}
    found = {"losses": losses, "state": dict(model.state_dict()), "sizes": sizes, "owned": data.num_nodes}
    transport.settle()
    return found


@pytest.mark.parametrize("parts", [pytest.param(2, marks=pytest.mark.slow), 3])
@pytest.mark.parametrize("name", NODE_WEIGHTS)
def test_three_steps_equal_plain_pyg_row_by_row(name, parts):
    losses, state = train_plain(name)
    given = build(name)
    for found in run_threads(parts, lambda transport: train_part(transport, *given)):
        assert_close("losses", torch.stack(found["losses"]), torch.stack(losses))
        assert found["state"].keys() == state.keys()
        for key, value in state.items():
            assert found["state"][key].shape == value.shape
            assert_close(key, found["state"][key].float(), value.float())
            if NODES in value.shape:
                # The worker itself holds the rows of its own nodes alone.
                assert found["sizes"][key] == tuple(found["owned"] if n == NODES else n for n in value.shape)


def test_a_state_dict_of_plain_pyg_loads_and_comes_back():
    plain = build("RGCN with bases")[0]
    state = plain.state_dict()

    def work(transport: Transport) -> dict[str, Tensor]:
        data = cut_data(graph_of(), make_owner(transport.size), transport)
        model = halowire.distribute(copy.deepcopy(plain), data)
        with torch.no_grad():
            for value in model.parameters():
                value.zero_()
        model.load_state_dict(state)
        return dict(copy.deepcopy(model).state_dict())

    for found in run_threads(3, work):
        assert all(torch.equal(found[key], value) for key, value in state.items())


def test_a_width_that_is_the_number_of_nodes_by_chance_is_no_row_per_node():
    def work(transport: Transport) -> list[tuple[int, ...]]:
        data = cut_data(graph_of(), make_owner(transport.size), transport)
        model = halowire.distribute(GCN(6, NODES, 2, 4), data)
        model(data.x, data.edge_index)
        return [tuple(value.shape) for value in model.parameters()]

    assert run_threads(2, work)[0] == [(NODES,), (NODES, 6), (4,), (4, NODES)]


def placed(
    transport: Transport, given: tuple[nn.Module, Sequence[str]], *recipe: str
) -> tuple[Any, nn.Module, list[Any]]:
    data = cut_data(graph_of(), make_owner(transport.size), transport)
    model = halowire.distribute(copy.deepcopy(given[0]), data, *recipe)
    return data, model, [getattr(data, key) for key in given[1]]


def test_gradients_are_clipped_by_the_norm_of_all_rows():
    given = build("LINKX")
    plain, graph = copy.deepcopy(given[0]), graph_of()
    plain(*(graph[key] for key in given[1])).square().mean().backward()
    norm = torch.nn.utils.clip_grad_norm_(plain.parameters(), 0.01)

    def work(transport: Transport) -> tuple[Tensor, dict[str, Tensor]]:
        data, model, inputs = placed(transport, given)
        data.mean(model(*inputs).square()).backward()
        found = halowire.clip_grad_norm_(model, 0.01)
        return found, {key: value.grad for key, value in model.named_parameters() if len(value) != data.num_nodes}

    for found, grads in run_threads(3, work):
        assert_close("the norm", found, norm)
        scale = max(float(value.grad.abs().max()) for value in plain.parameters())
        for key, grad in grads.items():
            assert_close(key, grad, dict(plain.named_parameters())[key].grad, floor=0.01 * scale)


@two_and_three
def test_weights_that_drift_apart_are_refused(workers):
    given = build("LINKX")

    def work(transport: Transport) -> str:
        data, model, inputs = placed(transport, given)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        data.mean(model(*inputs).square()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)
        optimizer.step()
        with pytest.raises(halowire.InputError) as caught:
            data.mean(model(*inputs).square()).backward()
        return str(caught.value)

    assert all("halowire.clip_grad_norm_" in words for words in run_threads(workers, work))


def test_the_optimizer_state_goes_to_another_number_of_workers_and_to_plain_pyg():
    given, graph = build("RGCN"), graph_of()

    def step(model: nn.Module, optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    def first(transport: Transport) -> tuple[dict[str, Any], dict[str, Any]]:
        data, model, inputs = placed(transport, given)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
        step(model, optimizer, data.mean(model(*inputs).square()))
        return copy.deepcopy(model.state_dict()), halowire.optimizer_state(model, optimizer)

    weights, states = run_threads(2, first)[0]

    def second(transport: Transport) -> dict[str, Any]:
        data, model, inputs = placed(transport, given)
        model.load_state_dict(weights)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
        halowire.load_optimizer_state(model, optimizer, copy.deepcopy(states))
        step(model, optimizer, data.mean(model(*inputs).square()))
        return dict(model.state_dict())

    plain = copy.deepcopy(given[0])
    plain.load_state_dict(weights)
    optimizer = torch.optim.Adam(plain.parameters(), lr=0.05)
    optimizer.load_state_dict(copy.deepcopy(states))
    step(plain, optimizer, plain(*(graph[key] for key in given[1])).square().mean())
    for found in run_threads(3, second):
        for key, value in plain.state_dict().items():
            assert_close(key, found[key], value)


def test_sparse_moments_go_to_another_number_of_workers():
    """Two steps of ``SparseAdam`` on two workers and two more on three are four of plain PyG."""
    given, graph = build("embedding, sparse gradients"), graph_of()

    def steps(model: nn.Module, optimizer: torch.optim.Optimizer, loss: Callable[[], Tensor], count: int) -> None:
        for _ in range(count):
            optimizer.zero_grad()
            loss().backward()
            optimizer.step()

    def of_rows(model: Any) -> torch.optim.Optimizer:
        return torch.optim.SparseAdam(model.rows.parameters(), lr=0.05)

    plain = copy.deepcopy(given[0])
    steps(plain, of_rows(plain), lambda: plain(*(graph[key] for key in given[1])).square().mean(), 4)

    def first(transport: Transport) -> tuple[dict[str, Any], dict[str, Any]]:
        data, model, inputs = placed(transport, given)
        optimizer = of_rows(model)
        steps(model, optimizer, lambda: data.mean(model(*inputs).square()), 2)
        return copy.deepcopy(dict(model.state_dict())), halowire.optimizer_state(model, optimizer)

    weights, states = run_threads(2, first)[0]

    def second(transport: Transport) -> dict[str, Any]:
        data, model, inputs = placed(transport, given)
        model.load_state_dict(weights)
        optimizer = of_rows(model)
        halowire.load_optimizer_state(model, optimizer, copy.deepcopy(states))
        steps(model, optimizer, lambda: data.mean(model(*inputs).square()), 2)
        return dict(model.state_dict())

    for found in run_threads(3, second):
        assert_close("rows", found["rows.weight"], plain.state_dict()["rows.weight"])


@pytest.mark.parametrize("recipe", ["halowire", "sylvie-a"])
def test_coded_rows_of_weights_learn(recipe):
    given = build("LightGCN")

    def work(transport: Transport) -> list[float]:
        data, model, inputs = placed(transport, given, recipe)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
        losses = []
        for _ in range(12):
            optimizer.zero_grad()
            loss = data.mean((model(*inputs) - 1).square())
            loss.backward()
            optimizer.step()
            losses.append(float(loss))
        transport.drain()
        return losses

    losses = run_threads(2, work)[0]
    assert losses[-1] < 0.6 * losses[0]


@pytest.mark.parametrize(
    ("names", "words"), [(["lin.weight"], "one row for each of the 90 nodes"), (["x"], "no such weight")]
)
def test_a_wrong_name_is_refused(names, words):
    def work(transport: Transport) -> None:
        data = cut_data(graph_of(), make_owner(transport.size), transport)
        with pytest.raises(halowire.InputError, match=words):
            halowire.distribute(build("matrix factorisation")[0], data, node_weights=names)

    run_threads(1, work)
