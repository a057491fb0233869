"""Outputs by node and edge type of a ``HeteroData``: values of edges are plain PyG's, rows know whose they are."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import halowire
from halowire.errors import InputError
from halowire.pyg.hetero_data import cut_hetero
from halowire.wire import run_threads
from tests.support.hetero_case import COUNTS, LINKS, build_hetero, make_hetero, make_owners
from tests.support.pyg_case import assert_close, seeded
from tests.support.typed_output_cases import CASES, Scores, graph_of
from tests.support.worker_counts import two_and_three


class Plain:
    """A whole ``HeteroData`` with the methods that parts have."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def __getattr__(self, name: str) -> Any:
        return getattr(self.data, name)

    def __getitem__(self, kind: Any) -> Any:
        return self.data[kind]

    def mean(self, values: Tensor) -> Tensor:
        return values.mean()

    def gather(self, values: Tensor, kind: Any = None) -> Tensor:
        return values.detach()


def learn(own: nn.Module, data: Any, step: Any) -> tuple[list[Tensor], list[dict[str, Tensor]]]:
    """Everything that is gathered, and the gradients and weights, of three steps and an evaluation."""
    optimiser, gathered, learnt = torch.optim.SGD(own.parameters(), lr=0.05), [], []
    for _ in range(3):
        optimiser.zero_grad()
        found, values = step(own.train(), data)
        terms = [data.mean(value) for value in values]
        sum(terms[1:], terms[0]).backward()
        learnt.append({name: value.grad.clone() for name, value in own.named_parameters() if value.grad is not None})
        optimiser.step()
        gathered += [data.gather(value) for value in found]
        learnt.append({name: value.detach().clone() for name, value in own.named_parameters()})
    with torch.no_grad():
        gathered += [data.gather(value) for value in step(own.eval(), data)[0]]
    return gathered, learnt


SLOW = [pytest.param(workers, sort, marks=pytest.mark.slow) for workers, sort in ((2, True), (3, False), (3, True))]


@pytest.mark.parametrize(("workers", "sort"), [(2, False), *SLOW])
@pytest.mark.parametrize("name", CASES)
def test_values_of_edges_are_those_of_plain_pyg(name, workers, sort):
    make, step = CASES[name]
    model, whole, owner = seeded(make), graph_of(sort), make_owners(workers)
    wanted, steps = learn(copy.deepcopy(model), Plain(whole), step)

    def here(transport):
        data = cut_hetero(whole, owner, transport)
        found = learn(halowire.distribute(copy.deepcopy(model), data), data, step)
        transport.settle()
        return found

    for gathered, learnt in run_threads(workers, here):
        for got, value in zip(gathered, wanted, strict=True):
            assert got.shape == value.shape
            assert_close("output", got.double(), value.double())
        for got, value in zip(learnt, steps, strict=True):
            scale = max(float(tensor.abs().max()) for tensor in value.values())
            for key, tensor in value.items():
                assert_close(key, got[key], tensor, floor=0.01 * scale)


def test_rows_of_a_part_are_gathered_by_their_type():
    whole = make_hetero()

    def here(transport):
        data = cut_hetero(whole, make_owners(3), transport)
        for name in COUNTS:
            assert torch.equal(data.gather(data[name].x), whole[name].x)
        for kind in LINKS:
            assert torch.equal(data.gather(data[kind].edge_index), whole[kind].edge_index)
            assert torch.equal(data.gather(data[kind].edge_attr, kind), whole[kind].edge_attr)
        assert torch.equal(data.gather(data["paper"].y.tolist() and torch.tensor(data["paper"].y.tolist()), "paper"),
                           whole["paper"].y)  # fmt: skip
        with pytest.raises(InputError, match="gather the rows of all nodes"):
            data.gather(data["paper"].x[data["paper"].train_mask], "paper")
        transport.settle()

    run_threads(3, here)


class Filtered(Scores):
    """Scores of some edges only."""

    def __init__(self) -> None:
        super().__init__(False)

    def _score(self, h: dict[str, Tensor], kind: Any, edges: Tensor) -> Tensor:
        return super()._score(h, kind, edges[:, h[kind[2]][edges[1], 0] > 0])


