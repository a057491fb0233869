"""A model on a cut graph against the same model on the whole graph: outputs, loss, all gradients, all buffers."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

import halowire
from halowire.graph import Graph
from halowire.partitioning import partition
from halowire.pyg import ShardData
from halowire.pyg.shard_data import cut_data
from halowire.wire import Transport

NODES, EDGES, FEATURES, CLASSES = 90, 520, 6, 4
TOLERANCE = 1e-4
RATE = 0.05
"""The step of gradient descent."""
SEEDING = threading.Lock()


def make_graph(seed: int = 0, nodes: int = NODES, edges: int = EDGES) -> dict[str, Tensor]:
    """A directed graph with self loops, duplicates, a node without in-edges, edge weights and edge features."""
    generator = torch.Generator().manual_seed(seed)
    edge_index = torch.randint(nodes, (2, edges), generator=generator)
    edge_index[1, edge_index[1] == nodes - 1] = 0
    edge_index[:, -2:] = torch.tensor([[3, 3], [3, 3]])
    edge_index[:, :2] = torch.tensor([[5, 5], [7, 7]])
    return {
        "edge_index": edge_index,
        "x": torch.randn(nodes, FEATURES, generator=generator),
        "edge_weight": torch.rand(edges, generator=generator) + 0.1,
        "edge_attr": torch.randn(edges, 3, generator=generator),
        "edge_type": torch.randint(3, (edges,), generator=generator),
    }


def make_owner(parts: int, nodes: int = NODES, seed: int = 1) -> Tensor:
    owner = torch.randint(parts, (nodes,), generator=torch.Generator().manual_seed(seed))
    owner[:parts] = torch.arange(parts)
    return owner


def owners(method: str, workers: int) -> torch.Tensor:
    """The owner of every node of the graph, by ``method``."""
    given = make_graph()
    if method == "random":
        return make_owner(workers)
    graph = Graph.from_edge_index(given["edge_index"], len(given["x"]))
    return partition(graph, workers, method, 0).owner


def run_plain(model: nn.Module, graph: dict[str, Tensor], names: Sequence[str], steps: int = 0) -> dict[str, Any]:
    """Loss, outputs, gradients and buffers of plain PyG; the loss is the mean square of weighted outputs.

    If there are ``steps`` of training, so are the weights after them.
    """
    model = copy.deepcopy(model).train()

    def loss_of(out: Tensor) -> Tensor:
        return (out * weights_of(out)).square().mean()

    record = _trained(model, [graph[name] for name in names], loss_of, steps)
    model.eval()
    with torch.no_grad():
        return record | {"eval": model(*(graph[name] for name in names))}


def run_part(
    transport: Transport, model: nn.Module, graph: dict[str, Tensor], owner: Tensor, names: Sequence[str],
    steps: int = 0,
) -> dict[str, Any]:  # fmt: skip
    """The same on one worker's part."""
    data = cut_data(graph, owner, transport)
    model = halowire.distribute(copy.deepcopy(model), data).train()
    inputs = [getattr(data, name) for name in names]

    def loss_of(out: Tensor) -> Tensor:
        whole = torch.empty(owner.numel(), *out.shape[1:])
        return data.mean((out * weights_of(whole)[data.rows]).square())

    record = _trained(model, inputs, loss_of, steps)
    model.eval()
    with torch.no_grad():
        record |= {"eval": model(*inputs), "rows": data.rows}
    transport.settle()
    return record


def weights_of(out: Tensor) -> Tensor:
    return torch.randn(out.shape, generator=torch.Generator().manual_seed(9))


def _trained(
    model: nn.Module, inputs: Sequence[Any], loss_of: Callable[[Tensor], Tensor], steps: int
) -> dict[str, Any]:
    """The record of the first pass and, if there are any, the weights after ``steps`` of gradient descent."""
    optimiser = torch.optim.SGD(model.parameters(), lr=RATE) if steps else None
    record: dict[str, Any] = {}
    for _ in range(max(1, steps)):
        model.zero_grad()
        out = model(*inputs)
        loss = loss_of(out)
        loss.backward()
        record = record or _record(model, out, loss)
        if optimiser is not None:
            optimiser.step()
    weights = {name: value.detach().clone() for name, value in model.named_parameters()}
    return record | ({"trained": weights} if steps else {})


def _record(model: nn.Module, out: Tensor, loss: Tensor) -> dict[str, Any]:
    return {
        "out": out.detach(),
        "loss": loss.detach(),
        "grads": {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None},
        "state": {name: value.clone() for name, value in model.state_dict().items()},
    }


def compare(
    parts: list[dict[str, Any]], want: dict[str, Any], floor: float = 0.01, exact: dict[str, Any] | None = None
) -> None:
    """|a - b| <= 1e-4 max|b| for every tensor; a gradient that is zero but for rounding (a bias before a norm) must be
    as close as if it were the ``floor`` of the largest gradient. Where ``exact``, the same in float64, is given, it may
    differ by 20 times the rounding of plain PyG in this very tensor."""
    for kind in ("out", "eval"):
        got = torch.full_like(want[kind], torch.nan)
        for part in parts:
            got[part["rows"]] = part[kind]
        assert_close(kind, got, want[kind])
    scale = max(float(grad.abs().max()) for grad in want["grads"].values())
    for part in parts:
        assert_close("loss", part["loss"], want["loss"])
        assert part["grads"].keys() == want["grads"].keys()
        assert part["state"].keys() == want["state"].keys()
        for name, grad in want["grads"].items():
            noise = 0.0 if exact is None else float((grad - exact["grads"][name]).abs().max())
            least = max(floor * scale, 20 * noise / TOLERANCE)
            assert_close(f"gradient of {name}", part["grads"][name], grad, floor=least)
        for name, value in want["state"].items():
            assert_close(name, part["state"][name].float(), value.float())
        for name, value in want.get("trained", {}).items():
            noise = 0.0 if exact is None else float((value - exact["trained"][name]).abs().max())
            least = max(RATE * floor * scale, 20 * noise / TOLERANCE)
            assert_close(f"{name} after training", part["trained"][name], value, floor=least)


def assert_close(name: str, got: Tensor, want: Tensor, floor: float = 0.0) -> None:
    worst, limit = float((got - want).abs().max()), TOLERANCE * max(float(want.abs().max()), floor)
    assert worst <= limit, f"{name}: differs by {worst}, allowed {limit}"


def seeded(make: Callable[[], nn.Module]) -> nn.Module:
    """What ``make`` gives under a fixed seed; workers that are threads have one generator, and make it by turns."""
    with SEEDING, torch.random.fork_rng():
        torch.manual_seed(4)
        return make()


def place(transport: Transport, model: nn.Module, *recipe: str) -> tuple[ShardData, nn.Module]:
    """This worker's part of the graph of `make_graph`, and a copy of ``model`` that is distributed over it."""
    data = cut_data(make_graph(), make_owner(transport.size), transport)
    return data, halowire.distribute(copy.deepcopy(model), data, *recipe)


def plain_gradients(model: nn.Module, loss: Callable[[nn.Module, Tensor], Tensor]) -> dict[str, Tensor]:
    """The weights' gradients of ``loss(model, out)`` in plain PyG."""
    model, graph = copy.deepcopy(model), make_graph()
    loss(model, model(graph["x"], graph["edge_index"])).backward()
    return {name: value.grad for name, value in model.named_parameters()}
