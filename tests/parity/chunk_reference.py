"""The slow, obvious reference of chunks: one process, dense matrices, all parts in lock-step."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from halowire.graph import Graph
from tests.parity.deep_reference import DeepReference


class _Aggregate(torch.autograd.Function):
    """Rows in work into the buffer, then their rows of ``A B``; backward their rows of ``A^T G``."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, reference: ChunkReference, block: int, rows: Tensor) -> Tensor:
        ctx.where = reference, block, rows
        buffer = reference.buffer(reference.rows_of, block, a.shape[1])
        buffer[rows] = a
        return reference.a[rows] @ buffer

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        reference, block, rows = ctx.where
        buffer = reference.buffer(reference.grads_of, block, grad.shape[1])
        buffer[rows] = grad
        return reference.a.T[rows] @ buffer, None, None, None


class ChunkReference(DeepReference):
    """Trains chunk by chunk: ``steps(epoch)`` are the rows in work in every step, of all parts together."""

    def __init__(self, graph: Graph, config, weights: dict[str, Tensor]) -> None:
        super().__init__(graph, config, weights)
        self.period, self.rule = config.mesh.history, config.mesh.gradient_rule
        self.rows_of: dict[int, Tensor] = {}
        self.grads_of: dict[int, Tensor] = {}
        self.snapshot: dict[int, Tensor] = {}

    def buffer(self, buffers: dict[int, Tensor], block: int, width: int) -> Tensor:
        return buffers.setdefault(block, torch.zeros(self.a.shape[0], width))

    def chunked_epoch(self, epoch: int, steps: list[Tensor]) -> tuple[float, dict[str, Tensor]]:
        """(loss, gradients) of one epoch; the weights are updated."""
        self.optimiser.zero_grad()
        if epoch % self.period != 0:
            self.rows_of = {
                block: self.snapshot.get(block, torch.zeros_like(rows)).clone() for block, rows in self.rows_of.items()
            }
        if self.rule != "stale":
            self.grads_of = {}
        losses = []
        for rows in steps:
            u = self.enter(rows)
            h0, ids = u.relu(), self.graph.ids[rows]
            for block in self.blocks:
                v, a = self.before(u, block, epoch, ids)
                u = self.after(_Aggregate.apply(a, self, block, rows), v, u, h0, block)
            losses.append(self.loss(self.leave(u, epoch, ids), rows))
        for place, step in enumerate(reversed(range(len(steps)))):
            losses[step].backward()
            last = place == len(steps) - 1
            factor = {"double": 2, "position": 0 if last else len(steps) / (len(steps) - 1 - place), "stale": 1}
            for buffer in self.grads_of.values():
                buffer[steps[step]] *= factor[self.rule] if not last else 1
        if (epoch + 1) % self.period == 0:
            self.snapshot = {block: rows.clone() for block, rows in self.rows_of.items()}
        return float(sum(loss.detach() for loss in losses)), self.step()
