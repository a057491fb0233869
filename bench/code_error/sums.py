"""The error of partial sums beside that of rows, where it arrives: in aggregates and in the gradients of the owners.

    python -m bench.code_error.sums

A model is trained for some epochs with exact rows on workers that are threads of this process. Then the rows and the
gradients of its last epoch cross the wire again under every code, as rows and with partial sums in their place
(`--wire.cover`). With the true sum ``y`` of what arrives, ``y = halo x`` forward and ``y = back g`` backward:

    error = sum over all workers |y' - y|^2 / sum |y|^2

in the mean of several draws of the code's random numbers; *bytes* are those of the message.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from bench.accuracy.tasks import find
from halowire import load
from halowire.kernels import Csr
from halowire.layers import Model, Sum
from halowire.layers.aggregation import Summing
from halowire.partitioning import Shard, cut, partition
from halowire.training import EXTRAS, Config, GraphParallel, Trainer
from halowire.wire import BACKWARD, FORWARD, HaloExchange, InProcessTransport, Message, Policy, Rate, run_threads
from halowire.wire.cover import SUM_ID

RESULT = Path(__file__).with_name("sums.json")
CPU = torch.device("cpu")
GRAPHS, WORKERS, EPOCHS, HIDDEN, DRAWS = "debian,tolokers,wordnet", 4, 20, 64, 4
CODES = {
    "minmax, 8 bits": Rate(8), "minmax, 4 bits": Rate(4), "minmax, 2 bits": Rate(2), "minmax, 1 bit": Rate(1),
    "levels, 2 bits": Rate(2, "levels"), "levels, 1 bit": Rate(1, "levels"), "clipped, 1 bit": Rate(1, "clipped"),
}  # fmt: skip
FINER = {
    "minmax, 4 bits": "minmax, 8 bits", "minmax, 2 bits": "minmax, 4 bits", "minmax, 1 bit": "minmax, 2 bits",
    "levels, 1 bit": "levels, 2 bits", "clipped, 1 bit": "minmax, 2 bits",
}  # fmt: skip
"""The code with twice the bits, for sums beside rows in the code."""
Sent = dict[tuple[int, str], Tensor]
"""Of every layer the boundary rows that a worker sent forward, and the gradients of its aggregates."""


class Recorder(HaloExchange):
    """A halo exchange that keeps what crosses it in the last epoch."""

    kept: Sent

    def launch(self, message: Message, rows: Tensor, watched: Tensor | None = None) -> Message | None:
        """Keep the boundary rows."""
        if message.terms.epoch == EPOCHS - 1 and message.terms.direction == FORWARD:
            self.kept[message.place] = rows[: self.num_boundary].clone()
        return super().launch(message, rows, watched)


def keep_gradients(summing: Summing, g_grad: Tensor) -> Message | None:
    """In the place of ``Summing.send_back``: keep the gradients of the aggregates, and send them."""
    edges, number = summing._edges, summing._number
    assert isinstance(edges.exchange, Recorder)
    edges.exchange.kept[number, BACKWARD] = g_grad.clone()
    return edges.exchange.start_back(edges.halo_back(g_grad), number)


def record(shard: Shard, transport: InProcessTransport) -> tuple[Sent, Model]:
    """Train exactly; what this worker sent in the last epoch, and the model."""
    config = Config(epochs=EPOCHS).replace({"model.hidden": HIDDEN, "threads": 1, "wire.plain": True})
    runner = GraphParallel(shard, shard, config, transport, exchange=Recorder)
    assert isinstance(runner.exchange, Recorder)
    runner.exchange.kept = {}
    with tempfile.TemporaryDirectory(prefix="halowire-") as folder:
        trainer = Trainer(runner, config, transport, Path(folder))
        for epoch in range(EPOCHS):
            loss = trainer.forward_backward(epoch)
            trainer.flat.reduce([float(loss)] + [0.0] * (EXTRAS - 1))
            trainer.optimiser.step()
        trainer.settle()
    return runner.exchange.kept, runner.model


@dataclass(frozen=True)
class Arrived:
    """What arrived of one message, ``[m, k]``, the matrix that adds it up, and which of it are partial sums."""

    rows: Tensor
    adds: Csr
    summed: Tensor


def cross(edges: Sum, kept: Sent, layer: int, direction: str, epoch: int, summed: dict[str, Tensor]) -> Arrived:
    """Send what was ``kept`` of ``layer`` again, as messages of ``epoch``."""
    exchange, values = edges.exchange, kept[layer, direction]
    exchange.begin(epoch)
    if direction == FORWARD:
        message, adds = exchange.start(values, layer), edges.halo
    else:
        message = exchange.start_back(edges.halo_back(values), layer)
    assert message is not None
    message.wait()
    if direction == BACKWARD:
        assert message.route.sums is not None
        adds = message.route.sums
    return Arrived(message.rows().clone(), adds, summed[direction])


def measure(shards: Sequence[Shard], transport: InProcessTransport) -> dict[str, Any]:
    """Squared errors and sizes of this worker, by layer, direction and case, and how many rows and sums arrive."""
    shard = shards[transport.rank]
    kept, model = record(shard, transport)
    found: dict[str, Any] = {}

    def edges_for(rate: Rate, cover: bool) -> Sum:
        policy = Policy(lambda epoch, layer, direction: rate, cover=cover)
        edges = model.aggregation(shard, HaloExchange(shard, transport, CPU, policy))
        assert isinstance(edges, Sum)
        return edges

    exact = {cover: edges_for(Rate(), cover) for cover in (False, True)}
    summed = {cover: which_are_sums(edges.exchange) for cover, edges in exact.items()}
    true = {place: add_up(cross(exact[False], kept, *place, 0, summed[False])) for place in kept}
    coded = {(name, cover): edges_for(rate, cover) for name, rate in CODES.items() for cover in (False, True)}
    for place, epoch in product(kept, range(DRAWS)):
        key = " ".join(map(str, place))
        norm = float(true[place].square().sum())
        arrived = {case: cross(edges, kept, *place, epoch, summed[case[1]]) for case, edges in coded.items()}
        for (name, cover), one in arrived.items():
            finer = arrived[FINER[name], True] if cover and name in FINER else None
            cases = {f"{name}{', sums' if cover else ''}": one}
            if finer is not None:
                mixed = torch.where(one.summed[:, None], finer.rows, one.rows)
                cases[f"{name}, sums finer"] = replace(one, rows=mixed)
            for case, there in cases.items():
                error = float((add_up(there) - true[place]).square().sum())
                entry = found.setdefault(key, {}).setdefault(case, [0.0, 0.0])
                entry[0] += error
                entry[1] += norm
    counts = {"rows": int((~summed[True][FORWARD]).sum()), "sums": int(summed[True][FORWARD].sum())}
    return {"errors": found, "halo": shard.num_halo, **counts}


def which_are_sums(exchange: HaloExchange) -> dict[str, Tensor]:
    """Which of the rows that arrive are partial sums, forward, and backward, as the receivers say."""
    forward = exchange.halo_ids >= SUM_ID
    exchange.begin(0)
    message = exchange.start_back(forward[:, None].float(), 1)
    assert message is not None
    message.wait()
    return {FORWARD: forward, BACKWARD: message.rows()[:, 0].clone() > 0}


def add_up(arrived: Arrived) -> Tensor:
    """What arrived, added to the rows that it belongs to."""
    return arrived.adds.matmul(arrived.rows)


def lines(name: str, each: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One record by layer, direction and case, over all workers, with the bytes of the message by kind of row."""
    rows, sums, halo = (sum(one[part] for one in each) for part in ("rows", "sums", "halo"))
    found = []
    for key, cases in each[0]["errors"].items():
        for case in cases:
            error, norm = (sum(one["errors"][key][case][part] for one in each) for part in (0, 1))
            found.append({"graph": name, "place": key, "case": case, "error": error / norm})
    return [one | {"rows": rows, "sums": sums, "halo": halo} for one in found]


