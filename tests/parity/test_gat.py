"""GAT on many workers: heads, what travels, every kind of wire, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from halowire.errors import InputError
from halowire.training import Config, Situation, mesh_of, refuse
from tests.support.epochs import assert_close
from tests.support.exact_case import compare_dense, make_config, train_here

WIRES = {
    "bf16": {"rate.bits": 16},
    "8 bits": {"rate.bits": 8},
    "columns": {"rate.ratio": 2.0},
    "one epoch late": {"freshness.mode": "delayed"},
    "by degree": {"rate.bits": 4, "rate.nodes": "degree"},
    "8 bits of changes": {"rate.bits": 8, "rate.decay": 0.8},
}


def gat(heads: int, hidden: int = 16, layers: int = 3, **settings: object) -> Config:
    return make_config("gat", layers=layers, hidden=hidden).replace({"model.heads": heads, **settings})


@pytest.mark.parametrize(("heads", "hidden"), [(1, 16), (2, 6), (8, 16), (3, 12)])
def test_heads_that_narrow_and_widen_the_last_layer(on_workers, heads, hidden):
    config = gat(heads, hidden)
    compare_dense(on_workers(2, train_here, "plain", "random", config), "plain", config)


@pytest.mark.parametrize("layers", [1, 2])
def test_shallow_models(on_workers, layers):
    config = gat(2, layers=layers)
    compare_dense(on_workers(2, train_here, "plain", "random", config), "plain", config)


def test_changes_of_rows_are_exact_in_float32(on_workers):
    # Rows travel before dropout, which the receiver draws.
    config = gat(4).replace({"rate.decay": 0.8})
    compare_dense(on_workers(3, train_here, "plain", "random", config), "plain", config)


def test_late_rows_that_are_always_synchronised_are_exact(on_workers):
    config = gat(4).replace({"freshness.mode": "delayed", "freshness.sync-every": 1})
    compare_dense(on_workers(3, train_here, "plain", "random", config), "plain", config)


@pytest.mark.parametrize("wire", WIRES)
def test_every_wire_trains_and_is_not_far_off(on_workers, wire):
    exact, lossy = gat(4, **{"model.dropout": 0.0}), gat(4, **{"model.dropout": 0.0}, **WIRES[wire])
    want = on_workers(2, train_here, "plain", "random", exact)
    got = on_workers(2, train_here, "plain", "random", lossy)
    for mine, other in zip(got, want, strict=True):
        loss, expected = mine["epochs"][-1]["loss"], other["epochs"][-1]["loss"]
        assert loss != expected, "the wire must have made a difference"
        assert abs(loss - expected) < 0.2 * abs(expected)
        first, others = mine["epochs"][0], other["epochs"][0]
        assert all(np.isfinite(value).all() for value in first.values())
        if wire in ("bf16", "8 bits", "8 bits of changes"):
            for name in first.keys() - {"loss", "logits"}:
                assert np.abs(first[name] - others[name]).max() <= 0.05 * np.abs(others[name]).max() + 1e-3, name


def test_all_workers_end_with_the_same_gradients(on_workers):
    results = on_workers(3, train_here, "plain", "metis", gat(4, **WIRES["8 bits"]))
    for name in results[0]["epochs"][-1].keys() - {"logits"}:
        for other in results[1:]:
            assert_close(name, other["epochs"][-1][name], results[0]["epochs"][-1][name])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"model.name": "gat", "model.heads": 3}, "does not divide"),
        ({"model.name": "gat", "model.heads": 0}, "must lie in 1 to 64"),
        ({"model.name": "sage", "model.heads": 2}, "has no effect"),
        ({"model.name": "gat", "mesh.stages": 2}, "one stage"),
        ({"model.name": "gat", "mesh.keep": "aggregates"}, "--mesh.keep all, or another model"),
        ({"model.name": "gat", "rate.rows": 0.5}, "no score"),
        ({"model.name": "gat", "rate.resend-input": True}, "resend-input"),
        ({"model.name": "gat", "model.residual": 0.5}, "residual"),
    ],
)
def test_what_has_no_meaning_is_refused(settings, words):
    config = Config().replace(settings)
    with pytest.raises(InputError, match=words):
        refuse(config, Situation(mesh_of(config, 2)))


def test_edge_weights_are_refused(on_workers):
    with pytest.raises(Exception, match="edge weights, which attention does not use"):
        on_workers(1, train_here, "directed-weighted", "random", gat(4))
