"""Every worker computes the first hidden rows of its halo itself: nothing of them travels, and N workers equal one."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from halowire.training import policy_of
from tests.support.epochs import EXACT, compare
from tests.support.exact_case import compare_dense, make_config, train_here
from tests.support.parity_graphs import ZEROS
from tests.support.stage_case import deep_epochs
from tests.support.stage_case import make_config as make_deep
from tests.support.steady import steady

LOCAL = {"wire.first_layer": "local"}


@pytest.mark.parametrize(
    ("workers", "case", "method"),
    [(2, "plain", "metis"), (3, "plain", "random"), (4, "sparse", "random"), (3, "directed-weighted", "random"),
     (2, "multi-label", "random")],
)  # fmt: skip
@pytest.mark.parametrize("model", ["gcn", "sage"])
def test_workers_equal_the_dense_reference(on_workers, workers, case, method, model):
    config = make_config(model).replace(LOCAL)
    compare_dense(on_workers(workers, train_here, case, method, config), case, config)


@pytest.mark.parametrize("out", ["narrowing", "widening"])
@pytest.mark.parametrize("model", ["gcn", "sage"])
@pytest.mark.parametrize("case", ["plain", "sparse"])
def test_two_layers_send_nothing(on_workers, case, model, out):
    config = make_config(model, layers=2, hidden=16 if out == "narrowing" else 4).replace(LOCAL)
    results = on_workers(3, train_here, case, "random", config)
    assert [result["sent"] for result in results] == [[0] * config.epochs] * 3
    compare_dense(results, case, config)


@pytest.mark.parametrize("model", ["gcn, residual", "sage, residual", "gcnii", "resgcn"])
@pytest.mark.parametrize(("workers", "case"), [(2, "plain"), (3, "sparse"), (4, "directed-weighted")])
def test_deep_models(on_workers, workers, case, model):
    name, _, residual = model.partition(", ")
    config = make_deep(name, 1, model__residual=0.3 if residual else 0.0).replace(LOCAL)
    config, want = steady(config, partial(deep_epochs, case=case), EXACT)
    compare(on_workers(workers, train_here, case, "random", config), want)


@pytest.mark.parametrize(
    ("workers", "model", "case"),
    [(2, "gcn", "plain"), (3, "sage", "directed-weighted"), (4, "sage", "sparse"), (3, "gcnii", "plain")],
)
def test_with_partial_sums_in_later_layers(on_workers, workers, model, case):
    both = LOCAL | {"wire.cover": "on"}
    if model == "gcnii":
        config, want = steady(make_deep(model, 1).replace(both), partial(deep_epochs, case=case), EXACT)
        compare(on_workers(workers, train_here, case, "random", config), want)
    else:
        config = make_config(model).replace(both)
        compare_dense(on_workers(workers, train_here, case, "random", config), case, config)


@pytest.mark.parametrize("settings", [{}, LOCAL], ids=["rows travel", "local"])
@pytest.mark.parametrize("model", ["gcn", "sage"])
@pytest.mark.parametrize("case", ZEROS)
def test_zeros_that_are_stored_stay_zeros(on_workers, case, model, settings):
    """Of sparse features and of edges; what is sent once says only of ones that they need no value."""
    config = make_config(model).replace(settings)
    compare_dense(on_workers(2, train_here, case, "random", config), case, config)


@pytest.mark.parametrize("case", ["lane", "islands"])
def test_large_interiors_and_workers_without_a_halo(on_workers, case):
    config = make_config("sage").replace(LOCAL)
    compare_dense(on_workers(3, train_here, case, "equal ranges", config), case, config)


def test_three_layers_send_one_instead_of_two(on_workers):
    config = make_config("sage", hidden=5)
    both = on_workers(2, train_here, "plain", "random", config)
    one = on_workers(2, train_here, "plain", "random", config.replace(LOCAL))
    assert [result["sent"] for result in both] == [[2 * bytes_ for bytes_ in result["sent"]] for result in one]


def test_a_coded_second_exchange_is_that_of_a_model_whose_first_one_is_exact(on_workers):
    wire = {"rate.layers": "2:1"}
    travels = make_config("gcn").replace(wire)
    local = make_config("gcn").replace(LOCAL | wire)
    want = on_workers(2, train_here, "plain", "random", travels)
    compare(on_workers(2, train_here, "plain", "random", local), want_of(want))


def want_of(results):
    """What workers recorded, as a reference: the rows of all in the graph's order."""
    order = np.argsort(np.concatenate([result["rows"] for result in results]))
    epochs = []
    for number, first in enumerate(results[0]["epochs"]):
        logits = np.concatenate([result["epochs"][number]["logits"] for result in results])[order]
        epochs.append(first | {"logits": logits})
    return epochs


def test_a_share_of_the_bytes_is_spent_on_the_rows_that_travel():
    widths = [256, 16]
    config = make_config("sage").replace({"rate.bits": 1, "rate.share": 0.1})
    assert policy_of(config, widths, 100).rates(0, 2, "forward").bits > 1, "wide rows leave narrow ones some bytes"
    alone = policy_of(config.replace(LOCAL), widths, 100)
    assert alone.rates(0, 2, "forward").bits == 1, "4 bytes of headers on a row of 16 columns are too many for a tenth"
