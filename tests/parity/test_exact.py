"""N workers equal one: logits, loss and every weight gradient, element by element, against a dense reference."""

from __future__ import annotations

import pytest

from tests.support.exact_case import compare_dense, make_config, train_here
from tests.support.parity_graphs import LANES, NODES


@pytest.mark.parametrize("method", ["metis", "random"])
@pytest.mark.parametrize("model", ["gcn", "sage", "gat"])
@pytest.mark.parametrize("workers", [1, 2, 3, 4])
def test_workers_equal_the_dense_reference(on_workers, workers, model, method):
    config = make_config(model)
    compare_dense(on_workers(workers, train_here, "plain", method, config), "plain", config)


@pytest.mark.parametrize(
    ("case", "model"),
    [
        *((case, model) for case in ("multi-label", "sparse", "directed-weighted") for model in ("gcn", "sage")),
        *((case, "gat") for case in ("multi-label", "sparse", "directed")),
    ],
)
@pytest.mark.parametrize("workers", [1, 3])
def test_every_kind_of_graph(on_workers, workers, case, model):
    config = make_config(model)
    compare_dense(on_workers(workers, train_here, case, "random", config), case, config)


@pytest.mark.parametrize("method", ["metis", "random"])
@pytest.mark.parametrize("model", ["gcn", "sage"])
@pytest.mark.parametrize("workers", [2, 4])
def test_several_labels_per_node(on_workers, workers, model, method):
    config = make_config(model)
    compare_dense(on_workers(workers, train_here, "multi-label", method, config), "multi-label", config)


@pytest.mark.parametrize("layers", [1, 2])
def test_shallow_models_without_norm(on_workers, layers):
    config = make_config("sage", norm="none", layers=layers)
    compare_dense(on_workers(2, train_here, "plain", "random", config), "plain", config)


@pytest.mark.parametrize("out", ["narrowing", "widening"])
@pytest.mark.parametrize("model", ["gcn", "sage", "gat"])
@pytest.mark.parametrize("case", LANES)
def test_large_interiors(on_workers, case, model, out):
    config = make_config(model, hidden=16 if out == "narrowing" else 4)
    results = on_workers(3, train_here, case, "equal ranges", config)
    heads = [result["head"] for result in results]
    assert max(heads) < NODES // 6, "most rows must be interior here"
    assert (min(heads) == 0) == (case == "islands")
    compare_dense(results, case, config)
