"""Outside of a model, what sums, normalises or multiplies over the rows of one worker is refused."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from torch import nn
from torch_geometric.utils import scatter

import halowire
from halowire.errors import InputError
from halowire.pyg.shard_data import cut_data
from halowire.wire import run_threads
from tests.support.pyg_case import NODES, assert_close, make_graph, make_owner, plain_gradients, seeded
from tests.support.pyg_models import two
from tests.support.worker_counts import two_and_three

BATCH = torch.arange(NODES) // 20
GRAPH = make_graph() | {"y": torch.arange(NODES) % 4, "train_mask": torch.arange(NODES) % 3 == 0, "batch": BATCH}
MODEL = seeded(lambda: two(pyg.SAGEConv))


def place(transport):
    data = cut_data(GRAPH, make_owner(transport.size), transport)
    return data, halowire.distribute(copy.deepcopy(MODEL), data)


def contrast(rows):
    rows = F.normalize(rows, dim=1)
    return rows @ rows.t()


WRONG = {
    "a mean of features": lambda data, z: data.x.mean(0),
    "standardised features": lambda data, z: (data.x - data.x.mean()) / data.x.std(),
    "features divided by their largest": lambda data, z: data.x / data.x.abs().max(),
    "a mean of outputs": lambda data, z: z.mean(0),
    "a mean by name": lambda data, z: torch.mean(z, dim=(0,), keepdim=True),
    "a sum": lambda data, z: z.sum(dim=-2),
    "a deviation": lambda data, z: z.std(0),
    "a norm": lambda data, z: z.norm(dim=0),
    "a norm by linalg": lambda data, z: torch.linalg.vector_norm(z, 2, 0),
    "a maximum": lambda data, z: z.max(0).values,
    "the least": lambda data, z: z.amin(0),
    "an order": lambda data, z: z[:, 0].sort(),
    "the best nodes": lambda data, z: z[:, 0].topk(3),
    "the best node": lambda data, z: z.argmax(0),
    "softmax": lambda data, z: z.softmax(0),
    "softmax of a column": lambda data, z: F.softmax(z[:, 0], dim=-1),
    "normalize": lambda data, z: F.normalize(z, dim=0),
    "batch_norm": lambda data, z: F.batch_norm(z, None, None, training=True),
    "corrcoef": lambda data, z: torch.corrcoef(z.t()),
    "cov": lambda data, z: torch.cov(z.T),
    "svd": lambda data, z: torch.linalg.svd(z),
    "pca": lambda data, z: torch.pca_lowrank(z),
    "all pairs": lambda data, z: z @ z.t(),
    "all pairs by T": lambda data, z: torch.mm(z, z.T),
    "all pairs of unit length": lambda data, z: contrast(z),
    "all pairs by einsum": lambda data, z: torch.einsum("id,jd->ij", z, z),
    "all pairs of differences": lambda data, z: (z[:, None] - z[None]).square().sum(-1),
    "all pairs by cosine": lambda data, z: F.cosine_similarity(z.unsqueeze(1), z.unsqueeze(0), dim=-1),
    "distances": lambda data, z: torch.cdist(z, z),
    "a product of columns": lambda data, z: z.t() @ z,
    "a product by einsum": lambda data, z: torch.einsum("nd,ne->de", z, z),
    "one-hot labels and rows": lambda data, z: F.one_hot(data.y, 4).float().t() @ z,
    "a matrix and rows": lambda data, z: torch.rand(3, len(z)) @ z,
    "columns summed": lambda data, z: z.t().mean(1),
    "global_mean_pool": lambda data, z: pyg.global_mean_pool(z, data.batch),
    "scatter": lambda data, z: scatter(z, data.y, dim=0, reduce="sum"),
    "index_add": lambda data, z: torch.zeros(4, 4).index_add_(0, data.y, z),
    "a mean of some rows": lambda data, z: z[data.train_mask].mean(0),
    "prototypes": lambda data, z: z[data.y == 2].mean(0),
    "labels of RECT_L": lambda data, z: pyg.RECT_L.get_semantic_labels(None, data.x, data.y, data.train_mask),
}


@two_and_three
@pytest.mark.parametrize("name", WRONG)
def test_what_needs_all_rows_is_refused_outside_of_a_model(name, workers):
    def here(transport):
        data, model = place(transport)
        with pytest.raises(InputError, match=r"over rows of this worker, which has .* data\.mean"):
            WRONG[name](data, model(data.x, data.edge_index))
        transport.settle()

    run_threads(workers, here)


HARMLESS = {
    "along columns": lambda data, z: (z.mean(1), z.softmax(1), F.normalize(z), z.max(-1), z.sum(dim=(1,)), z.sort(1)),
    "classes": lambda data, z: (z.argmax(1) == data.y).sum(),
    "heads": lambda data, z: F.linear(z, torch.rand(3, 4)) + z @ torch.rand(4, 3),
    "products of rows": lambda data, z: (z * z).sum(1) + torch.einsum("nd,nd->n", z, z),
    "distances from centres": lambda data, z: torch.cdist(z, torch.rand(3, 4)),
    "counts": lambda data, z: (data.y.bincount(), F.one_hot(data.y, 4).sum(0), data.train_mask.sum()),
    "a norm of each row": lambda data, z: F.layer_norm(z, (4,)) + z.norm(dim=1, keepdim=True),
    "a norm that learns no more": lambda data, z: nn.BatchNorm1d(4).eval()(z),
    "elementwise maxima": lambda data, z: z.max(z * 2) + torch.max(z, other=z),
    "numbers": lambda data, z: (z.square().mean(), F.cross_entropy(z[data.train_mask], data.y[data.train_mask])),
    "more columns": lambda data, z: torch.cat([z, z], 1).view(len(z), 2, 4).mean(1),
    "turned and back": lambda data, z: z.t().t() * z,
}


@pytest.mark.parametrize("name", HARMLESS)
def test_what_stays_within_rows_is_let_in(name):
    def here(transport):
        data, model = place(transport)
        HARMLESS[name](data, model(data.x, data.edge_index))
        transport.settle()

    run_threads(2, here)


def test_rows_that_went_through_such_functions_learn_as_in_plain_pyg():
    def loss(z, y):
        z = F.normalize(z.t().t(), dim=1) + z.softmax(-1)
        return F.cross_entropy(z[(y != 1)], y[y != 1], reduction="none")

    want = plain_gradients(MODEL, lambda own, out: loss(out, GRAPH["y"]).mean())

    def here(transport):
        data, model = place(transport)
        data.mean(loss(model(data.x, data.edge_index), data.y)).backward()
        return {key: value.grad for key, value in model.named_parameters()}

    for grads in run_threads(3, here):
        for key, value in want.items():
            assert_close(key, grads[key], value)


def correct(data, pred, mask):
    return (pred[mask] == data.y[mask]).sum()


READ = {
    "gcn.py": lambda data, pred, mask: int(correct(data, pred, mask)) / int(mask.sum()),
    "a mean": lambda data, pred, mask: (pred == data.y).float().mean().item(),
    "a share of two counts": lambda data, pred, mask: float(correct(data, pred, mask) / mask.sum()),
    "an index": lambda data, pred, mask: correct(data, pred, mask.nonzero()[:, 0]).item(),
    "a format": lambda data, pred, mask: f"{correct(data, pred, mask)}",
    "classes": lambda data, pred, mask: int(data.y.max()) + 1,
    "a loss": lambda data, pred, mask: F.cross_entropy(data.x[mask], data.y[mask]).item(),
}


@two_and_three
@pytest.mark.parametrize("name", READ)
def test_a_number_of_one_worker_is_named_once_where_it_is_read(name, workers):
    def here(transport):
        data, model = place(transport)
        with torch.no_grad():
            pred = model(data.x, data.edge_index).argmax(1)
        for _ in range(2):
            READ[name](data, pred, data.train_mask)
        return float(data.mean(pred[data.train_mask] == data.y[data.train_mask]))

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        run_threads(workers, here)
    assert [str(one.message)[:40] for one in told] == ["a number of this worker's rows alone is r"[:40]] * workers
    assert all(one.filename == __file__ for one in told) or name == "a format"  # torch formats in Python


def test_numbers_of_the_whole_graph_are_read_without_a_word():
    want = MODEL(GRAPH["x"], GRAPH["edge_index"]).argmax(1)

    def here(transport):
        data, model = place(transport)
        out = model(data.x, data.edge_index)
        loss = data.cross_entropy(out, data.y, data.train_mask)
        loss.backward()
        hits = (out.argmax(1) == data.y)[data.train_mask]
        return f"{loss:.3f} {loss.item()}", data.num_classes, float(data.mean(hits)), out.shape[0], int(out.numel())

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = run_threads(2, here)
    share = float((want == GRAPH["y"])[GRAPH["train_mask"]].float().mean())
    assert all(classes == 4 and part == pytest.approx(share) for _, classes, part, *_ in found)
