"""The slow, obvious reference of chunks: one process, dense matrices, all parts in lock-step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from halowire.graph import Graph
from halowire.kernels import stream_key
from halowire.wire import BACKWARD, FORWARD, Policy, column_subset
from tests.support.deep_reference import DeepReference
from tests.support.wire_reference import quantise


class _Aggregate(torch.autograd.Function):
    """Rows in work into the buffer, then their rows of ``A B``; backward their rows of ``A^T G``."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, reference: ChunkReference, block: int, rows: Tensor) -> Tensor:
        ctx.where = reference, block, rows
        return reference.swap(reference.a, reference.rows_of, a, FORWARD, block, rows)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        reference, block, rows = ctx.where
        return reference.swap(reference.a.T, reference.grads_of, grad, BACKWARD, block, rows), None, None, None


class ChunkReference(DeepReference):
    """Trains chunk by chunk: ``steps(epoch)`` are the rows in work in every step, of all parts together."""

    def __init__(
        self,
        graph: Graph,
        config,
        weights: dict[str, Tensor],
        steps: Callable[[int], list[Tensor]],
        owner: Tensor | None = None,
        policy: Policy | None = None,
    ) -> None:
        """``owner`` and ``policy``: rows travel between parts as ``policy`` says; without them, exactly."""
        super().__init__(graph, config, weights)
        self.steps = steps
        self.owner, self.policy, self.now = owner, policy, 0
        self.period, self.rule = config.mesh.history, config.mesh.gradient_rule
        self.rows_of: dict[int, Tensor] = {}
        self.grads_of: dict[int, Tensor] = {}
        self.snapshot: dict[int, Tensor] = {}

    def swap(
        self, matrix: Tensor, buffers: dict[int, Tensor], values: Tensor, direction: str, block: int, rows: Tensor
    ) -> Tensor:
        """``values`` of the rows in work into the buffer, then these rows of the product.

        The second half of a buffer's columns is what other parts see of a row.
        """
        width = values.shape[1]
        buffer = self.buffer(buffers, block, 2 * width)
        buffer[rows] = torch.cat([values, self.seen(values, direction, block, rows)], 1)
        same = torch.ones_like(matrix) if self.owner is None else (self.owner[:, None] == self.owner[None, :]).float()
        return (matrix * same)[rows] @ buffer[:, :width] + (matrix * (1 - same))[rows] @ buffer[:, width:]

    def seen(self, values: Tensor, direction: str, block: int, rows: Tensor) -> Tensor:
        """What a row looks like to other parts: coded, where there is a policy."""
        if self.policy is None:
            return values
        p, width, layer = self.policy, values.shape[1], block + (self.name in ("gcnii", "resgcn"))
        count = p.rates(self.now, layer, FORWARD).columns(width)
        columns = torch.arange(count) if p.first_columns else column_subset(width, count, p.seed, self.now, layer)
        rate = p.rates(self.now, layer, direction)
        stream = stream_key(p.seed, self.now, layer, 500 if direction == FORWARD else 1500)
        seen = quantise(values.detach(), rate.bits, rate.code, stream, self.graph.ids[rows], columns)
        return seen * (width / count) if p.rescale else seen

    def buffer(self, buffers: dict[int, Tensor], block: int, width: int) -> Tensor:
        return buffers.setdefault(block, torch.zeros(self.a.shape[0], width))

    def border(self, u: Tensor, h0: Tensor, block: int, ids: Tensor) -> tuple[Tensor, Tensor]:
        """What enters ``block``: where a test puts a border of stages in, it is coded."""
        return u, h0

    def weigh(self, buffer: Tensor, steps: list[Tensor], place: int) -> None:
        """After the chunk at ``place`` of backward: what it and the one before weigh from now on."""
        count, mine = len(steps), steps[len(steps) - 1 - place]
        if place == count - 1:
            return
        if self.rule == "unbiased":
            buffer[mine] *= place + 2
            if place:
                buffer[steps[count - place]] /= place + 1
        else:
            buffer[mine] *= {"double": 2, "position": count / (count - 1 - place), "stale": 1}[self.rule]

    def epoch(self, epoch: int) -> tuple[float, dict[str, Tensor]]:
        """(loss, gradients) of one epoch; the weights are updated."""
        steps = self.steps(epoch)
        self.optimiser.zero_grad()
        self.now = epoch
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
                u, h0 = self.border(u, h0, block, ids)
                v, a = self.before(u, block, epoch, ids)
                u = self.after(_Aggregate.apply(a, self, block, rows), v, u, h0, block)
            losses.append(self.loss(self.leave(u, epoch, ids), rows))
        for place, step in enumerate(reversed(range(len(steps)))):
            losses[step].backward()
            for buffer in self.grads_of.values():
                self.weigh(buffer, steps, place)
        if (epoch + 1) % self.period == 0:
            self.snapshot = {block: rows.clone() for block, rows in self.rows_of.items()}
        return float(sum(loss.detach() for loss in losses)), self.step()
