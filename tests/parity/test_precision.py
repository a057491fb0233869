"""Other types than float32, autocast, checkpoints, reversible and lazy layers: equal to plain PyG on many workers."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_geometric.nn as pyg
from torch import Tensor, nn

import halowire
from halowire.pyg.shard_data import cut_data
from halowire.wire import HEADER_BYTES, Transport, run_threads
from tests.support.precision_cases import CASES, HIDDEN, Mode, Net, Reversible, graph_of
from tests.support.pyg_case import CLASSES, NODES, make_graph, make_owner, seeded, weights_of
from tests.support.worker_counts import two_and_three

STEPS = 3


@pytest.fixture(autouse=True)
def _without_onednn():
    # Some machines have no instructions for oneDNN's bf16 products, which then end the process.
    with torch.backends.mkldnn.flags(enabled=False):
        yield


def train(
    model: nn.Module, x: Tensor, edge_index: Tensor, mode: Mode, loss_of: Callable[[Tensor], Tensor]
) -> list[Any]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    found = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        with mode():
            out = model(x, edge_index)
        loss_of(out).backward()
        found.append((out.detach().double(), {name: value.grad.double() for name, value in model.named_parameters()}))
        optimizer.step()
    return found


def close(name: str, got: Tensor, want: Tensor, tolerance: float, scale: float = 0.0, noise: float = 0.0) -> None:
    worst, largest = float((got - want).abs().max()), max(float(want.abs().max()), scale)
    assert worst <= tolerance * largest + noise, f"{name} differs by {worst} of {largest}"


@pytest.mark.parametrize("parts", [pytest.param(2, marks=pytest.mark.slow), 3])
@pytest.mark.parametrize("name", CASES)
def test_three_steps_equal_plain_pyg(name, parts):
    make, kind, mode, tolerance = CASES[name]
    model, graph = seeded(make).to(kind), graph_of(kind)
    weight = weights_of(torch.empty(NODES, CLASSES)).to(kind)
    plain = copy.deepcopy(model)
    want = train(plain, graph["x"], graph["edge_index"], mode, lambda out: (out * weight).square().mean())
    # In bf16 the rounding of plain PyG is measured, and ours may differ by as much the other way: what cancels in a
    # norm keeps the rounding of its terms.
    exact = want
    if tolerance > 1e-3:
        twin, x, wide = copy.deepcopy(model).double(), graph["x"].double(), weight.double()
        loss_wide = lambda out: (out * wide).square().mean()  # noqa: E731
        exact = train(twin, x, graph["edge_index"], contextlib.nullcontext, loss_wide)

    def work(transport: Transport) -> tuple[Tensor, list[Any]]:
        data = cut_data(graph, make_owner(transport.size), transport)
        own = halowire.distribute(copy.deepcopy(model), data)
        loss_of = lambda out: data.mean((out * weight[data.rows]).square())  # noqa: E731
        return data.rows, train(own, data.x, data.edge_index, mode, loss_of)

    parts_found = run_threads(parts, work)
    for step, ((out, grads), (sure, sure_grads)) in enumerate(zip(want, exact, strict=True)):
        got = torch.empty_like(out)
        for rows, found in parts_found:
            got[rows] = found[step][0]
        close("the output", got, out, tolerance, noise=3 * float((out - sure).abs().max()))
        scale = max(float(grad.abs().max()) for grad in grads.values())
        for _, found in parts_found:
            for key, grad in grads.items():
                noise = 3 * float((grad - sure_grads[key]).abs().max())
                close(f"the gradient of {key}", found[step][1][key], grad, tolerance, 0.1 * scale, noise)


def test_rows_of_bf16_take_half_the_bytes():
    def bytes_of(kind: torch.dtype) -> int:
        model, graph = seeded(Net).to(kind), graph_of(kind)

        def work(transport: Transport) -> int:
            data = cut_data(graph, make_owner(transport.size), transport)
            own = halowire.distribute(copy.deepcopy(model), data, settings={"wire.plain": True})
            data.mean(own(data.x, data.edge_index).square()).backward()
            return int(transport.ledger.now.sent["train"])

        return sum(run_threads(2, work))

    half = bytes_of(torch.bfloat16)
    assert half > 0
    # The headers stay as they are: one for each of two layers, directions and workers.
    assert 2 * half - bytes_of(torch.float32) == 8 * HEADER_BYTES


@pytest.mark.parametrize("make", [lambda: Net(recompute="new").bfloat16(), Reversible])
def test_coded_rows_learn(make):
    model = seeded(make)
    kind = next(model.parameters()).dtype
    graph = graph_of(kind)

    def work(transport: Transport) -> list[float]:
        data = cut_data(graph, make_owner(transport.size), transport)
        own = halowire.distribute(copy.deepcopy(model), data, "halowire")
        optimizer = torch.optim.Adam(own.parameters(), lr=0.05)
        losses = []
        for _ in range(15):
            optimizer.zero_grad()
            loss = data.mean((own(data.x, data.edge_index) - 1).square())
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        transport.drain()
        return losses

    losses = run_threads(2, work)[0]
    assert losses[-1] < 0.6 * losses[0]


@two_and_three
def test_evaluation_in_inference_mode_before_and_between_training(workers):
    model, graph = seeded(lambda: Net(pyg.GCNConv)), make_graph()

    def evaluated(own: nn.Module, *inputs: Tensor) -> Tensor:
        with torch.inference_mode():
            return own.eval()(*inputs)

    def work(transport: Transport) -> tuple[Tensor, list[Tensor]]:
        data = cut_data(graph, make_owner(transport.size), transport)
        own = halowire.distribute(copy.deepcopy(model), data)
        before = evaluated(own, data.x, data.edge_index)
        data.mean(own.train()(data.x, data.edge_index).square()).backward()
        torch.optim.SGD(own.parameters(), lr=0.1).step()
        return data.rows, [before, evaluated(own, data.x, data.edge_index)]

    plain = copy.deepcopy(model)
    want = [evaluated(plain, graph["x"], graph["edge_index"]).clone()]
    plain.train()(graph["x"], graph["edge_index"]).square().mean().backward()
    torch.optim.SGD(plain.parameters(), lr=0.1).step()
    want.append(evaluated(plain, graph["x"], graph["edge_index"]))
    for rows, found in run_threads(workers, work):
        for got, value in zip(found, want, strict=True):
            close("the output", got, value[rows], 1e-4)


class Lazy(nn.Module):
    """Layers that learn their input's width from the first call."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.last = pyg.SAGEConv(-1, HIDDEN), nn.LazyBatchNorm1d(), nn.LazyLinear(CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.last(self.norm(self.conv(x, edge_index)))


