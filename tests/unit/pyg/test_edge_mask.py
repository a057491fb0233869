"""Masks of edges that know their places: the same results as plain masks, and places that are found anew for others."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
import torch_geometric.nn as pyg
from torch import Tensor, nn

import halowire
from halowire.pyg.data_part import ShardData
from halowire.pyg.edge_mask import MOST_KNOWN, EdgeMask, EdgeTypes, KnownEdges, unmasked, with_masks, with_types
from halowire.pyg.edges import unmarked
from halowire.pyg.own_rows import plain
from halowire.pyg.shard_data import cut_data
from halowire.wire import run_threads
from tests.support.list_case import PLAIN, TYPE, WEIGHT, list_graph
from tests.support.pyg_case import CLASSES, FEATURES, make_owner

ROW = torch.tensor([0, 1, 2, 3, 2, 5])
COL = torch.tensor([1, 1, 0, 3, 2, 4])


def masks(known: KnownEdges) -> tuple[Tensor, Tensor]:
    """The self loops, and the other edges by type."""
    types = EdgeTypes.of(COL, known)
    return known.compare(torch.eq, ROW, COL), types != 1


USES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "picks": lambda mask, values: values[mask],
    "picks columns": lambda mask, values: torch.stack([values, values])[:, mask],
    "picks what it is not": lambda mask, values: values[~mask],
    "is turned twice": lambda mask, values: values[torch.logical_not(~mask)],
    "sets": lambda mask, values: values.clone().index_put_((mask,), values[mask] * 2),
    "sets a number": lambda mask, values: _set(values.clone(), mask, 7.0),
    "sets values": lambda mask, values: _set(values.clone(), mask, values[mask] + 1),
    "is counted": lambda mask, values: mask.sum(),
    "chooses": lambda mask, values: torch.where(mask, values, -values),
    "is joined": lambda mask, values: values[torch.cat([mask[:3], ~mask[3:]])],
    "is changed in place": lambda mask, values: values[mask.logical_not_()],
    "is changed, then turned": lambda mask, values: values[~_set(mask, torch.tensor([0, 1]), torch.tensor(True))],
}


def _set(values: Tensor, where: Tensor, what: Tensor | float) -> Tensor:
    values[where] = what
    return values


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("which", [0, 1])
def test_a_mask_does_what_a_plain_one_does(use, which):
    known = KnownEdges()
    values = torch.arange(6.0) * 3
    for _ in range(2):  # the second time places are known
        mask = masks(known)[which]
        assert isinstance(mask, EdgeMask)
        want = USES[use](unmasked(mask).clone(), values)
        found = USES[use](mask, values)
        assert type(found) is Tensor or isinstance(found, EdgeMask)
        assert torch.equal(unmasked(found), want)


@pytest.mark.parametrize("index", [lambda mask: mask, lambda mask: (slice(None), mask), lambda mask: ~mask])
def test_a_mask_that_does_not_fit_is_refused(index):
    values = torch.zeros(8, 8)
    with pytest.raises(IndexError, match="does not match the shape"):
        values[index(masks(KnownEdges())[0])]


def test_other_ways_to_index_are_those_of_torch():
    values = torch.arange(36).view(6, 6)
    mask = masks(KnownEdges())[0]
    for index in ((..., mask), (None, mask), (mask, torch.tensor([0, 1, 2])), (mask, slice(2)), (mask, 1), [0, 2]):
        assert torch.equal(values[index], values[unmasked(index)])


def test_gradients_pass():
    values = torch.arange(6.0, requires_grad=True)
    (values[masks(KnownEdges())[0]] * torch.tensor([2.0, 3.0, 4.0])).sum().backward()
    assert values.grad.tolist() == [0, 2, 0, 3, 4, 0]


def test_places_are_found_once_and_anew_for_other_edges(monkeypatch):
    found: list[int] = []
    nonzero = Tensor.nonzero
    monkeypatch.setattr(Tensor, "nonzero", lambda self, **more: found.append(1) or nonzero(self, **more))
    known, row, col = KnownEdges(), ROW.clone(), COL.clone()
    for _ in range(3):
        assert torch.arange(6)[known.compare(torch.eq, row, col)].tolist() == [1, 3, 4]
    assert len(found) == 1
    col[0] = 0
    assert torch.arange(6)[known.compare(torch.eq, row, col)].tolist() == [0, 1, 3, 4]
    assert torch.arange(6)[known.compare(torch.eq, row.clone(), col)].tolist() == [0, 1, 3, 4]
    assert len(found) == 3
    types = EdgeTypes.of(col, known)
    assert torch.arange(6)[types == 3].tolist() == [3] and torch.arange(6)[types == 4].tolist() == [5]


def test_a_mask_of_nodes_keeps_its_places_while_it_is_unchanged(monkeypatch):
    looked: list[int] = []
    nonzero = Tensor.nonzero
    monkeypatch.setattr(Tensor, "nonzero", lambda mask: looked.append(1) or nonzero(mask))
    known, mask, values = KnownEdges(), ROW == COL, COL * 10
    for _ in range(2):
        (given,) = with_masks((mask,), known, 6)
        assert torch.equal(values[given], values[[1, 3, 4]]) and torch.equal(values[~given], values[[0, 2, 5]])
    assert len(looked) == 2
    mask[0] = True
    (given,) = with_masks((mask,), known, 6)
    assert torch.equal(values[given], values[[0, 1, 3, 4]])
    assert with_masks((mask,), known, 5)[0] is mask
    with torch.inference_mode():
        unknown = ROW == COL
    (given,) = with_masks((unknown,), known, 6)
    assert torch.equal(values[given], values[[1, 3, 4]])


def test_edges_that_come_again_stay_known(monkeypatch):
    known = KnownEdges()
    first = known.compare(torch.eq, ROW, COL).known
    for _ in range(2 * MOST_KNOWN):
        known.compare(torch.eq, ROW.clone(), COL)
        assert known.compare(torch.eq, ROW, COL).known is first
    assert len(known._known) == MOST_KNOWN


def test_only_whole_numbers_of_edges_are_marked():
    known = KnownEdges()
    given = {"type": torch.arange(5), "weight": torch.rand(5), "nodes": torch.arange(4), "mask": torch.ones(5) > 0}
    marked = with_types(given, known, 5)
    assert [name for name, value in marked.items() if isinstance(value, EdgeTypes)] == ["type"]
    untouched = {"nodes": given["nodes"]}
    assert with_types(untouched, known, 5) is untouched


class Deep(nn.Module):
    """Two layers of one kind, called with the same inputs."""

    def __init__(self, make: Callable[[int, int], nn.Module]) -> None:
        super().__init__()
        self.first = make(FEATURES, FEATURES)
        self.second = make(FEATURES, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor, *more: Tensor) -> Tensor:
        return self.second(self.first(x, edge_index, *more).relu(), edge_index, *more)


class Typed(nn.Module):
    """Sums rows at edges, after a product with the weight of the edge's type."""

    def __init__(self, columns: int, width: int) -> None:
        super().__init__()
        self.weight = pyg.HeteroLinear(columns, width, 3)

    def forward(self, x: Tensor, edge_index: Tensor, edge_type: Tensor) -> Tensor:
        rows = self.weight(x[edge_index[0]], edge_type)
        return rows.new_zeros(x.size(0), rows.size(1)).index_add(0, edge_index[1], rows)


