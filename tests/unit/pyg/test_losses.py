"""Losses of the whole graph equal torch's on one process; what would be averaged wrongly is refused."""

from __future__ import annotations

import copy
from functools import partial

import pytest
import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg

from halowire.errors import InputError
from halowire.wire import run_threads
from tests.support.pyg_case import CLASSES, NODES, assert_close, make_graph, make_owner, place, seeded
from tests.support.pyg_models import two
from tests.support.worker_counts import three_and_two, two_and_three

GENERATOR = torch.Generator().manual_seed(3)
LABELS = torch.randint(CLASSES, (NODES,), generator=GENERATOR)
LABELS[::4] = -1
VALUES = torch.rand(NODES, CLASSES, generator=GENERATOR)
WEIGHT = torch.rand(CLASSES, generator=GENERATOR) + 0.1
MASK = torch.rand(NODES, generator=GENERATOR) < 0.6
LOSSES = {
    "classes": ("cross_entropy", LABELS.clamp(min=0), {}),
    "weighted classes": ("cross_entropy", LABELS.clamp(min=0), {"weight": WEIGHT}),
    "ignored": ("cross_entropy", LABELS, {"ignore_index": -1}),
    "smoothed": (
        "cross_entropy", LABELS, {"ignore_index": -1, "weight": WEIGHT, "label_smoothing": 0.2},
    ),
    "shares": ("cross_entropy", VALUES, {"weight": WEIGHT, "label_smoothing": 0.1}),
    "likelihood": ("nll_loss", LABELS, {"ignore_index": -1, "weight": WEIGHT}),
    "logits": ("binary_cross_entropy_with_logits", VALUES, {"pos_weight": WEIGHT, "weight": WEIGHT}),
    "squares": ("mse_loss", VALUES, {}),
    "distances": ("l1_loss", VALUES, {}),
    "smooth distances": ("smooth_l1_loss", VALUES, {"beta": 0.3}),
    "huber": ("huber_loss", VALUES, {"delta": 0.3}),
}  # fmt: skip


@three_and_two
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("masked", [True, False])
def test_a_loss_equals_torchs_on_the_whole_graph(name, masked, workers):
    function, y, options = LOSSES[name]
    model, graph = seeded(lambda: two(pyg.SAGEConv)), make_graph()
    plain = copy.deepcopy(model)
    out = plain(graph["x"], graph["edge_index"])
    want = getattr(F, function)(out[MASK], y[MASK], **options) if masked else getattr(F, function)(out, y, **options)
    want.backward()

    def here(transport):
        data, own = place(transport, model)
        part, mask = y[data.rows], MASK[data.rows] if masked else None
        loss = getattr(data, function)(own(data.x, data.edge_index), part, mask, **options)
        loss.backward()
        return loss.detach(), {name: each.grad for name, each in own.named_parameters()}

    for loss, grads in run_threads(workers, here):
        assert_close("loss", loss, want.detach())
        for key, value in plain.named_parameters():
            assert_close(key, grads[key], value.grad)


@two_and_three
def test_a_single_number_is_refused_unless_it_is_said_to_be_one(workers):
    def here(transport):
        data, own = place(transport, two(pyg.SAGEConv))
        out = own(data.x, data.edge_index)
        with pytest.raises(InputError, match="single number"):
            data.mean(out.square().mean())
        return float(data.mean(torch.tensor(float(transport.rank)), single=True))

    assert run_threads(workers, here) == [(workers - 1) / 2] * workers


def test_truth_values_are_averaged():
    def here(transport):
        data, _ = place(transport, two(pyg.SAGEConv))
        return float(data.mean((LABELS == 1)[data.rows]))

    for share in run_threads(3, here):
        assert share == pytest.approx(float((LABELS == 1).float().mean()))


@pytest.mark.parametrize(
    ("options", "words"), [({"weight": WEIGHT}, "weights"), ({"ignore_index": -1}, "ignored"),
                           ({"ignore_index": -1, "label_smoothing": 0.1}, "ignored")],
)  # fmt: skip
def test_values_that_torch_divides_otherwise_are_refused_on_all_workers(options, words):
    labels = LABELS if "ignore_index" in options else LABELS.clamp(min=0)

    def here(transport):
        data, own = place(transport, two(pyg.SAGEConv))
        part = labels[data.rows].clone()
        if transport.rank and "weight" not in options:
            part.clamp_(min=0)  # only one worker has labels that are ignored
        values = F.cross_entropy(own(data.x, data.edge_index), part, reduction="none", **options)
        with pytest.raises(InputError, match=words if not transport.rank else "data.cross_entropy"):
            data.mean(values)
        # Values whose ignored rows were removed are counted rightly.
        return float(data.mean(values[part >= 0] * 1.0)) if "weight" not in options else 0.0

    run_threads(2, here)


def test_a_reduction_of_ones_own_is_refused():
    def here(transport):
        data, own = place(transport, two(pyg.SAGEConv))
        with pytest.raises(InputError, match="leave reduction out"):
            data.mse_loss(own(data.x, data.edge_index), VALUES[data.rows], reduction="sum")

    run_threads(2, here)


