"""The order of a pass: boundary rows leave before the interior is computed, every message is waited for once."""

from __future__ import annotations

import pytest
import torch
from halowire.layers.aggregate_first import AggregateFirst
from halowire.layers.gathered_input import Gathered
from halowire.layers.input_map import Local
from halowire.layers.weights_first import WeightsFirst

from halowire.graph import Graph
from halowire.kernels import Csr
from halowire.layers import GCN, SAGE, Features, Propagation, Step
from halowire.partitioning import Partition, Shard, cut
from halowire.wire import HaloExchange, Policy, Transport

NODES, FEATURES = 40, 6
MODELS = {"gcn": GCN, "sage": SAGE}


def ring(sparse: bool = False, directed: bool = False) -> Graph:
    nodes = torch.arange(NODES)
    edges = torch.stack([nodes, (nodes + 1) % NODES])
    edges = edges if directed else torch.cat([edges, edges.flip(0)], 1)
    x = torch.randn(NODES, FEATURES, generator=torch.Generator().manual_seed(0))
    if sparse:
        rows, cols = (x > 1.2).nonzero(as_tuple=True)
        x = Csr.from_edges(rows, cols, NODES, FEATURES, x[rows, cols])
    return Graph.from_edge_index(edges, NODES, x=x, y=nodes % 3, num_classes=3)


def shard_of(graph: Graph, parts: int) -> Shard:
    owner = torch.arange(NODES) * parts // NODES
    return cut(graph, Partition(owner, parts, "given", 0))[0]


class Silence(Transport):
    """Zeros arrive from everywhere."""

    def all_to_all(self, send, send_bytes, received, recv_bytes, where):
        return super().all_to_all(send, send_bytes, received.zero_(), recv_bytes, where)


class Nothing:
    """A message that is never written."""

    def __init__(self, layer: int) -> None:
        self.layer = layer

    def add(self, what, where):
        """Rows of a message and how many of them are there, or a matrix and where its product goes."""
        if isinstance(what, Csr):
            assert what.num_rows == where.shape[0]
        else:
            assert torch.isfinite(what[:where]).all()


class RecordingExchange(HaloExchange):
    """Writes down what is launched and waited for; nothing arrives."""

    def __init__(self, shard: Shard, policy: Policy | None = None) -> None:
        super().__init__(shard, Silence(), torch.device("cpu"), policy)
        self.log: list[tuple[str, int]] = []

    def fetch(self, rows, layer):
        return torch.zeros(self.num_halo, rows.shape[1])

    def start(self, rows, layer, delta=False):
        assert rows.shape[0] >= self.num_boundary and torch.isfinite(rows[: self.num_boundary]).all()
        self.log.append(("start", layer))
        return ("forward", layer)

    def load(self, layer, width, delta=False):
        return Nothing(layer)

    def launch(self, loading, rows, watched=None):
        return self.start(rows, loading.layer)

    def arrive(self, flight, drop=None):
        self.log.append(("finish", flight[1]))
        assert flight[0] == "forward"
        return Nothing(flight[1])

    def start_back(self, halo_grad, layer):
        assert halo_grad.shape[0] == self.num_halo and torch.isfinite(halo_grad).all()
        self.log.append(("start back", layer))
        return ("backward", layer)

    def finish_back(self, flight, out):
        self.log.append(("finish back", flight[1]))
        assert flight[0] == "backward" and out.shape[0] >= self.num_boundary


@pytest.fixture
def passed(monkeypatch):
    """``passed(...)`` runs a model forward and backward; the log of what happened and the model."""

    def run(name, layers, parts=2, sparse=False, directed=False, out=3, policy=None, train=True, frozen=0):
        shard = shard_of(ring(sparse, directed), parts)
        exchange = RecordingExchange(shard, policy)
        for kind in (Gathered, Local, AggregateFirst, WeightsFirst):
            for method in ("arrive", "head", "tail", "tail_back", "back"):
                record(monkeypatch, kind, method, exchange.log)
        spread = Propagation.of(shard, MODELS[name].conv.normalisation, exchange, torch.device("cpu"))
        features = Features.of(shard, spread, exchange, torch.device("cpu"))
        model = MODELS[name](FEATURES, 8, out, num_layers=layers)
        for block in model.blocks[:frozen]:
            block.requires_grad_(False)
        step = Step(spread, shard.ids, training=train)
        exchange.log.clear()
        if train:
            model(features, step).square().sum().backward()
        else:
            with torch.no_grad():
                model(features, step)
        assert not step.departed and not step.returning, "something launched was never taken"
        return exchange.log, model

    return run


