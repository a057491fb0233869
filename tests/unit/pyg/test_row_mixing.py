"""Outside of a model, what sums, normalises or multiplies over the rows of one worker is refused."""

from __future__ import annotations

import copy
import re
import warnings
from functools import cache

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
EDGES = make_graph()["edge_index"].shape[1]
VALUES = torch.rand(EDGES, 3, generator=torch.Generator().manual_seed(4))
GRAPH = make_graph() | {"edge_attr": VALUES, "edge_weight": VALUES[:, 0]}
GRAPH |= {"y": torch.arange(NODES) % 4, "train_mask": torch.arange(NODES) % 3 == 0, "batch": BATCH}
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
    "rows on top of each other": lambda data, z: contrast(torch.cat([z, z * 2])),
    "a mean of rows on top of each other": lambda data, z: torch.cat([z, z]).mean(0),
    "a mean of stacked rows": lambda data, z: torch.stack([z, z]).mean(1),
    "all entries": lambda data, z: z.view(-1).softmax(0),
    "all entries as rows": lambda data, z: z.reshape(-1, 1).norm(dim=0),
    "the mean of all entries": lambda data, z: z - z.flatten().mean(),
    "heads that were turned": lambda data, z: z.view(-1, 2, 2).permute(2, 1, 0).softmax(-1),
    "layer_norm of a matrix": lambda data, z: F.layer_norm(z, z.shape),
    "instance_norm over rows": lambda data, z: F.instance_norm(z.t()[None]),
    "attention": lambda data, z: F.scaled_dot_product_attention(z[None], z[None], z[None]),
    "MultiheadAttention": lambda data, z: nn.MultiheadAttention(4, 2)(z, z, z),
    "a transformer": lambda data, z: nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval()(z[None]),
    "a GRU over rows": lambda data, z: nn.GRU(4, 4, batch_first=True)(z[None]),
    "a GRU over rows alone": lambda data, z: nn.GRU(4, 4)(z),
    "rolled rows": lambda data, z: z * z.roll(1, 0),
    "rows in backward order": lambda data, z: z.flip(0),
    "windows of rows": lambda data, z: z.unfold(0, 2, 1),
    "pairs by repeated rows": lambda data, z: z.repeat_interleave(len(z), 0) * z.repeat(len(z), 1),
    "a column less a vector": lambda data, z: z[:, :1] - data.y,
    "a column and a vector in a loss": lambda data, z: data.mse_loss(z[:, :1], data.y.float()),
    "one row less all others": lambda data, z: z[data.train_mask] - z[~data.train_mask][:1],
    "one row picked by its place": lambda data, z: z[data.train_mask] - z[~data.train_mask][0],
    "above the median": lambda data, z: z[:, 0] > z[:, 0].median(),
    "above a quantile": lambda data, z: z[:, 0] > torch.quantile(z[:, 0].detach(), 0.7),
    "some rows less their mean": lambda data, z: z[data.train_mask] - z[data.train_mask].mean(),
    "rows over a count": lambda data, z: z / data.train_mask.sum(),
    "one_hot": lambda data, z: F.one_hot(data.y),
    "counted labels": lambda data, z: z + data.y.bincount(minlength=4).float().log(),
    "shares of labels": lambda data, z: z + (data.y.bincount(minlength=4) / data.y.bincount().sum()).log(),
    "the labels that there are": lambda data, z: [z[data.y == label] for label in data.y.unique()],
    "the first of a mask": lambda data, z: data.train_mask & (data.train_mask.cumsum(0) <= 5),
    "a histogram": lambda data, z: torch.histc(z),
    "distances of some rows": lambda data, z: torch.cdist(z[data.train_mask], z[~data.train_mask]),
    "features of edges less their mean": lambda data, z: data.edge_attr - data.edge_attr.mean(0),
    "features of edges over their deviation": lambda data, z: data.edge_attr / data.edge_attr.std(0),
    "weights of edges over their mean": lambda data, z: data.edge_weight / data.edge_weight.mean(),
    "weights of edges from 0 to 1": lambda data, z: data.edge_weight - data.edge_weight.min(),
    "labels of RECT_L": lambda data, z: pyg.RECT_L.get_semantic_labels(None, data.x, data.y, data.train_mask),
}


@cache
def said_of_wrong_uses(workers):
    """What every worker is told of each use, by its name; nothing of a use that is let in."""

    def here(transport):
        data, model = place(transport)
        said = {}
        for name, use in WRONG.items():
            rows = model(data.x, data.edge_index)
            try:
                use(data, rows)
            except InputError as refusal:
                said[name] = str(refusal)
        transport.settle()
        return said

    return run_threads(workers, here)


@two_and_three
@pytest.mark.parametrize("name", WRONG)
def test_what_needs_all_rows_is_refused_outside_of_a_model(name, workers):
    for said in said_of_wrong_uses(workers):
        assert re.search(r"over rows of this worker, which has .* data\.mean", said.get(name, "")), said.get(name)


UNKNOWN = {
    "a pool over rows": lambda data, z: F.avg_pool1d(z.t()[None], 3, 1, 1),
    "a function that is not listed": lambda data, z: torch.fft.fft(z, dim=0).real,
    "rows by their labels": lambda data, z: z[:, data.y],
    "counts": lambda data, z: data.y.bincount(minlength=4).float(),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_may_depend_on_several_rows_is_no_loss(name):
    def here(transport):
        data, model = place(transport)
        values = UNKNOWN[name](data, model(data.x, data.edge_index))
        assert repr(values)
        with pytest.raises(InputError, match=r"several rows of this worker at once, which has .* one row each"):
            data.mean(values)
        transport.settle()

    run_threads(2, here)


def test_a_penalty_on_rows_is_refused():
    def here(transport):
        data, model = place(transport)
        z = model(data.x, data.edge_index)
        with pytest.raises(InputError, match="a penalty is a number of the weights alone"):
            data.mean(z.square(), penalty=z.square().sum())
        transport.settle()

    run_threads(2, here)


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