def test_values_of_some_edges_are_refused():
    def here(transport):
        data = cut_hetero(graph_of(False), make_owners(2), transport)
        with pytest.raises(InputError, match="one per edge of edge_index"):
            halowire.distribute(seeded(Filtered), data)
        transport.settle()

    run_threads(2, here)


INDEX = torch.tensor([3, 5, 8])
WRONG = {
    "numbers": lambda data, out: out["paper"][INDEX],
    "numbers on labels": lambda data, out: data["paper"].y[INDEX],
    "numbers on features by type": lambda data, out: data.x_dict["author"][INDEX],
    "a slice": lambda data, out: out["author"].relu()[:10],
    "a mask of all nodes": lambda data, out: out["paper"][torch.ones(COUNTS["paper"], dtype=torch.bool)],
    "F.embedding": lambda data, out: F.embedding(torch.arange(9), out["paper"]),
    "gather": lambda data, out: data["paper"].x.gather(0, torch.arange(9).view(-1, 1)),
    "a split": lambda data, out: out["paper"].split(9),
    "labels of all nodes": lambda data, out: F.cross_entropy(out["paper"], make_hetero()["paper"].y),
}


@two_and_three
@pytest.mark.parametrize("name", WRONG)
def test_an_index_of_the_whole_graph_is_refused_by_type(name, workers):
    model = build_hetero("by hand")
    kind = "author" if name in ("a slice", "numbers on features by type") else "paper"
    words = (
        r"tensor\[data\['paper'\]\.rows\]" if name == "labels of all nodes" else rf"data\.translate\(index, '{kind}'\)"
    )

    def here(transport):
        data = cut_hetero(make_hetero(), make_owners(workers), transport)
        out = halowire.distribute(copy.deepcopy(model), data)(data.x_dict, data.edge_index_dict)
        with pytest.raises(InputError, match=words):
            WRONG[name](data, out)
        transport.settle()

    run_threads(workers, here)


def test_what_names_own_rows_picks_them():
    whole, model = make_hetero(), build_hetero("by hand")
    index = whole["paper"].train_mask.nonzero()[:, 0]
    whole["paper"].anchors, whole["paper"].n_id = index.flip(0), torch.arange(COUNTS["paper"])

    def here(transport):
        data = halowire.shard(whole, transport=transport, device="cpu", method="random", node_index=["anchors"])
        out = halowire.distribute(copy.deepcopy(model), data)(data.x_dict, data.edge_index_dict)["paper"]
        paper = data["paper"]
        picked = out[paper.train_mask]
        places = data.translate(index, "paper")
        ordered = picked.as_subclass(Tensor).sort(0)[0]
        assert torch.equal(out[places].as_subclass(Tensor).sort(0)[0], ordered)
        assert torch.equal(out[data.translate({"train": whole["paper"].train_mask}, "paper")["train"]], picked)
        assert torch.equal(out[paper.anchors].as_subclass(Tensor).sort(0)[0], ordered)
        assert torch.equal(out[paper.train_mask.nonzero()[:, 0]], picked)
        assert torch.equal(out[data.own(range(2), "paper")], out.as_subclass(Tensor)[:2])
        assert torch.equal(out[paper.n_id], out) and torch.equal(whole["paper"].x[paper.n_id], paper.x)
        with pytest.raises(InputError, match="no node type 'papers'"):
            data.translate(index, "papers")
        transport.settle()
        return data.gather(out)

    plain = copy.deepcopy(model)(whole.x_dict, whole.edge_index_dict)["paper"]
    for found in run_threads(2, here):
        assert_close("output", found, plain.detach())


def test_node_index_that_no_type_has_is_refused():
    with pytest.raises(InputError, match="node_index names absent"):
        run_threads(2, lambda transport: halowire.shard(
            make_hetero(), transport=transport, device="cpu", method="random", node_index=["absent"]))  # fmt: skip