LAYERS: dict[str, tuple[Callable[[int, int], nn.Module], tuple[str, ...]]] = {
    "GCNConv": (pyg.GCNConv, WEIGHT),
    "SGConv": (lambda a, b: pyg.SGConv(a, b, K=2), WEIGHT),
    "EGConv": (lambda a, b: pyg.EGConv(a, b, aggregators=["symnorm", "max"], num_heads=2 if b % 2 == 0 else 1), PLAIN),
    "MFConv": (pyg.MFConv, PLAIN),
    "RGCNConv": (lambda a, b: pyg.RGCNConv(a, b, 3), TYPE),
    "GATv2Conv": (pyg.GATv2Conv, PLAIN),
    "HeteroLinear": (Typed, TYPE),
}


def turned(values: Tensor) -> Tensor:
    return values.flip(-1)


CHANGES: dict[str, Callable[[ShardData, dict[str, Tensor]], None]] = {
    "edges in place": lambda data, given: unmarked(data.edge_index)[1].copy_(turned(unmarked(data.edge_index)[1])),
    "weights in place": lambda data, given: plain(data.edge_weight).copy_(turned(plain(data.edge_weight))),
    "types in place": lambda data, given: plain(data.edge_type).copy_(turned(plain(data.edge_type))),
    "other weights": lambda data, given: given.update(edge_weight=turned(plain(data.edge_weight)).clone()),
    "other edges": lambda data, given: given.update(edge_index=data.edge_index[:, torch.arange(10)]),
    "learnt weights": lambda data, given: given.update(edge_weight=plain(data.edge_weight).clone().requires_grad_()),
}


