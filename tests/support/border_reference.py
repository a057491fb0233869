"""The slow, obvious reference of stages whose links are coded: chunks in one process, with coded borders between."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from halowire.kernels import stream_key
from halowire.training import Config, policy_of
from halowire.wire import BACKWARD, FORWARD, column_subset
from tests.support.chunk_reference import ChunkReference
from tests.support.epochs import Epochs, reference_epochs
from tests.support.parity_graphs import NODES, make_graph
from tests.support.stage_case import HIDDEN, LAYERS, first_weights, steps_of
from tests.support.wire_reference import quantise


class _Border(torch.autograd.Function):
    """Rows of the chunks in work through one border of stages: coded forward, coded backward."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, code: Any, kind: int) -> Tensor:
        ctx.code, ctx.kind = code, kind
        return code(rows.detach(), FORWARD, kind)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return ctx.code(grad, BACKWARD, ctx.kind), None, None


class BorderReference(ChunkReference):
    """Chunks with coded links where ``mesh.split`` ends a stage and, between parts, coded halos."""

    def __init__(self, config: Config, weights: dict[str, Tensor], parts: int) -> None:
        owner, steps = steps_of(config, "plain", parts)
        policy = policy_of(config, [HIDDEN] * LAYERS, 0)
        super().__init__(make_graph("plain"), config, weights, steps, owner, policy)
        self.borders = list(accumulate(int(count) for count in config.mesh.split.split(",")))[:-1]
        self.kept: dict[tuple[int, int], Tensor] = {}
        self.place = {int(node): row for row, node in enumerate(self.graph.ids)}

    def border(self, u: Tensor, h0: Tensor, block: int, ids: Tensor) -> tuple[Tensor, Tensor]:
        if block not in self.borders:
            return u, h0
        p, epoch, layer = self.policy, self.now, block + (self.name in ("gcnii", "resgcn"))

        def code(rows: Tensor, direction: str, kind: int) -> Tensor:
            rate, count = p.rates(epoch, layer, direction), p.rates(epoch, layer, FORWARD).columns(HIDDEN)
            columns = column_subset(HIDDEN, count, p.seed, epoch, -1 - 2 * layer - kind)
            columns = torch.arange(count) if p.first_columns else columns
            stream = stream_key(p.seed, epoch, layer, 300 + 2 * kind + (direction == BACKWARD))
            if p.decay is None or direction == BACKWARD:
                seen = quantise(rows, rate.bits, rate.code, stream, ids, columns)
                return seen * (HIDDEN / count) if p.rescale else seen
            kept = self.kept.setdefault((block, kind), torch.zeros(NODES, HIDDEN))
            at = torch.tensor([self.place[int(node)] for node in ids])
            change = quantise(rows - p.decay * kept[at], rate.bits, rate.code, stream, ids, columns)
            sent = torch.zeros(HIDDEN, dtype=torch.bool)
            sent[slice(None) if columns is None else columns] = True
            kept[at] = torch.where(sent, p.decay * kept[at] + change, kept[at])
            return kept[at]

        return _Border.apply(u, code, 0), _Border.apply(h0, code, 1) if self.name == "gcnii" else h0


def border_epochs(config: Config, nudge: int = 0, parts: int = 1) -> Epochs:
    """What training over coded links gives; a nudge is small, for bfloat16 has steps everywhere."""
    return reference_epochs(BorderReference(config, first_weights(config, nudge, 2e-7), parts), config.epochs)
