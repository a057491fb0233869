"""The order of a pass: boundary rows leave before the interior is computed, every message is waited for once."""

from __future__ import annotations

import pytest
import torch

from halowire.kernels import Csr
from halowire.layers import MODELS, Inputs, Rows, Shape
from halowire.partitioning import Shard
from halowire.schedules import BoundaryFirst, Part, Stage, boundary_first
from halowire.wire import HaloExchange, Policy, Transport
from tests.support.rings import FEATURES, NODES, arc, ring


class Silence(Transport):
    """Zeros arrive from everywhere."""

    def all_to_all(self, send, send_bytes, received, recv_bytes, where, tag=None, envelope=None):
        return super().all_to_all(send, send_bytes, received.zero_(), recv_bytes, where, tag)


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

    def fetch(self, rows):
        return torch.zeros(self.num_halo, rows.shape[1])

    def load(self, layer, width, delta=False):
        return Nothing(layer)

    def launch(self, message, rows, watched=None):
        assert rows.shape[0] >= self.num_boundary and torch.isfinite(rows[: self.num_boundary]).all()
        self.log.append(("start", message.layer))
        return ("forward", message.layer)

    def arrive(self, message, drop=None):
        self.log.append(("finish", message[1]))
        assert message[0] == "forward"
        return Nothing(message[1])

    def finish_rows(self, message, width):
        self.log.append(("finish", message[1]))
        return torch.zeros(self.num_halo, width)

    def start_back(self, halo_grad, layer):
        assert halo_grad.shape[0] == self.num_halo and torch.isfinite(halo_grad).all()
        self.log.append(("start back", layer))
        return ("backward", layer)

    def finish_back(self, message, out):
        self.log.append(("finish back", message[1]))
        assert message[0] == "backward" and out.shape[0] >= self.num_boundary


@pytest.fixture
def passed(monkeypatch):
    """``passed(...)`` runs a model forward and backward; the log of what happened, the model, what was complete."""

    def run(name, layers, parts=2, sparse=False, directed=False, out=3, policy=None, train=True):
        shard = arc(ring(sparse, directed), parts)
        exchange = RecordingExchange(shard, policy)
        model = MODELS[name](Shape(FEATURES, 8, out, num_layers=layers))
        edges = model.aggregation(shard, exchange)
        part = Part(shard.ids, Inputs.of(shard, edges, model.aggregates_input), edges)
        stage = Stage.of(model, 0, layers, exchange.sends_undropped)
        numbers = {id(segment): number for number, segment in enumerate(stage.segments)}
        exchange.log.clear()
        done: list[str] = []
        names = {id(parameter): name for name, parameter in model.named_parameters()}
        with torch.no_grad(), monkeypatch.context() as patch:
            record(patch, boundary_first._ForwardSegment, exchange.log, numbers, edges.boundary, "")
            record(patch, boundary_first._BackwardSegment, exchange.log, numbers, edges.boundary, " back")
            schedule = BoundaryFirst(stage)
            logits, kept = schedule.forward(part, Rows.whole(shard.ids, training=train))
            if train:
                schedule.backward(part, kept, 2 * logits, lambda parameter: done.append(names[id(parameter)]))
        return exchange.log, model, done

    return run


def record(monkeypatch, kind, log, numbers, boundary, suffix):
    """Write down every range of rows that a segment runs over."""
    original = kind._run

    def recorded(self, start, stop, *rest, **named):
        if stop > start:
            where = "all" if (start < boundary < stop) else "boundary" if stop <= boundary else "interior"
            log.append((where + suffix, numbers[id(self._segment)]))
        return original(self, start, stop, *rest, **named)

    monkeypatch.setattr(kind, "_run", recorded)


@pytest.mark.parametrize("name", ["gcn", "sage", "gat"])
def test_three_layers_step_by_step(passed, name):
    log, _, _ = passed(name, 3)
    assert log == [
        *[("boundary", 0), ("start", 1), ("interior", 0)],
        *[("finish", 1), ("boundary", 1), ("start", 2), ("interior", 1)],
        *[("interior", 2), ("finish", 2), ("boundary", 2)],
        *[("all back", 2), ("start back", 2)],
        *[("interior back", 1), ("finish back", 2), ("boundary back", 1), ("start back", 1)],
        *[("interior back", 0), ("finish back", 1), ("boundary back", 0)],
    ]


@pytest.mark.parametrize("parts", [1, 2, NODES])
@pytest.mark.parametrize("policy", [None, Policy(decay=0.8)], ids=["rows", "delta"])
@pytest.mark.parametrize(("sparse", "directed"), [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("out", [3, 8, 20], ids=["narrowing", "level", "widening"])
@pytest.mark.parametrize("layers", [1, 2, 4])
@pytest.mark.parametrize("name", ["sage", "gat", "gcnii"])
def test_the_interior_is_computed_while_the_boundary_flies(passed, name, layers, out, sparse, directed, policy, parts):
    log, model, done = passed(name, layers, parts, sparse, directed, out, policy)
    at = {event: place for place, event in enumerate(log)}
    first = {event: place for place, event in reversed(list(enumerate(log)))}
    numbers = [model.layer_number(block) for block in range(layers)]
    exchanged = [number for number in numbers if number]
    last = len(exchanged)
    for segment, layer in enumerate(exchanged):
        # A worker without neighbours has no boundary, one whose rows are all sent has no interior.
        assert first.get(("boundary", segment), -1) < at["start", layer] < at.get(("interior", segment), len(log))
        assert at.get(("interior", segment), -1) < at["finish", layer]
        assert at["start back", layer] < first.get(("interior back", segment), len(log))
        assert at.get(("interior back", segment), -1) < at["finish back", layer]
        assert at["finish back", layer] < first.get(("boundary back", segment), len(log))
    if last:
        interior = at.get(("interior", last), -1)
        assert interior < at["finish", exchanged[-1]], "the last segment has nothing to launch: interior first"
    for event in ("start", "finish", "start back", "finish back"):
        assert [layer for kind, layer in log if kind == event] == sorted(exchanged, reverse="back" in event), (
            "every message is launched and waited for once"
        )
    assert sorted(done) == sorted(name for name, _ in model.named_parameters()), "every gradient is told once"
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_evaluation_takes_the_same_way(passed):
    training, _, _ = passed("sage", 3)
    evaluation, _, _ = passed("sage", 3, train=False)
    assert evaluation == training[: len(evaluation)]
    assert evaluation[-2:] == [("finish", 2), ("boundary", 2)]