def matters(name: str, change: str) -> bool:
    """Whether the layer ``name`` has what changes; other edges would need types of their own."""
    of = {"edges": "edge_index", "weights": "edge_weight", "types": "edge_type"}
    inputs = LAYERS[name][1]
    needed = next(tensor for word, tensor in of.items() if word in change)
    return needed in inputs and not (change == "other edges" and len(inputs) > 2)


CASES = [(name, change) for name in LAYERS for change in CHANGES if matters(name, change)]
QUICK = [
    ("GCNConv", "weights in place"), ("SGConv", "edges in place"), ("MFConv", "other edges"),
    ("RGCNConv", "types in place"), ("HeteroLinear", "edges in place"), ("GCNConv", "learnt weights"),
]  # fmt: skip


def check_change(name: str, change: str) -> None:
    make, inputs = LAYERS[name]
    torch.manual_seed(3)
    model = Deep(make)

    def here(transport):
        outs = []
        for passes_before in (2, 0):
            data = cut_data(list_graph(sort=False), make_owner(2), transport)
            own = halowire.distribute(copy.deepcopy(model), data).train()
            given = {key: data[key] for key in inputs}
            for _ in range(passes_before):
                before = own(*given.values())
            CHANGES[change](data, given)
            outs.append(own(*given.values()))
            if passes_before and change != "learnt weights":
                assert not torch.equal(plain(before), plain(outs[0]))  # the change shows
        return outs

    for found, want in run_threads(2, here):
        assert torch.equal(plain(found), plain(want))


@pytest.mark.parametrize(("name", "change"), QUICK)
def test_a_model_that_knows_other_edges_gives_what_a_fresh_one_gives(name, change):
    check_change(name, change)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "change"), [case for case in CASES if case not in QUICK])
def test_every_model_that_knows_other_edges_gives_what_a_fresh_one_gives(name, change):
    check_change(name, change)


def test_the_largest_of_picked_numbers_is_looked_up_once_while_they_are_unchanged(monkeypatch):
    known, index = KnownEdges(), torch.tensor([5, 1, 4, 2, 9, 3])
    mask = known.compare(torch.eq, ROW, COL)
    assert int(index[mask].max()) == 9 and int(torch.max(index[mask])) == 9 and int(index[~mask].max()) == 5
    looked: list[int] = []
    largest = Tensor.max
    monkeypatch.setattr(Tensor, "max", lambda *given: looked.append(1) or largest(*given))
    picked = index[known.compare(torch.eq, ROW, COL)]
    assert int(torch.max(picked)) == 9 and not looked
    index[1] = 20
    assert int(torch.max(index[mask])) == 20 and looked
    picked = index[mask]
    picked[0] = 30
    assert int(torch.max(picked)) == 30
    assert int(torch.max(index[mask & (COL < 0)], torch.tensor(2)).numel()) == 0
    assert type(unmasked(picked)) is Tensor and type(picked + 1) is Tensor
