"""Rows of a worker are picked by masks and translated indices; node numbers of the whole graph are refused."""

from __future__ import annotations

import copy
import io

import pytest
import torch
import torch_geometric.nn as pyg
from torch_geometric.utils import index_to_mask

import halowire
from halowire.errors import InputError
from halowire.pyg.own_rows import OwnIndex, OwnRows, OwnSome
from halowire.pyg.shard_data import cut_data
from halowire.wire import run_threads
from tests.support.pyg_case import NODES, assert_close, make_graph, make_owner, plain_gradients, seeded
from tests.support.pyg_models import two
from tests.support.worker_counts import two_and_three

LABELS = torch.arange(NODES) % 4
TRAIN = torch.randperm(NODES, generator=torch.Generator().manual_seed(2))[:40]
MASK = torch.zeros(NODES, dtype=torch.bool).index_fill_(0, TRAIN, True)
NUMBERS = {"n_id": torch.arange(NODES), "node_id": torch.arange(NODES), "backwards": torch.arange(NODES).flip(0)}
NAMED = {"train_idx": TRAIN, "split_idx": {"train": TRAIN}, "mine": TRAIN}
GRAPH = make_graph() | {"y": LABELS, "train_mask": MASK} | NAMED | NUMBERS
MODEL = seeded(lambda: two(pyg.SAGEConv))


def place(transport, **options):
    data = cut_data(GRAPH, make_owner(transport.size), transport, **options)
    return data, halowire.distribute(copy.deepcopy(MODEL), data)


INDICES = {
    "translated by its name": lambda data: data.train_idx,
    "a dictionary": lambda data: data.split_idx["train"],
    "named by the user": lambda data: data.mine,
    "translated by hand": lambda data: data.translate(TRAIN),
    "a mask translated by hand": lambda data: data.translate(MASK),
    "found in a mask": lambda data: data.train_mask.nonzero().view(-1),
    "found as PyG's examples do": lambda data: data.train_mask.nonzero(as_tuple=False).view(-1),
    "found as a tuple": lambda data: torch.nonzero(data.train_mask, as_tuple=True)[0],
    "found by where": lambda data: torch.where(data.train_mask)[0],
    "picked from an index": lambda data: data.train_idx[torch.randperm(len(data.train_idx))],
    "joined": lambda data: torch.cat([data.train_idx[:3], data.train_idx[3:]]),
    "said to be own": lambda data: data.own(data.train_mask.nonzero().view(-1).tolist()),
    "the mask": lambda data: data.train_mask,
    "a mask of a translated index": lambda data: index_to_mask(data.translate(TRAIN), size=data.num_nodes),
    "compared labels": lambda data: (data.y >= 0) & data.train_mask,
}


@two_and_three
@pytest.mark.parametrize("name", INDICES)
def test_an_index_of_nodes_gives_the_gradients_of_the_whole_graph(name, workers):
    want = plain_gradients(MODEL, lambda own, out: out.log_softmax(1)[TRAIN].square().mean())

    def here(transport):
        data, model = place(transport, node_index=["mine"])
        rows = model(data.x, data.edge_index).log_softmax(1)
        index = INDICES[name](data)
        assert type(rows) is OwnRows and type(rows[index]) is OwnSome
        assert sorted(LABELS[data.rows][index].tolist()) == sorted(data.y[index].tolist())
        data.mean(rows[index].square()).backward()
        return {key: value.grad for key, value in model.named_parameters()}

    for grads in run_threads(workers, here):
        for key, value in want.items():
            assert_close(key, grads[key], value)


