"""Seconds per epoch of halowire, PyTorch Geometric and hand-written torch, on one power-law graph, in one run.

    python -m bench.epoch [--nodes 200000] [--edges 10000000] [--rounds 4] [--again]

Every case (threads, variant, model) runs in a process of its own; inside it the contenders take turns and each one's
fastest epoch counts. Finished cases are kept in result.json and not measured again. An epoch is forward, loss, backward
and the Adam step. All contenders start from the same weights and their first losses must agree (without dropout, whose
random numbers differ).
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from bench.epoch.pyg_model import PATHS, PygModel
from bench.epoch.torch_model import TorchModel
from halowire.graph import Graph, mean, rmat, symmetric
from halowire.partitioning import cut, partition
from halowire.training import EXTRAS, Config, GraphParallel, Trainer
from halowire.wire import Transport

HERE = Path(__file__).parent
MESSAGE_LIMIT = 2 << 30
VARIANTS = {"plain": {"model.norm": "none", "model.dropout": 0.0}, "LayerNorm + dropout": {}}


def module_epoch(model: nn.Module, graph: Graph, lr: float) -> Callable[[], float]:
    """One training epoch of a plain torch module."""
    optimiser = torch.optim.Adam(model.parameters(), lr=lr, foreach=True)
    rows = graph.train_mask.nonzero()[:, 0]
    y = graph.y[rows]

    def epoch() -> float:
        optimiser.zero_grad()
        loss = F.cross_entropy(model()[rows], y)
        loss.backward()
        optimiser.step()
        return float(loss.detach())

    return epoch


def halowire_epoch(trainer: Trainer) -> Callable[[], float]:
    """One training epoch of halowire: the loop's own steps."""
    count = iter(range(1_000_000))

    def epoch() -> float:
        loss = float(trainer.forward_backward(next(count)))
        trainer.flat.reduce([loss] + [0.0] * (EXTRAS - 1))
        trainer.optimiser.step()
        return loss

    return epoch


def contenders(graph: Graph, name: str, settings: dict[str, object]) -> dict[str, Callable[[], float]]:
    """Every contender's epoch, all from the same weights."""
    config = Config().replace({"model.name": name, "model.hidden": 256, "model.layers": 3, **settings})
    shard = cut(graph, partition(graph, 1))[0]
    transport = Transport()
    view = GraphParallel(shard, shard, config, transport)
    trainer = Trainer(view, config, transport, Path(tempfile.mkdtemp()))
    weights = {key: value.clone() for key, value in trainer.model.state_dict().items()}
    matrix = symmetric(graph.adj) if name == "gcn" else mean(graph.adj)
    found = {"halowire": halowire_epoch(trainer)}
    by_hand = TorchModel(weights, matrix, graph.x, config.model.dropout)
    found["torch CSR by hand"] = module_epoch(by_hand, graph, config.optim.lr)
    # PyG's other paths write one message per edge to memory: gigabytes here, and several times slower where they fit.
    fits = graph.num_edges * config.model.hidden * 4 < MESSAGE_LIMIT
    for path in PATHS if fits else PATHS[:1]:
        model = PygModel(weights, name, path, matrix, graph.x, config.model.dropout)
        found[f"PyG, {path}"] = module_epoch(model, graph, config.optim.lr)
    return found


def measure(graph: Graph, threads: int, rounds: int, variant: str, name: str) -> dict[str, object]:
    """Seconds of every contender's fastest epoch, for one model and variant."""
    torch.set_num_threads(threads)
    epochs = contenders(graph, name, VARIANTS[variant])
    first = {who: epoch() for who, epoch in epochs.items()}
    if variant == "plain":
        spread = max(first.values()) - min(first.values())
        assert spread < 1e-3 * first["halowire"], f"the contenders' first losses differ: {first}"
    best = dict.fromkeys(epochs, float("inf"))
    for _ in range(rounds):
        for who, epoch in epochs.items():
            start = time.perf_counter()
            epoch()
            best[who] = min(best[who], time.perf_counter() - start)
    return {"model": name, "variant": variant, "threads": threads, "seconds": best}


def table(rows: list[dict[str, object]]) -> str:
    """A Markdown table: seconds, and how many times as long as halowire."""
    lines = [
        "| model | threads | halowire | torch CSR by hand | PyG, its fastest path |",
        "| --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        seconds = row["seconds"]
        ours, by_hand = seconds["halowire"], seconds["torch CSR by hand"]
        path = min((who for who in seconds if who.startswith("PyG")), key=seconds.__getitem__)
        lines.append(
            f"| {row['model'].upper()}, {row['variant']} | {row['threads']} | {ours:.2f} s "
            f"| {by_hand:.2f} s ({by_hand / ours:.2f}x) "
            f"| {seconds[path]:.2f} s ({seconds[path] / ours:.2f}x, {path[5:]}) |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=200_000)
    parser.add_argument("--edges", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--again", action="store_true", help="measure everything again")
    parser.add_argument("--one", nargs=3, metavar=("THREADS", "VARIANT", "MODEL"), help="one case, printed as JSON")
    parser.add_argument("--out", type=Path, default=HERE / "result.json")
    args = parser.parse_args()
    if args.one:
        graph = rmat(args.nodes, args.edges, 128, 47, seed=0)
        threads, variant, name = args.one
        print(json.dumps(measure(graph, int(threads), args.rounds, variant, name)))
        return
    size = {"nodes": args.nodes, "edges": args.edges}
    kept = json.loads(args.out.read_text()) if args.out.exists() and not args.again else {}
    rows = kept["rows"] if {key: kept.get(key) for key in size} == size else []
    done = {(row["threads"], row["variant"], row["model"]) for row in rows}
    for case in itertools.product((1, 2), VARIANTS, ("sage", "gcn")):
        if case in done:
            continue
        command = [sys.executable, "-m", "bench.epoch", "--one", *map(str, case)]
        command += [f"--{key}={getattr(args, key)}" for key in ("nodes", "edges", "rounds")]
        rows.append(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout))
        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
        args.out.write_text(json.dumps({**size, "rows": rows}, indent=1) + "\n")
    print(table(rows))


if __name__ == "__main__":
    main()
