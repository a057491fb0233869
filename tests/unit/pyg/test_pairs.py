"""Link prediction as PyG's examples write it: pairs of nodes are scored by rows of all workers, and learnt as one."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.transforms import RandomLinkSplit

import halowire
from halowire.errors import InputError
from halowire.pyg.shard_data import cut_data
from halowire.wire import run_threads
from tests.support.pyg_case import FEATURES, NODES, assert_close, make_graph, make_owner, seeded
from tests.support.pyg_models import HIDDEN, two
from tests.support.worker_counts import three_and_two, two_and_three


def split(**options) -> tuple[dict[str, Tensor], ...]:
    """What ``RandomLinkSplit`` makes of the graph of the tests, as the tensors of three graphs."""
    torch.manual_seed(2)
    graph = make_graph()
    data = Data(x=graph["x"], edge_index=graph["edge_index"])
    return tuple(part.to_dict() for part in RandomLinkSplit(0.1, 0.2, **options)(data))


TRAIN, _, TEST = split()
LABELLED, _, _ = split(split_labels=True, add_negative_train_samples=True)


class LinkNet(nn.Module):
    """The model of PyG's link prediction example, with a decoder that learns."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = pyg.GCNConv(FEATURES, HIDDEN), pyg.GCNConv(HIDDEN, HIDDEN)
        self.weigh = nn.Linear(HIDDEN, 1)

    def encode(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.second(self.first(x, edge_index).relu(), edge_index)

    def decode(self, z: Tensor, edge_label_index: Tensor) -> Tensor:
        source, target = edge_label_index
        return self.weigh(z[source] * z[edge_label_index[1]]).view(-1) + (z[source] * z[target]).sum(dim=-1)


def learn(model: nn.Module, data, loss) -> list[Tensor]:
    optimiser = torch.optim.SGD(model.parameters(), lr=0.2)
    for _ in range(3):
        optimiser.zero_grad()
        loss(model, data).backward()
        optimiser.step()
    return [value.detach() for value in model.parameters()]


@pytest.mark.parametrize("workers", [2, 3])
def test_links_are_learnt_and_scored_as_in_plain_pyg(workers):
    model = seeded(LinkNet)

    def plain(own, data):
        scores = own.decode(own.encode(data.x, data.edge_index), data.edge_label_index)
        return F.binary_cross_entropy_with_logits(scores, data.edge_label)

    def whole(own, data):
        scores = own.decode(own.encode(data.x, data.edge_index), data.edge_label_index)
        return data.binary_cross_entropy_with_logits(scores, data.edge_label)

    one = copy.deepcopy(model)
    want = learn(one, Data(**TRAIN), plain)
    with torch.no_grad():
        z = one.encode(TEST["x"], TEST["edge_index"])
        scores = one.decode(z, TEST["edge_label_index"]).sort()[0]

    def here(transport):
        train, test = (cut_data(graph, make_owner(transport.size), transport) for graph in (TRAIN, TEST))
        own = halowire.distribute(copy.deepcopy(model), train)
        found = learn(own, train, whole)
        with torch.no_grad():
            rows = own.encode(test.x, test.edge_index)
            return found, test.gather(own.decode(rows, test.edge_label_index)), test.gather(test.edge_label)

    for found, gathered, labels in run_threads(workers, here):
        for got, value in zip(found, want, strict=True):
            assert_close("weight", got, value)
        assert_close("scores", gathered.sort()[0], scores)
        assert labels.sum() == TEST["edge_label"].sum() and labels.numel() == TEST["edge_label"].numel()


@two_and_three
@pytest.mark.parametrize("kind", ["GAE", "VGAE"])
def test_autoencoders_learn_as_in_plain_pyg(kind, workers):
    """With given negatives the losses are equal; a VGAE is compared in evaluation, where it draws nothing."""

    model = seeded(lambda: getattr(pyg, kind)(two(pyg.GCNConv) if kind == "GAE" else Both()))
    pairs = ("pos_edge_label_index", "neg_edge_label_index")

    def loss(own, data):
        own.train(kind == "GAE")
        total = own.recon_loss(own.encode(data.x, data.edge_index), *(data[name] for name in pairs))
        return total + own.kl_loss() / 7 if kind == "VGAE" else total

    want = learn(copy.deepcopy(model), Data(**LABELLED), loss)

    def here(transport):
        data = cut_data(LABELLED, make_owner(transport.size), transport)
        own = halowire.distribute(copy.deepcopy(model), data)
        return learn(own, data, loss)

    for found in run_threads(workers, here):
        for got, value in zip(found, want, strict=True):
            assert_close("weight", got, value)


def test_an_autoencoder_learns_from_edges_and_drawn_pairs():
    model = seeded(lambda: pyg.GAE(two(pyg.GCNConv)))

    def here(transport):
        data = cut_data(make_graph(), make_owner(transport.size), transport)
        own, losses = halowire.distribute(copy.deepcopy(model), data, "halowire"), []
        optimiser = torch.optim.Adam(own.parameters(), lr=0.02)
        for _ in range(30):
            optimiser.zero_grad()
            loss = own.recon_loss(own.encode(data.x, data.edge_index), data.edge_index)
            loss.backward()
            optimiser.step()
            losses.append(float(loss))
        transport.settle()
        return losses

    first, second = run_threads(2, here)
    assert first == second and sum(first[-5:]) < sum(first[:5])


def test_drawn_pairs_are_no_edges_and_the_same_on_any_number_of_workers():
    edges = set(map(tuple, make_graph()["edge_index"].t().tolist()))

    def here(transport):
        data = cut_data(make_graph(), make_owner(transport.size), transport)
        draws = [data.negative_sampling(200) for _ in range(2)]
        return [data.gather(draw.as_subclass(Tensor).t()) for draw in draws]

    found = [run_threads(workers, here)[0] for workers in (1, 3)]
    for one, three in zip(*found, strict=True):
        pairs = [tuple(pair) for pair in three.tolist()]
        assert sorted(pairs) == sorted(map(tuple, one.tolist())) and len(pairs) == 200
        assert not edges & set(pairs) and all(first != second for first, second in pairs)
    assert found[0][0].tolist() != found[0][1].tolist()


@two_and_three
def test_wrong_uses_of_pairs_are_refused_with_what_to_write(workers):
    def here(transport):
        data = cut_data(TRAIN, make_owner(transport.size), transport)
        own = halowire.distribute(LinkNet(), data)
        z = own.encode(data.x, data.edge_index)
        for wrong, words in (
            (lambda: torch.cat([data.edge_label_index, torch.zeros(2, 3).long()], 1), r"data\.negative_sampling"),
            (lambda: torch.zeros(NODES + 1, 2)[data.edge_label_index[0]], "output of the model"),
            (lambda: z.long()[data.edge_label_index[0]], r"\.float\(\)"),
            (lambda: own.encode(data.edge_label_index[0], data.edge_index), "pass both ends of the pairs"),
            (lambda: data.pairs(torch.full((2, 1), NODES)), f"{NODES} nodes"),
        ):
            with pytest.raises(InputError, match=words):
                wrong()
        joined = torch.cat([data.edge_label_index, data.negative_sampling(40)], dim=-1)
        assert own.decode(z, joined).shape == (joined.size(1),)
        # A number that differs between workers, such as the part's number of nodes, must not scale the loss.
        loss = data.mean(own.decode(z, joined)) / data.num_nodes
        with pytest.raises(InputError, match="num_whole_nodes"):
            loss.backward()

    run_threads(workers, here)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_scores_without_a_gradient_before_those_with_one(mode):
    """What was fetched without a gradient does not take the place of rows that learn."""
    plain = seeded(LinkNet)

    def gradients(model, data):
        z = model.encode(data.x, data.edge_index)
        with mode():
            model.decode(z, data.edge_label_index)
        return z, model.decode(z, data.edge_label_index)

    whole = copy.deepcopy(plain)
    gradients(whole, Data(**TRAIN))[1].square().mean().backward()

    def here(transport):
        data = cut_data(TRAIN, make_owner(transport.size), transport)
        own = halowire.distribute(copy.deepcopy(plain), data)
        data.mean(gradients(own, data)[1].square()).backward()
        return [value.grad for value in own.parameters()]

    for found in run_threads(2, here):
        for got, want in zip(found, whole.parameters(), strict=True):
            assert_close("gradient", got, want.grad)


@three_and_two
def test_numbers_and_lists_of_pairs_that_differ_are_refused_on_all_workers(workers):
    def here(transport):
        data = cut_data(TRAIN, make_owner(transport.size), transport)
        with pytest.raises(InputError, match="num_whole_edges"):
            data.negative_sampling(data.edge_label_index.size(1))
        with pytest.raises(InputError, match="manual_seed"):
            data.pairs(torch.tensor([[0, 1], [2, 3 + transport.rank]]))
        return data.pairs(torch.tensor([[0, 1], [2, 3]])).size(1), data.negative_sampling(30).size(1)

    assert [sum(counts) for counts in zip(*run_threads(workers, here), strict=True)] == [2, 30]


class Both(nn.Module):
    """An encoder that gives the means and the deviations of its rows."""

    def __init__(self) -> None:
        super().__init__()
        self.mu, self.logstd = two(pyg.GCNConv), two(pyg.GCNConv)

    def forward(self, x, edge_index):
        return self.mu(x, edge_index), self.logstd(x, edge_index)


@pytest.mark.parametrize(("kind", "workers"), [("ARGVA", 2), pytest.param("ARGA", 3, marks=pytest.mark.slow),
                                               pytest.param("ARGVA", 3, marks=pytest.mark.slow)])  # fmt: skip
def test_adversarial_autoencoders_learn_as_in_plain_pyg(kind, workers, monkeypatch):
    """Three steps of the encoder and six of the discriminator, as in PyG's example, with the draws of one process."""
    pairs = ("pos_edge_label_index", "neg_edge_label_index")
    variational = kind == "ARGVA"
    discriminator = seeded(lambda: nn.Sequential(nn.Linear(4, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 1)))
    model = seeded(lambda: getattr(pyg, kind)(Both() if variational else two(pyg.GCNConv), discriminator))

    def learn_both(own, data, count) -> list[Tensor]:
        encoder = torch.optim.SGD(own.encoder.parameters(), lr=0.2)
        judge = torch.optim.SGD(own.discriminator.parameters(), lr=0.2)
        for _ in range(3):
            own.train()
            encoder.zero_grad()
            z = own.encode(data.x, data.edge_index)
            for _ in range(2):
                judge.zero_grad()
                own.discriminator_loss(z).backward()
                judge.step()
            loss = own.recon_loss(z, *(data[name] for name in pairs)) + own.reg_loss(z)
            loss = loss + (1 / count) * own.kl_loss() if variational else loss
            loss.backward()
            encoder.step()
        return [value.detach() for value in own.parameters()]

    def here(transport):
        data = cut_data(LABELLED, make_owner(transport.size), transport)
        return learn_both(halowire.distribute(copy.deepcopy(model), data), data, data.num_whole_nodes)

    found = run_threads(workers, here)
    random, edges = halowire.Random(), LABELLED["edge_index"]
    monkeypatch.setattr(torch, "randn_like", lambda rows: random.normal(edges, *rows.shape))
    want = learn_both(copy.deepcopy(model), Data(**LABELLED), NODES)
    for weights in found:
        for got, value in zip(weights, want, strict=True):
            assert_close("weight", got, value)
