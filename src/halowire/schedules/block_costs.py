"""The costs of a model's blocks, forward and backward: predicted from sizes alone, or measured on one part."""

from __future__ import annotations

import time

import torch

from halowire.layers import Inputs, Model, Rows, Work
from halowire.partitioning import Shard
from halowire.schedules.boundary_first import BoundaryFirst, Part
from halowire.schedules.stage import Stage
from halowire.wire import HaloExchange, Transport

EDGE, VALUE, PRODUCT = 1.0, 4.0, 0.08
"""Relative cost of adding a value along an edge, of activating a value forward and backward, of a multiplication."""
TURNS = 3
"""Number of runs of a block, of which the fastest counts; the first run also fills buffers and caches."""


def predicted_costs(model: Model, nodes: int, edges: int, features: int) -> list[float]:
    """Relative cost of every block, predicted from the numbers of nodes and edges and the widths alone.

    The first block includes the input features (``features``: number of stored values), the last one the logits.
    """

    def cost(work: Work) -> float:
        per_node = VALUE * work.values + PRODUCT * work.products
        return EDGE * edges * work.sums + nodes * per_node + PRODUCT * features * work.feature_products

    costs = []
    for number in range(len(model.blocks)):
        stage = Stage.of(model, number, number + 1)
        pieces = [piece for piece in (stage.entry, *stage.layers, stage.output) if piece is not None]
        costs.append(sum(cost(piece.work) for piece in pieces))
    return costs


def measured_costs(model: Model, shard: Shard, alone: Transport) -> list[float]:
    """Seconds of every block, forward and backward, on the rows of ``shard``; ``alone`` has no other worker.

    The blocks run on the device of ``model``. All but the first and the last are alike, so at most three are run.
    Gradients stay as they were.
    """
    blocks = len(model.blocks)
    kinds = sorted({0, min(1, blocks - 1), blocks - 1})
    shard = shard.isolated()
    device = next(model.parameters()).device
    edges = model.aggregation(shard, HaloExchange(shard, alone, device))
    part = Part(shard.ids.to(device), Inputs.of(shard, edges, model.aggregates_input), edges)
    before = {name: parameter.grad for name, parameter in model.named_parameters()}
    seconds: dict[int, float] = {}
    for number in kinds:
        stage = Stage.of(model, number, number + 1)
        for parameter in stage.parameters.values():
            parameter.grad = torch.zeros_like(parameter)
        seconds[number] = min(_turn(stage, part) for _ in range(TURNS))
    for name, parameter in model.named_parameters():
        parameter.grad = before[name]
    middle = seconds[min(1, blocks - 1)]
    return [seconds.get(number, middle) for number in range(blocks)]


@torch.no_grad()
def _turn(stage: Stage, part: Part) -> float:
    """Seconds of one pass of one block over all rows, forward and backward."""
    schedule = BoundaryFirst(stage)
    rows = Rows.whole(part.ids, training=True)
    entering = None if stage.entry is not None else torch.zeros(rows.count, stage.width, device=rows.device)
    start = time.perf_counter()
    out, passed = schedule.forward(part, rows, entering)
    schedule.backward(part, passed, out, lambda parameter: None)
    out.flatten()[:1].tolist()  # on a device, the host waits here until all of it is computed
    return time.perf_counter() - start
