"""A part of a ``HeteroData`` under PyG's names: what it holds, what travels, and what is refused."""

from __future__ import annotations

import pytest
import torch
import torch_geometric.nn as pyg
from torch import nn
from torch_geometric.transforms import ToSparseTensor

import halowire
from halowire.errors import InputError
from halowire.events import TRAIN
from halowire.pyg.distribute import state_of
from halowire.pyg.hetero_data import cut_hetero
from halowire.pyg.hetero_trial import HeteroSlots
from halowire.pyg.own_rows import plain
from halowire.wire import HEADER_BYTES, run_threads
from tests.support.hetero_case import COUNTS, HIDDEN, LINKS, WIDTHS, build_hetero, make_hetero, make_owners
from tests.support.worker_counts import two_and_three


def on_parts(work, parts=2):
    owner = make_owners(parts)
    return run_threads(parts, lambda transport: work(cut_hetero(make_hetero(), owner, transport)))


def test_a_part_has_pygs_names_and_the_users_rows():
    whole = make_hetero()

    def here(data):
        assert data.metadata() == whole.metadata() and data.node_types == whole.node_types
        for name in COUNTS:
            assert torch.equal(data[name].x, whole[name].x[data[name].rows])
            assert data.x_dict[name] is data[name].x and data[name].num_nodes == data[name].rows.numel()
        paper = data["paper"]
        assert torch.equal(paper.y, whole["paper"].y[paper.rows]) and paper.train_mask.dtype == torch.bool
        assert torch.equal(data["writes"].edge_attr, data["author", "writes", "paper"].edge_attr)
        return {name: data[name].rows for name in COUNTS}, {kind: plain(data[kind].edge_attr) for kind in LINKS}

    found = on_parts(here, 3)
    for name, count in COUNTS.items():
        assert torch.cat([rows[name] for rows, _ in found]).sort().values.equal(torch.arange(count))
    for kind, count in LINKS.items():
        together = torch.cat([attr[kind] for _, attr in found])
        assert len(together) == count and torch.equal(
            together[:, 0].sort().values, whole[kind].edge_attr[:, 0].sort().values
        )


def test_only_the_rows_that_an_edge_types_readers_need_travel():
    """Two layers of SAGE, 8 columns in float32: forward, every edge type sends its own list of rows twice."""

    def here(data):
        model = halowire.distribute(build_hetero("HeteroConv SAGE"), data)
        ledger = data.transport.ledger
        data.mean(model(data.x_dict, data.edge_index_dict).square()).backward()
        before = ledger.totals[TRAIN]
        out = model(data.x_dict, data.edge_index_dict)
        relations = data.shard.relations
        sent = sum(2 * sum(relations[kind].send_counts) for kind in LINKS)
        messages = sum(2 * sum(count > 0 for count in relations[kind].send_counts) for kind in LINKS)
        forward = ledger.totals[TRAIN] - before
        data.mean(out.square()).backward()
        return forward, sent * 4 * HIDDEN + messages * HEADER_BYTES

    for forward, expected in on_parts(here):
        assert forward == expected