def record(monkeypatch, kind, method, log):
    original = getattr(kind, method)

    def recorded(self, *args):
        log.append((method, getattr(self, "_layer", 0)))
        return original(self, *args)

    monkeypatch.setattr(kind, method, recorded)


@pytest.mark.parametrize("name", MODELS)
def test_three_layers_step_by_step(passed, name):
    log, _ = passed(name, 3)
    assert log == [
        *[("arrive", 0), ("head", 0), ("start", 1), ("tail", 0)],
        *[("arrive", 1), ("finish", 1), ("head", 1), ("start", 2), ("tail", 1)],
        *[("tail", 2), ("arrive", 2), ("finish", 2), ("head", 2)],
        *[("tail_back", 2), ("back", 2), ("start back", 2)],
        *[("tail_back", 1), ("finish back", 2), ("back", 1), ("start back", 1)],
        *[("tail_back", 0), ("finish back", 1), ("back", 0)],
    ]


@pytest.mark.parametrize("parts", [1, 2, NODES])
@pytest.mark.parametrize("policy", [None, Policy(decay=0.8)], ids=["rows", "delta"])
@pytest.mark.parametrize(("sparse", "directed"), [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("out", [3, 8, 20], ids=["narrowing", "level", "widening"])
@pytest.mark.parametrize("layers", [1, 2, 4])
def test_the_interior_is_computed_while_the_boundary_flies(passed, layers, out, sparse, directed, policy, parts):
    log, model = passed("sage", layers, parts, sparse, directed, out, policy)
    at = {event: place for place, event in reversed(list(enumerate(log)))}
    # The rows of a directed graph that only receive follow those that are sent.
    assert len(at) == len(log) - sum(log.count(("head", layer)) == 2 for layer in range(layers) if directed)
    last = layers - 1
    for layer in range(1, layers):
        assert at["arrive", layer - 1] < at["start", layer] < at["tail", layer - 1] < at["finish", layer]
        # A worker without neighbours has no head.
        assert at.get(("head", layer - 1), -1) < at["start", layer]
        assert at["start back", layer] < at["tail_back", layer - 1] < at["finish back", layer] < at["back", layer - 1]
    assert layers == 1 or at["tail", last] < at["finish", last], "the last layer has nothing to launch: interior first"
    launched = {layer for event, layer in log if event == "start"}
    assert launched == set(range(1, layers))
    assert model.overlap() == dict.fromkeys(launched, "boundary first"), "the model says what happened"
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_evaluation_takes_the_same_way(passed):
    training, _ = passed("sage", 3)
    evaluation, _ = passed("sage", 3, train=False)
    assert evaluation == training[: len(evaluation)]
    assert evaluation[-2:] == [("finish", 2), ("head", 2)]


@pytest.mark.parametrize("frozen", [1, 2])
@pytest.mark.parametrize("out", [3, 8])
def test_frozen_layers_leave_nothing_behind(passed, out, frozen):
    log, model = passed("sage", 3, out=out, frozen=frozen)
    sent, back = ([layer for event, layer in log if event == name] for name in ("start back", "finish back"))
    assert sent == back
    assert all((p.grad is None) == (index < frozen) for index, b in enumerate(model.blocks) for p in b.parameters())


def test_a_pass_goes_backward_once():
    shard = shard_of(ring(), 1)
    exchange = HaloExchange(shard, Transport(), torch.device("cpu"))
    spread = Propagation.of(shard, SAGE.conv.normalisation, exchange, torch.device("cpu"))
    loss = SAGE(FEATURES, 8, 3)(
        Features.of(shard, spread, exchange, torch.device("cpu")), Step(spread, shard.ids)
    ).sum()
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()