def table(found: Sequence[dict[str, Any]]) -> str:
    """The errors: one line by graph and case, one column by layer and direction."""
    places = sorted({one["place"] for one in found}, key=lambda place: place.split()[::-1], reverse=True)
    heads = [f"layer {place.replace(' ', ', ')}" for place in places]
    text = [f"| graph | code | {' | '.join(heads)} |", f"| --- | --- |{' ---: |' * len(places)}"]
    for graph, case in dict.fromkeys((one["graph"], one["case"]) for one in found):
        by = {one["place"]: one["error"] for one in found if (one["graph"], one["case"]) == (graph, case)}
        text.append(f"| {graph} | {case} | {' | '.join(f'{by[place]:.2g}' for place in places)} |")
    return "\n".join(text)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m bench.code_error.sums", description=__doc__)
    parser.add_argument("--data", type=Path, help="folder with the .npz graphs")
    parser.add_argument("--graphs", default=GRAPHS)
    parser.add_argument("--out", type=Path, default=RESULT)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    found: list[dict[str, Any]] = []
    for name in asked.graphs.split(","):
        graph = load(find(name, asked.data), undirected=name != "debian")
        shards = list(cut(graph, partition(graph, WORKERS)))
        with patch.object(Summing, "send_back", keep_gradients):
            found += lines(name, run_threads(WORKERS, partial(measure, shards), 900.0))
        run = {"workers": WORKERS, "epochs": EPOCHS, "hidden": HIDDEN, "draws": DRAWS}
        asked.out.write_text(json.dumps(run | {"lines": found}, indent=1) + "\n")
    print(table(found))


if __name__ == "__main__":
    main()