def test_dropout_before_an_exchange_is_noted():
    class Dropping(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.enter = pyg.HeteroDictLinear(WIDTHS, 8)
            self.conv = pyg.HeteroConv({kind: pyg.SAGEConv(8, 4) for kind in LINKS})

        def forward(self, x_dict, edge_index_dict):
            h = {name: nn.functional.dropout(x, 0.5, self.training) for name, x in self.enter(x_dict).items()}
            return self.conv(h, edge_index_dict)

    def here(data):
        model = halowire.distribute(Dropping(), data, recipe="halowire")
        out = model(data.x_dict, data.edge_index_dict)
        loss = data.mean(out["paper"].square())
        loss.backward()
        (exchange,) = state_of(model).exchanges
        return exchange.policy.decay, bool(torch.isfinite(loss))

    assert on_parts(here) == [(None, True)] * 2, "rows travel as they are, not as changes"


def refuse(change, words):
    data = make_hetero()
    change(data)
    with pytest.raises(InputError, match=words):
        run_threads(2, lambda transport: halowire.shard(data, method="random", transport=transport, device="cpu"))


def test_what_cannot_be_cut_is_refused():
    def label(data):
        data["author", "writes", "paper"].edge_label_index = torch.zeros(3, 5, dtype=torch.int64)

    def stranger(data):
        data["author", "writes", "paper"].edge_label_index = torch.full((2, 5), COUNTS["author"])

    def index(data):
        data["paper"].anchor_idx = torch.arange(5)

    def beyond(data):
        data["author", "writes", "paper"].edge_index[0, 0] = COUNTS["author"]

    def short(data):
        data["paper"].y = torch.zeros(3)

    def nothing(data):
        for kind in LINKS:
            del data[kind]

    refuse(label, r"edge_label_index of .* expected pairs of nodes")
    refuse(stranger, f"names node {COUNTS['author']}")
    refuse(index, "anchor_idx of 'paper' names nodes")
    refuse(beyond, f"which has {COUNTS['author']} nodes")
    refuse(short, "y of 'paper' has shape")
    refuse(nothing, "no kind of edges")
    with pytest.raises(InputError, match="undo the ToSparseTensor"):
        data = ToSparseTensor(attr=None, layout=torch.sparse_csr)(make_hetero())
        run_threads(1, lambda transport: halowire.shard(data, transport=transport, device="cpu"))


def test_workers_with_different_graphs_are_refused():
    def here(transport):
        data = make_hetero()
        data["paper"].train_mask = torch.rand(COUNTS["paper"]) < 0.5
        with pytest.raises(InputError, match="train_mask of 'paper' differs"):
            halowire.shard(data, transport=transport, device="cpu")

    run_threads(2, here)


def test_the_loss_of_one_type_is_that_of_the_whole_graph():
    whole = make_hetero()["paper"]
    out = torch.randn(COUNTS["paper"], 4, generator=torch.Generator().manual_seed(1))
    weight = torch.tensor([0.1, 1.0, 2.0, 0.5])
    want = nn.functional.cross_entropy(out[whole.train_mask], whole.y[whole.train_mask], weight=weight)

    def here(data):
        paper = data["paper"]
        return data.cross_entropy(out[paper.rows], paper.y, paper.train_mask, weight=weight)

    for found in on_parts(here, 3):
        torch.testing.assert_close(found, want)


def test_what_a_part_does_not_have_is_named():
    def here(data):
        with pytest.raises(AttributeError, match=r"has no 'subgraph'; its tensors are in data\[type\]"):
            data.subgraph  # noqa: B018
        assert "field" in repr(data) and "part" in repr(data)

    on_parts(here)


def test_edges_of_several_types_joined_before_the_call_are_refused():
    def here(data):
        model = halowire.distribute(build_hetero("by hand"), data)
        joined = torch.cat([data.edge_index_dict[kind] for kind in list(LINKS)[:2]], 1)
        with pytest.raises(InputError, match="not those of one edge type"):
            model(data.x_dict, {"all": joined})

    on_parts(here, 1)


def test_a_tensor_that_may_belong_to_two_types_is_refused():
    def here(data):
        slots = HeteroSlots(data)
        assert slots.of(torch.zeros(COUNTS["field"])).kind == "field"
        assert slots.of({"venue": torch.zeros(COUNTS["venue"], 3)})["venue"].kind == "venue"
        assert slots.of(data["paper"].y).kind == "paper"
        slots.of(torch.zeros(70))  # as many edges lead to fields as lead from them
        assert "which may be" in str(slots.doubt)

    on_parts(here, 1)


class Weighed(nn.Module):
    """Takes a number for each venue beside the dictionaries."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = pyg.HeteroConv({("paper", "cites", "paper"): pyg.SAGEConv(6, 4)})

    def forward(self, x_dict, edge_index_dict, weight):
        return self.conv(x_dict, edge_index_dict)["paper"], x_dict["venue"] * weight[:, None]


def test_what_one_worker_cannot_tell_is_refused_by_all_with_the_same_words():
    owner = make_owners(2)
    for name in ("venue", "author"):  # rank 0 has three of both, rank 1 has different numbers of them
        owner[name] = (torch.arange(COUNTS[name]) >= 3).long()

    def here(transport):
        data = cut_hetero(make_hetero(), owner, transport)
        model = halowire.distribute(Weighed(), data)
        with pytest.raises(InputError) as raised:
            model(data.x_dict, data.edge_index_dict, torch.ones(data["venue"].num_nodes))
        return str(raised.value)

    first, second = run_threads(2, here)
    assert first == second and "a tensor of 3 rows, which may be" in first


class Means(nn.Module):
    """A mean over all nodes of a type, which a worker cannot know."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = pyg.HeteroConv({("paper", "cites", "paper"): pyg.SAGEConv(6, 4)})

    def forward(self, x_dict, edge_index_dict):
        return self.conv(x_dict, edge_index_dict)["paper"] + x_dict["author"].mean()


def test_a_model_that_looks_at_all_nodes_of_another_type_is_refused():
    def here(data):
        with pytest.raises(InputError, match="does not equal the whole model"):
            halowire.distribute(Means(), data)

    on_parts(here)


class Shuffled(nn.Module):
    """The corruption of ``dmgi_unsup.py``: shuffled features of one type go through a layer too."""

    def __init__(self, drawn) -> None:
        super().__init__()
        self.conv = pyg.HeteroConv({("paper", "cites", "paper"): pyg.SAGEConv(6, 4)})
        self.drawn = drawn

    def forward(self, x_dict, edge_index_dict):
        x, edges = x_dict["paper"], edge_index_dict["paper", "cites", "paper"]
        return self.conv({"paper": self.drawn(x, edges)}, edge_index_dict)["paper"]


@two_and_three
@pytest.mark.parametrize(("drawn", "words"), [
    (lambda x, edges: x[torch.randperm(x.size(0))], "halowire.Random"),
    (halowire.Random().shuffled, "for graphs of one node type"),
], ids=["torch", "halowire"])  # fmt: skip
def test_shuffled_nodes_are_refused(drawn, words, workers):
    def here(data):
        with pytest.raises(InputError, match=words):
            halowire.distribute(Shuffled(drawn), data)

    on_parts(here, workers)