@two_and_three
def test_lazy_layers_get_their_shapes_from_the_graph(workers):
    def work(transport: Transport) -> dict[str, Tensor]:
        data = cut_data(make_graph(), make_owner(transport.size), transport)
        own = halowire.distribute(Lazy(), data)
        before = {name: value.clone() for name, value in own.state_dict().items()}
        data.mean(own(data.x, data.edge_index).square()).backward()
        return before

    first, *others = run_threads(workers, work)
    assert first["last.weight"].shape == (CLASSES, HIDDEN)
    assert int(first["norm.num_batches_tracked"]) == 0
    assert all(torch.equal(value, other[name]) for other in others for name, value in first.items())


def compiled_here(rank: int, folder: str) -> str:
    """The words of a refused ``torch.save``; torch's compiler runs in processes, since it does not bear two threads."""
    transport = Transport()
    data = cut_data(make_graph(), make_owner(transport.size), transport)
    own = halowire.distribute(seeded(lambda: Net(pyg.GCNConv)), data)
    with pytest.raises(halowire.InputError) as unsaved:
        torch.save(own, f"{folder}/{rank}.pt")
    own.last.compile(backend="eager")
    data.mean(own(data.x, data.edge_index).square()).backward()
    whole = copy.deepcopy(own)
    whole.compile(backend="eager")
    for compiled in (torch.compile(own, backend="eager"), whole):
        with pytest.raises(halowire.InputError, match="compile the layers that are not called with edge_index"):
            compiled(data.x, data.edge_index)
    torch.compiler.reset()
    transport.settle()
    return str(unsaved.value)


@pytest.mark.parametrize("workers", [1, 2, pytest.param(3, marks=pytest.mark.slow)])
def test_what_cannot_be_saved_or_compiled_says_what_can(on_workers, workers, tmp_path):
    assert all("model.state_dict()" in words for words in on_workers(workers, compiled_here, str(tmp_path)))