WRONG = {
    "an index": lambda data, rows: rows[TRAIN],
    "a list": lambda data, rows: rows[[1, 2]],
    "a number": lambda data, rows: rows[3],
    "a slice": lambda data, rows: rows[:10],
    "index_select": lambda data, rows: rows.index_select(0, TRAIN),
    "the whole graph's mask": lambda data, rows: rows[MASK],
    "the numbers of the own rows": lambda data, rows: rows[data.rows],
    "labels by an index": lambda data, rows: data.y[TRAIN],
    "a short mask": lambda data, rows: rows[MASK[:5]],
    "a whole tensor by own numbers": lambda data, rows: LABELS[data.train_idx],
    "features by an index": lambda data, rows: data.x[TRAIN],
    "features by the whole graph's mask": lambda data, rows: data.x[MASK],
    "another tensor of nodes": lambda data, rows: data.n_id[TRAIN],
    "columns side by side": lambda data, rows: torch.cat([rows, rows], 1)[TRAIN],
    "a plain tensor first": lambda data, rows: (torch.ones(len(rows), 1) - rows)[TRAIN],
    "features that were set": lambda data, rows: setattr(data, "x", data.x * 2) or data.x[TRAIN],
    "labels of all nodes": lambda data, rows: torch.nn.functional.cross_entropy(rows, LABELS),
    "a tensor of all nodes": lambda data, rows: rows[:, 0] + LABELS,
    "all nodes by a mask of rows": lambda data, rows: LABELS[data.train_mask],
    "numbers in another order": lambda data, rows: rows[data.backwards],
    "other numbers with labels": lambda data, rows: rows[torch.arange(len(rows)).flip(0), data.y],
    "F.embedding": lambda data, rows: torch.nn.functional.embedding(TRAIN, rows),
    "gather": lambda data, rows: rows.gather(0, TRAIN.view(-1, 1).expand(-1, 4)),
    "gather by names": lambda data, rows: torch.gather(input=rows, dim=-2, index=TRAIN.view(-1, 1)),
    "take_along_dim": lambda data, rows: torch.take_along_dim(rows, TRAIN.view(-1, 1), 0),
    "take": lambda data, rows: data.y.take(TRAIN),
    "select": lambda data, rows: rows.select(0, 3),
    "narrow": lambda data, rows: rows.narrow(0, 0, 10),
    "split": lambda data, rows: rows.split(10),
    "split by sizes": lambda data, rows: torch.split(rows, [10, len(rows) - 10]),
    "chunk": lambda data, rows: rows.chunk(4),
    "tensor_split": lambda data, rows: rows.tensor_split([10]),
    "unbind": lambda data, rows: rows.unbind(),
    "iteration": lambda data, rows: list(data.y),
    "scatter": lambda data, rows: rows.scatter(0, TRAIN.view(-1, 1), 1.0),
    "scatter_add": lambda data, rows: torch.scatter_add(rows, 0, TRAIN.view(-1, 1), torch.ones(40, 1)),
    "index_put": lambda data, rows: rows.index_put_((TRAIN,), torch.tensor(1.0)),
    "an index behind dots": lambda data, rows: data.y[..., TRAIN],
    "an index behind a new dimension": lambda data, rows: rows[None, TRAIN],
    "a table by own numbers": lambda data, rows: torch.nn.functional.embedding(data.train_idx, torch.rand(NODES, 2)),
    "after other steps": lambda data, rows: (rows.relu() + 1).argmax(1)[TRAIN],
}


@two_and_three
@pytest.mark.parametrize("name", WRONG)
def test_numbers_of_the_whole_graph_are_refused_with_what_to_write(name, workers):
    def here(transport):
        data, model = place(transport)
        with pytest.raises(InputError, match=r"data\.(translate|rows)"), torch.no_grad():
            WRONG[name](data, model(data.x, data.edge_index))

    run_threads(workers, here)


def test_what_picks_no_rows_or_all_of_them_is_let_in():
    def here(transport):
        data, model = place(transport)
        out = model(data.x, data.edge_index)
        best = out.gather(1, data.y.view(-1, 1))
        assert torch.equal(best[:, 0], out[torch.arange(len(out)).eq(-1).logical_not(), data.y])
        assert torch.equal(best[:, 0], out[torch.arange(data.num_nodes), data.y])
        assert torch.equal(out.gather(0, data.train_idx.view(-1, 1)), out[data.train_idx, :1])
        assert len(out.split(2, dim=1)) == len(out.chunk(2, dim=-1)) == 2 and len(out.unbind(1)) == 4
        assert out.select(1, 0).shape == data.y.shape and out.narrow(0, 0, len(out)).shape == out.shape
        assert out.split(len(out))[0].shape == out.shape and out[..., 0].shape == data.y.shape
        hot = torch.zeros_like(out).scatter_(1, data.y.view(-1, 1), 1.0)
        assert torch.equal(hot, torch.nn.functional.one_hot(data.y, 4))
        assert torch.nn.functional.embedding(data.y, torch.rand(4, 2)).shape == (len(out), 2)

    run_threads(3, here)


