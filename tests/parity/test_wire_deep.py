"""Deep models in graph parallelism: the wire gives the gradients of its slow reference, as for shallow models."""

from __future__ import annotations

import pytest
import torch

from halowire.partitioning import partition
from halowire.training import Config, policy_of
from tests.support.deep_reference import DeepReference
from tests.support.epochs import Epochs, compare, reference_epochs
from tests.support.parity_graphs import make_graph
from tests.support.reference import dropout_factor
from tests.support.stage_case import HIDDEN, first_weights, make_config, train_here
from tests.support.steady import steady
from tests.support.wire_reference import DenseWire

CLOSE = 1e-3


class WireReference(DeepReference):
    """Graph parallelism over the wire of a policy; evaluation is exact."""

    def __init__(self, graph, config: Config, weights, owner: torch.Tensor) -> None:
        super().__init__(graph, config, weights)
        self.wire = DenseWire(self.a, owner, graph.ids, policy_of(config, [HIDDEN] * config.model.layers, 0))

    def logits(self, epoch: int | None) -> torch.Tensor:
        if epoch is None:
            return super().logits(None)
        u, ids = self.enter(slice(None)), self.graph.ids
        h0 = u.relu()
        for block in self.blocks:
            v, a = self.before(u, block, epoch, ids)
            undropped = mask = None
            if self.wire.policy.decay is not None:
                undropped = u.relu().detach()
                mask = dropout_factor(self.dropout, self.seed, epoch, block, ids, u.shape[1])
            u = self.after(self.wire.product(a, epoch, block + 1, undropped, mask), v, u, h0, block)
        return self.leave(u, epoch, ids)


def wire_epochs(config: Config, nudge: int) -> Epochs:
    graph = make_graph("plain")
    owner = partition(graph, 2, method="random", seed=4).owner
    return reference_epochs(WireReference(graph, config, first_weights(config, nudge), owner), config.epochs)


WIRES = {
    "1 bit": {"rate.bits": 1},
    "delayed": {"freshness.mode": "delayed", "rate.bits": 8, "freshness.sync_every": 2},
    "delta": {"rate.bits": 4, "rate.decay": 0.8},
    "rows": {"rate.rows": 0.4},
}


@pytest.mark.parametrize("case", WIRES)
def test_deep_models_over_every_wire(on_workers, case):
    config, want = steady(make_config("gcnii", 1, model__layers=3).replace(WIRES[case]), wire_epochs, CLOSE)
    compare(on_workers(2, train_here, "plain", config), want, CLOSE)
