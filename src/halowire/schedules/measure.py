"""Measured costs of blocks: each kind of block runs once, forward and backward, on one part, without the wire."""

from __future__ import annotations

import time

import torch
from torch import Tensor

from halowire.kernels import Csr, empty
from halowire.layers.features import Columns, densify
from halowire.schedules.inputs import Inputs
from halowire.schedules.rows import Rows
from halowire.schedules.stage import Model, Stage

TURNS = 3
"""The fastest of so many turns counts; the first one also fills the buffer pool and transposes what stays."""


def measured_costs(model: Model, inner: Csr, x: Tensor | Csr, ids: Tensor) -> list[float]:
    """Seconds of every block, forward and backward, on the rows of one part; ``inner`` ``[n, n]`` is normalised.

    All blocks but the first and the last are alike, so at most three are run. Gradients are left as they were found.
    """
    blocks, inner_t = len(model.blocks), inner.transpose()
    kinds = sorted({0, min(1, blocks - 1), blocks - 1})
    inputs = _inputs(inner, densify(x))
    before = {name: parameter.grad for name, parameter in model.named_parameters()}
    seconds: dict[int, float] = {}
    for number in kinds:
        stage = Stage.of(model, number, number + 1)
        for parameter in stage.parameters.values():
            parameter.grad = torch.zeros_like(parameter)
        seconds[number] = min(_turn(stage, inner, inner_t, inputs, ids) for _ in range(TURNS))
    for name, parameter in model.named_parameters():
        parameter.grad = before[name]
    middle = seconds[min(1, blocks - 1)]
    return [seconds.get(number, middle) for number in range(blocks)]


def _inputs(inner: Csr, x: Tensor | Csr) -> Inputs:
    """The features as an epoch finds them; what they keep from the first turn on takes no time in later ones."""
    # The aggregate of the features is computed once in a run, so its values do not matter here, nor its time.
    if isinstance(x, Tensor):
        return Inputs(x, gathered=x)
    none = Csr(torch.zeros(1, dtype=torch.int64), x.indices[:0], None, x.num_cols)
    no_edges = Csr(torch.zeros(inner.num_rows + 1, dtype=torch.int64), inner.indices[:0], None, 0)
    return Inputs(x, None, Columns.of(none, torch.device("cpu")), (inner, no_edges))


@torch.no_grad()
def _turn(stage: Stage, inner: Csr, inner_t: Csr, inputs: Inputs, ids: Tensor) -> float:
    """One pass of one block over all rows."""
    n = inner.num_rows
    rows = Rows(slice(0, n), ids, inputs, training=True)
    initial, initial_grad = (torch.zeros(n, stage.width) for _ in range(2)) if stage.initial else (None, None)
    u = torch.zeros(n, stage.width)
    start = time.perf_counter()
    if stage.entry is not None:
        stage.entry.begin(inputs)
        u = empty(n, stage.entry.width)
        stage.entry.forward(rows, u)
    grad = u
    for block in stage.blocks:
        block.begin()
        a = empty(n, block.width)
        kept = block.before(u, rows, a)
        block.mix(kept, inner.matmul(a), initial)
        out = empty(n, block.out_width)
        block.after(kept, out)
        g_grad = empty(n, block.width)
        v_grad = block.after_back(kept, out, g_grad, initial_grad)
        a_grad = inner_t.matmul(g_grad)
        grad, u = block.before_back(kept, a_grad, v_grad, out, rows), out
    if stage.head is not None:
        logits, v, stats = stage.head.forward(u, rows)
        stage.head.backward(logits, u, v, stats, rows)
    if stage.entry is not None:
        stage.entry.backward(rows, grad)
        stage.entry.end(inputs)
    return time.perf_counter() - start
