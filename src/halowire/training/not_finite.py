"""Where NaN and infinity came from: looked for in the features, labels and weights, and in a second pass of the epoch.

Every epoch checks the loss and the weight gradients, which all workers know anyway. Only an epoch in which one of them
is not finite is run again, under a watch, on all workers together.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from halowire.kernels import Csr
from halowire.schedules import Sighting, Spot, Watch, count_not_finite
from halowire.training.runner import Runner
from halowire.wire import Transport

LENGTH = 4096
"""Bytes in which a worker tells the others what it found."""
LOSS = Spot(False, 1 << 40)
GRADIENTS = Spot(True, 1 << 40)
"""The loss comes after everything that is computed forward, the weight gradients after everything that is computed
backward."""


@dataclass(frozen=True)
class Finding:
    """What one worker found: where its pass first met values that are not finite, and its ``inputs`` that have some."""

    first: Sighting | None
    inputs: tuple[tuple[str, int], ...]

    def to_bytes(self) -> bytes:
        """The finding as JSON; of many inputs only the first few are told."""
        first = None if self.first is None else [list(self.first.spot), self.first.where[:300], self.first.count]
        return json.dumps([first, [[where[:200], count] for where, count in self.inputs[:2]]]).encode()

    @staticmethod
    def from_bytes(data: bytes) -> Finding:
        """The inverse of :meth:`to_bytes`."""
        first, inputs = json.loads(data)
        sighting = None if first is None else Sighting(Spot(*first[0]), first[1], first[2])
        return Finding(sighting, tuple((where, count) for where, count in inputs))


def look_at_inputs(runner: Runner) -> Finding:
    """Look for values that are not finite in the features, the labels and the weights, which no pass computes."""
    counts = ((where, count_not_finite(values)) for where, values in _inputs(runner))
    return Finding(None, tuple((where, count) for where, count in counts if count))


def look_at_pass(runner: Runner, watch: Watch, loss: Tensor) -> Finding:
    """What ``watch`` saw in a pass, or else whether its ``loss`` or a weight gradient is not finite."""
    watch.look(LOSS, "the loss", loss)
    for name, parameter in runner.parameters.items():
        if watch.first is None and parameter.grad is not None:
            watch.look(GRADIENTS, f"the gradient of the weight {name}", parameter.grad)
    return Finding(watch.first, look_at_inputs(runner).inputs)


def share(mine: Finding, transport: Transport) -> list[Finding]:
    """The findings of all workers, in rank order; all workers call this together."""
    table = torch.zeros(transport.size, LENGTH, dtype=torch.int64)
    data = mine.to_bytes()
    table[transport.rank, : len(data)] = torch.tensor(list(data))
    transport.all_reduce(table, "search for values that are not finite", account=None)
    return [Finding.from_bytes(bytes(row[row > 0].tolist())) for row in table]


def words(found: list[Finding]) -> str:
    """The findings of all workers in words: the first place of the pass, then the inputs; empty where nothing is."""
    first = min((one.first.spot for one in found if one.first is not None), default=None)
    met = [one.first if one.first is not None and one.first.spot == first else None for one in found]
    parts = []
    where = next((one.where for one in met if one is not None), None)
    if where is not None:
        parts.append(_sentence(where, [0 if one is None else one.count for one in met]))
    names = dict.fromkeys(name for one in found for name, _ in one.inputs)
    parts += [_sentence(name, [dict(one.inputs).get(name, 0) for one in found]) for name in names]
    return "; ".join(parts)


def _sentence(where: str, counts: list[int]) -> str:
    ranks = [f"{count} on rank {rank}" for rank, count in enumerate(counts) if count]
    number, _, rest = ranks[0].partition(" ")
    values = "value that is" if number == "1" else "values that are"
    return f"{where} has {number} {values} not finite {', '.join([rest, *ranks[1:]])}"


def _inputs(runner: Runner) -> Iterator[tuple[str, Tensor]]:
    x = runner.shard.x
    features = x.weight if isinstance(x, Csr) else x
    if features is not None:
        yield "the input feature matrix x", features
    if runner.shard.y is not None and runner.shard.train_mask is not None and runner.shard.regression:
        yield "the label matrix y", runner.shard.y[runner.shard.train_mask]
    for name, parameter in runner.parameters.items():
        yield f"the weight {name}", parameter.detach()
