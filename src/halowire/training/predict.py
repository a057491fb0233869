"""Predictions are the logits of every node in the user's order, evaluated exactly on all workers."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.events import EVAL
from halowire.files import written_to, written_whole
from halowire.partitioning import Shard
from halowire.training.checkpoint import Tensors
from halowire.training.runner import Runner
from halowire.wire import Transport, refuse_outside

FORMATS = (".npy", ".csv")


def check_format(out: Path) -> None:
    """Refuse a file name whose ending is neither ``.npy`` nor ``.csv``."""
    if out.suffix not in FORMATS:
        raise InputError(
            f"predictions cannot be written to {out.name!r}; give a name that ends in .npy (outputs) or .csv (id,class "
            "or id,value)"
        )


def predict(runner: Runner, weights: Tensors) -> Tensor:
    """Logits ``[n, C]`` of the owned rows from ``weights``; no rows where another stage has them."""
    runner.model.load_state_dict(weights)
    return runner.logits()


def gather_predictions(logits: Tensor, shard: Shard, transport: Transport) -> tuple[Tensor, Tensor] | None:
    """(logits, original ids) of all nodes in the order of the user's graph, on rank 0; None elsewhere.

    ``logits`` belong to the owned rows of ``shard``; they have no rows where another stage has the logits.
    """
    counts = torch.zeros(transport.size, dtype=torch.int64)
    count = counts[transport.rank] = logits.shape[0]
    with transport.ledger.account(EVAL):
        transport.all_reduce(counts, "gathering of the predictions", EVAL)
        each, where = [int(count) for count in counts], "gathering of the predictions"
        rows = transport.gather_rows(shard.rows[:count], each, where)
        ids = transport.gather_rows(shard.ids[:count], each, where)
        values = transport.gather_rows(logits.cpu(), each, where)
    if rows is None or ids is None or values is None:
        return None
    refuse_outside(rows, each, shard.num_nodes, "the number of a node", transport, where)
    order = rows.argsort()
    return values[order], ids[order]


def write_predictions(logits: Tensor, ids: Tensor, multi_label: bool, out: Path, regression: bool = False) -> None:
    """Write logits to a ``.npy`` file, or lines to a ``.csv`` file: ``id,class``, where several classes are separated
    by spaces; for regression ``id,value``, or ``id,value0,value1,...``."""
    check_format(out)
    with written_to(out.parent):
        out.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(out, logits.nbytes if out.suffix == ".npy" else None) as temporary:
        if out.suffix == ".npy":
            np.save(temporary, logits.numpy(), allow_pickle=False)
        else:
            with temporary.open("w", newline="") as file:
                csv.writer(file).writerows(_lines(logits, ids, multi_label, regression))


def _lines(logits: Tensor, ids: Tensor, multi_label: bool, regression: bool) -> Iterator[list[object]]:
    """The rows of a ``.csv`` file, the names of the columns first."""
    names, rows = ["class"], logits.argmax(1, keepdim=True).tolist()
    if regression:
        width = logits.shape[1]
        names = ["value"] if width == 1 else [f"value{column}" for column in range(width)]
        rows = logits.tolist()
    elif multi_label:
        rows = [[" ".join(str(c) for c in row.nonzero()[:, 0].tolist())] for row in logits > 0]
    yield ["id", *names]
    yield from ([node, *row] for node, row in zip(ids.tolist(), rows, strict=True))