@three_and_two
@pytest.mark.parametrize("name", ["cross_entropy", "binary_cross_entropy_with_logits"])
def test_weights_of_classes_that_were_counted_on_a_part_are_refused_on_all_workers(name, workers):
    """With three workers, one of which has the mean weights; those of the whole graph are right."""
    labels = torch.arange(NODES) % CLASSES
    key = "weight" if name == "cross_entropy" else "pos_weight"
    wide = name != "cross_entropy"

    def target(y):
        return F.one_hot(y, CLASSES).float() if wide else y

    plain, graph = seeded(lambda: two(pyg.SAGEConv)), make_graph()
    weights = 1 / labels.bincount(minlength=CLASSES).float()
    want = getattr(F, name)(plain(graph["x"], graph["edge_index"]), target(labels), **{key: weights})

    def here(transport):
        data, model = place(transport, plain)
        data.y = labels[data.rows]
        with torch.no_grad():
            loss = partial(getattr(data, name), model(data.x, data.edge_index), target(data.y))
            for wrong in (
                {key: 1.0 + torch.full((CLASSES,), float(transport.rank))},
                {"label_smoothing": 0.1 * transport.rank},
            ):
                if key in wrong or not wide:
                    with pytest.raises(InputError, match=r"data\.gather\(data\.y\)\.bincount"):
                        loss(**wrong)
            return loss(**{key: 1 / data.gather(data.y).bincount(minlength=CLASSES).float()})

    for found in run_threads(workers, here):
        assert_close("loss", found, want)


def test_weights_of_rows_may_differ():
    scale = torch.rand(NODES, CLASSES, generator=torch.Generator().manual_seed(4))
    plain, graph = seeded(lambda: two(pyg.SAGEConv)), make_graph()
    out = plain(graph["x"], graph["edge_index"])
    want = F.binary_cross_entropy_with_logits(out, torch.ones_like(out), weight=scale).detach()

    def here(transport):
        data, model = place(transport, plain)
        rows = model(data.x, data.edge_index)
        return data.binary_cross_entropy_with_logits(rows, torch.ones_like(rows), weight=scale[data.rows]).detach()

    for found in run_threads(2, here):
        assert_close("loss", found, want)


def test_a_mean_in_a_list_of_one_is_refused():
    def here(transport):
        data, _ = place(transport, seeded(lambda: two(pyg.SAGEConv)))
        with pytest.raises(InputError, match="single=True"):
            data.mean(torch.ones(5).mean().reshape(1))
        # One row that counts on one worker, and several on others, is no mean.
        return float(data.mean(torch.ones(1 + transport.rank))), float(data.mean(torch.ones(1), single=True))

    assert run_threads(2, here) == [(1.0, 1.0)] * 2


@pytest.mark.parametrize("workers", [2, 3])
def test_batches_of_own_rows_are_as_many_on_every_worker(workers):
    """A worker that has run out of rows goes on with empty batches; every batch is the one of all workers' rows."""
    size, model, graph = 8, seeded(lambda: two(pyg.SAGEConv)), make_graph()
    mask, y = (make_owner(workers) == 0) | (torch.arange(NODES) % 6 == 0), torch.arange(NODES) % CLASSES

    def here(transport):
        data, own = place(transport, model)
        data.train_mask, data.y = mask[data.rows], y[data.rows]
        index, found = data.train_mask.nonzero().view(-1), []
        for first in range(0, int(data.gather(torch.tensor([len(index)])).max()), size):
            batch = index[first : first + size]
            own.zero_grad()
            data.cross_entropy(own(data.x, data.edge_index), data.y, batch).backward()
            found.append((data.rows[batch], [value.grad.clone() for value in own.parameters()]))
        return found

    parts = run_threads(workers, here)
    assert len({len(part) for part in parts}) == 1 and any(not len(rows) for part in parts for rows, _ in part)
    for together in zip(*parts, strict=True):
        rows, plain = torch.cat([rows for rows, _ in together]), copy.deepcopy(model)
        F.cross_entropy(plain(graph["x"], graph["edge_index"])[rows], y[rows]).backward()
        for _, grads in together:
            for got, value in zip(grads, plain.parameters(), strict=True):
                assert_close("gradient", got, value.grad)


@two_and_three
def test_a_mean_over_rows_of_a_loss_with_a_value_for_each_class_has_its_way_out(workers):
    """``batchmean`` of torch is the mean over rows of the sums over classes."""
    model, graph = seeded(lambda: two(pyg.SAGEConv)), make_graph()
    want = F.kl_div(model(graph["x"], graph["edge_index"]).log_softmax(1), VALUES, reduction="batchmean")

    def here(transport):
        data, own = place(transport, model)
        out, shares = own(data.x, data.edge_index).log_softmax(1), VALUES[data.rows]
        with pytest.raises(InputError, match=r"data\.mean\(F\.kl_div\(out, y, reduction='none'\)\.sum\(-1\)\)"):
            data.loss(F.kl_div, out, shares, reduction="batchmean")
        return data.mean(F.kl_div(out, shares, reduction="none").sum(-1)).detach()

    for loss in run_threads(workers, here):
        assert_close("loss", loss, want.detach())


def test_several_means_are_those_of_single_calls_in_one_message(monkeypatch):
    def here(transport):
        data, own = place(transport, two(pyg.SAGEConv))
        out = own(data.x, data.edge_index)
        values = [out.square(), (LABELS == 1)[data.rows], out[:, 0]]
        single = sum(data.mean(one) for one in values)
        single.backward()
        grads = [parameter.grad.clone() for parameter in own.parameters()]
        own.zero_grad()
        reduced, reduce = [], transport.all_reduce
        with monkeypatch.context() as patch:
            patch.setattr(transport, "all_reduce", lambda *a, **b: reduced.append(1) or reduce(*a, **b))
            out = own(data.x, data.edge_index)
            reduced.clear()
            together = sum(data.means([out.square(), values[1], out[:, 0]]))
        assert len(reduced) == 1
        together.backward()
        torch.testing.assert_close(together, single)
        for grad, parameter in zip(grads, own.parameters(), strict=True):
            torch.testing.assert_close(parameter.grad, grad)
        with pytest.raises(InputError, match=r"data\.means got no values"):
            data.means([])
        with pytest.raises(InputError, match="a mean already taken"):
            data.means([out[:, 0], out.mean()])

    run_threads(2, here)
