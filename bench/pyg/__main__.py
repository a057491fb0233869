"""Seconds per training epoch with one worker: halowire's models, PyG models given to it, and plain PyG.

    python -m bench.pyg [--threads 1 2] [--rounds 15] [--again]

Every case (graph, model, threads) runs in a process of its own; inside it the contenders take turns and each one's
fastest epoch counts. Finished cases are kept in result.json and not measured again. An epoch is forward, loss, backward
and the Adam step. All contenders start from the same weights and their first losses must agree. Exits with 1 if
halowire is slower than PyG's fastest path in any case.
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

import halowire
from bench.pyg.model import PATHS, Net, edges_of
from halowire.graph import Graph, load
from halowire.kernels import Csr
from halowire.partitioning import cut, partition
from halowire.training import EXTRAS, Config, GraphParallel, Trainer
from halowire.wire import Transport

HERE = Path(__file__).parent
Mean = Callable[[torch.Tensor], torch.Tensor]
GRAPHS = {"debian": "debian", "synthetic": "sbm:nodes=50000,edges=1000000,features=128,classes=40"}
OURS, GIVEN = "halowire's model", "PyG model on halowire"
SETTINGS = {"model.hidden": 128, "model.layers": 3, "model.norm": "none", "model.dropout": 0.0}


def own_epoch(graph: Graph, config: Config) -> tuple[Callable[[], float], dict[str, torch.Tensor]]:
    """One training epoch of the model zoo, the loop's own steps; and the weights it starts from."""
    transport = Transport()
    view = GraphParallel(cut(graph, partition(graph, 1))[0], cut(graph, partition(graph, 1))[0], config, transport)
    trainer = Trainer(view, config, transport, Path(tempfile.mkdtemp()))
    count = itertools.count()

    def epoch() -> float:
        loss = float(trainer.forward_backward(next(count)))
        trainer.flat.reduce([loss] + [0.0] * (EXTRAS - 1))
        trainer.optimiser.step()
        return loss

    return epoch, {key: value.clone() for key, value in trainer.model.state_dict().items()}


def module_epoch(
    model: nn.Module, inputs: tuple[object, ...], y: torch.Tensor, rows: torch.Tensor, mean: Mean = torch.mean
) -> Callable[[], float]:
    """One training epoch of a module in a loop of one's own."""
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01, foreach=True)
    labels = y[rows]

    def epoch() -> float:
        optimiser.zero_grad()
        loss = mean(F.cross_entropy(model(*inputs)[rows], labels, reduction="none"))
        loss.backward()
        optimiser.step()
        return float(loss.detach())

    return epoch


def contenders(graph: Graph, name: str) -> dict[str, Callable[[], float]]:
    """Every contender's epoch, all from the same weights."""
    config = Config().replace({"model.name": name, **SETTINGS})
    epoch, weights = own_epoch(graph, config)
    found = {OURS: epoch}
    data = halowire.shard(graph, transport=Transport())
    model = halowire.distribute(Net(name, weights), data)
    rows = data.train_mask.nonzero()[:, 0]
    found[GIVEN] = module_epoch(model, (data.x, data.edge_index), data.y, rows, data.mean)
    x = graph.x.to_dense() if isinstance(graph.x, Csr) else graph.x
    for path in PATHS:
        inputs = (x, edges_of(graph, path))
        found[f"PyG, {path}"] = module_epoch(Net(name, weights), inputs, graph.y, graph.train_mask.nonzero()[:, 0])
    return found


def measure(graph: Graph, name: str, threads: int, rounds: int) -> dict[str, float]:
    """Seconds of every contender's fastest epoch."""
    torch.set_num_threads(threads)
    epochs = contenders(graph, name)
    first = {who: epoch() for who, epoch in epochs.items()}
    spread = max(first.values()) - min(first.values())
    assert spread < 1e-3 * first[OURS], f"the contenders' first losses differ: {first}"
    best = dict.fromkeys(epochs, float("inf"))
    for _ in range(rounds):
        for who, epoch in epochs.items():
            start = time.perf_counter()
            epoch()
            best[who] = min(best[who], time.perf_counter() - start)
    return best


def table(rows: list[dict[str, object]]) -> str:
    """A Markdown table: milliseconds, and PyG's as a multiple of each of halowire's."""
    lines = [
        f"| graph | model | threads | {OURS} | {GIVEN} | PyG, its fastest path |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        seconds = row["seconds"]
        path = fastest(seconds)
        ours, given, theirs = (seconds[who] for who in (OURS, GIVEN, path))
        lines.append(
            f"| {row['graph']} | {row['model'].upper()} | {row['threads']} "
            f"| {1e3 * ours:.0f} ms ({theirs / ours:.2f}x) | {1e3 * given:.0f} ms ({theirs / given:.2f}x) "
            f"| {1e3 * theirs:.0f} ms ({path[5:]}) |"
        )
    return "\n".join(lines)


def fastest(seconds: dict[str, float]) -> str:
    """The fastest of PyG's paths."""
    return min((who for who in seconds if who.startswith("PyG, ")), key=seconds.__getitem__)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--graphs", nargs="+", choices=GRAPHS, default=list(GRAPHS))
    parser.add_argument("--models", nargs="+", choices=("gcn", "sage", "gat"), default=["gcn", "sage", "gat"])
    parser.add_argument("--again", action="store_true", help="measure everything again")
    parser.add_argument("--one", nargs=3, metavar=("GRAPH", "MODEL", "THREADS"), help="one case, printed as JSON")
    parser.add_argument("--out", type=Path, default=HERE / "result.json")
    args = parser.parse_args()
    if args.one:
        graph, name, threads = args.one
        print(json.dumps(measure(load(GRAPHS[graph]), name, int(threads), args.rounds)))
        return
    rows = json.loads(args.out.read_text()) if args.out.exists() and not args.again else []
    done = {(row["graph"], row["model"], row["threads"]) for row in rows}
    for case in itertools.product(args.graphs, args.models, args.threads):
        if case in done:
            continue
        command = [sys.executable, "-m", "bench.pyg", "--one", *map(str, case), f"--rounds={args.rounds}"]
        seconds = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
        rows.append({"graph": case[0], "model": case[1], "threads": case[2], "seconds": seconds})
        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
        args.out.write_text(json.dumps(rows, indent=1) + "\n")
    print(table(rows))
    slower = any(
        min(row["seconds"][fastest(row["seconds"])] / row["seconds"][who] for who in (OURS, GIVEN)) < 1 for row in rows
    )
    sys.exit(1 if slower else 0)


if __name__ == "__main__":
    main()