def test_rows_are_used_as_any_tensor():
    def here(transport):
        data, model = place(transport)
        out = model(data.x, data.edge_index)
        assert out[:].shape == out.shape and out[:, 0].shape == (data.num_nodes,) and out[..., :2].shape[1] == 2
        assert type(out.sum(1)) is OwnRows and repr(out) and len(out.tolist()) == len(out)
        assert type(copy.deepcopy(data.y)) is OwnRows and data.y.numpy().shape == (data.num_nodes,)
        file = io.BytesIO()
        torch.save(data.y, file)
        assert torch.equal(torch.load(io.BytesIO(file.getvalue())), data.y)
        assert type(data.train_idx) is OwnIndex and torch.equal(data.rows[data.train_idx].sort()[0],
                                                                data.rows[data.train_mask].sort()[0])  # fmt: skip
        assert torch.equal(data.gather(data.y), LABELS) and torch.equal(data.gather(data.train_mask), MASK)
        return data.gather(data.train_idx).numel()

    assert run_threads(3, here) == [TRAIN.numel()] * 3


@two_and_three
def test_the_numbers_of_all_nodes_pick_all_rows_and_name_them_in_whole_tensors(workers):
    def here(transport):
        data, model = place(transport)
        out = model(data.x, data.edge_index)
        for number in (data.n_id, data.node_id):
            assert torch.equal(number, data.rows) and torch.equal(out[number], out)
            assert torch.equal(data.y[number], data.y) and torch.equal(LABELS[number], data.y)
        whole = torch.zeros(NODES, dtype=torch.bool)
        whole[data.n_id] = True
        assert int(whole.sum()) == data.num_nodes

    run_threads(workers, here)


class Numbered(torch.nn.Module):
    """Picks the rows of ``x`` by the numbers of the nodes."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = pyg.SAGEConv(6, 4)

    def forward(self, x, edge_index, n_id):
        return self.conv(x[n_id], edge_index)


def test_rows_picked_in_a_model_by_the_numbers_of_all_nodes_are_refused_with_what_to_write():
    def here(transport):
        data, _ = place(transport)
        with pytest.raises(InputError, match=r"write x, not x\[n_id\]"):
            halowire.distribute(Numbered(), data)(data.x, data.edge_index, data.n_id)

    run_threads(2, here)


def test_marked_features_keep_their_halo_and_their_gradient():
    """The halo rows of ``x`` are fetched once, unless ``x`` is changed; a gradient of ``x`` is the whole graph's."""
    features = GRAPH["x"].clone().requires_grad_()
    copy.deepcopy(MODEL)(2 * features, GRAPH["edge_index"]).square().mean().backward()

    def here(transport):
        data, model = place(transport)
        bridge = data.bridge
        with torch.no_grad():
            first = model(data.x, data.edge_index)
            fetched = bridge._kept[0].extended
            assert torch.equal(model(data.x, data.edge_index), first) and bridge._kept[0].extended is fetched
            data.x.mul_(2)
            assert not torch.equal(model(data.x, data.edge_index), first)
            assert bridge._kept[0].extended is not fetched
        data.x.requires_grad_()
        data.mean(model(data.x, data.edge_index).square()).backward()
        return data.gather(data.x.grad)

    for found in run_threads(2, here):
        assert_close("gradient", 2 * found, features.grad)


def test_one_worker_may_use_any_index():
    def here(transport):
        data, model = place(transport)
        return type(model(data.x, data.edge_index)[TRAIN])

    assert run_threads(1, here) == [torch.Tensor]


def test_a_wrong_index_is_refused():
    def here(transport):
        data, _ = place(transport)
        for index in (torch.tensor([NODES]), torch.tensor([0.5]), torch.ones(5, dtype=torch.bool)):
            with pytest.raises(InputError, match=f"{NODES} nodes"):
                data.translate(index)
        with pytest.raises(InputError, match="node_index names"):
            cut_data(GRAPH, make_owner(transport.size), transport, node_index=["y", "x"])

    run_threads(2, here)
