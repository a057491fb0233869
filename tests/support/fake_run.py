"""Run folders as training writes them, made up: a plausible run of any recipe, size and length."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

RECIPES = {"exact": (12_900_000, 0.42, 0.791), "sylvie-s": (560_000, 0.31, 0.786), "varco": (3_400_000, 0.35, 0.789)}


def config(recipe: str, epochs: int, seed: int) -> dict[str, Any]:
    """A config.json."""
    return {
        "recipe": recipe,
        "epochs": epochs,
        "seed": seed,
        "early_stop": 0,
        "threads": 1,
        "precision": "fp32",
        "device": "auto",
        "model": {"name": "sage", "layers": 3, "hidden": 128, "dropout": 0.5, "norm": "layer"},
        "optim": {"lr": 0.01, "weight_decay": 0.0, "clip": 0.0, "schedule": "constant", "warmup": 0},
        "rate": {"bits": 32 if recipe == "exact" else 1},
        "freshness": {"mode": "fresh"},
        "mesh": {"stages": 1, "parts": 0},
        "partition": {"method": "metis"},
        "task": {"metric": "auto", "inductive": False},
        "eval": {"every": 10},
        "checkpoint": {"every": 0},
        "run": {"graph": "debian", "shards": "runs/demo/shards", "workers": 2, "resume": False, "quiet": False},
    }


def epoch_event(epoch: int, rank: int, recipe: str, workers: int, noise: random.Random) -> dict[str, Any]:
    """One training epoch of one rank; the first one is slow."""
    sent, usual, _ = RECIPES[recipe]
    seconds = usual * (1 + 0.03 * noise.random()) * (5.2 if epoch == 0 else 1)
    wait = (0.16 if recipe == "exact" else 0.04) * seconds * (0.7 + 0.6 * noise.random()) if workers > 1 else 0.0
    work = seconds - wait
    shares = {"forward": 0.36, "backward": 0.5, "pack": 0.03, "reduce": 0.04 if workers > 1 else 0.0, "optimise": 0.05}
    phases = {name: round(share * work * (1.06 if rank else 1), 6) for name, share in shares.items()}
    own = round(sent * (0.52 if rank else 0.48)) if workers > 1 else 0
    exchanges = [
        {"layer": layer, "direction": way, "bytes": own // 4, "wait": wait / 4} | measured
        for way in ("forward", "backward")
        for layer in (1, 2)
        for measured in [code_error(epoch, rank, recipe, layer, way)]
    ]
    return {
        "event": "epoch",
        "epoch": epoch,
        "loss": 0.62 + 2.8 * math.exp(-epoch / 9) + 0.02 * noise.random(),
        "lr": 0.01,
        "seconds": round(sum(phases.values()) + wait, 6),
        "phases": {**phases, "wait": wait},
        "wire_bytes": own,
        "gradient_bytes": 1_310_000 if workers > 1 else 0,
        "exchanges": exchanges if workers > 1 else [],
    }


def code_error(epoch: int, rank: int, recipe: str, layer: int, way: str) -> dict[str, float]:
    """The error of the code, every 10 epochs; nothing where rows travel as they are."""
    if recipe == "exact" or epoch % 10:
        return {}
    base = {"sylvie-s": 3.1}.get(recipe, 0.9) * 0.97**epoch
    return {"error": base * (1 + 0.1 * rank) / (layer if way == "forward" else 20 * layer)}


def eval_event(epoch: int, recipe: str) -> dict[str, Any]:
    """One evaluation."""
    top = RECIPES[recipe][2]
    grown = 1 - 0.55 * math.exp(-epoch / 13)
    return {
        "event": "eval", "epoch": epoch, "train": (top + 0.045) * grown,
        "val": (top + 0.003) * grown - (0.004 if epoch > 50 else 0),
        "test": top * grown, "seconds": 0.2, "wire_bytes": 9_000_000,
    }  # fmt: skip


def write_run(folder: Path, recipe: str = "exact", workers: int = 2, epochs: int = 60, seed: int = 0) -> Path:
    """A complete run folder."""
    folder.mkdir(parents=True)
    folder.joinpath("config.json").write_text(json.dumps(config(recipe, epochs, seed)))
    for rank in range(workers):
        noise = random.Random(1000 * seed + rank)
        events: list[dict[str, Any]] = [
            {
                "event": "start", "time": 1_790_000_000.0, "rank": rank, "workers": workers, "graph": "debian",
                "recipe": recipe, "nodes": 63_620, "edges": 564_218, "features": 1000, "classes": 31,
                "halo_rows": (2_961 + 212 * rank) if workers > 1 else 0, "owned_rows": 63_620 // workers + 15 * rank,
                "overlap": {"1": "boundary first", "2": "boundary first"} if workers > 1 else {},
                "interior_share": 0.9 - 0.1 * rank,
            }
        ]  # fmt: skip
        for epoch in range(epochs):
            events.append(epoch_event(epoch, rank, recipe, workers, noise))
            if rank == 0 and ((epoch + 1) % 10 == 0 or epoch + 1 == epochs):
                events.append(eval_event(epoch, recipe))
        events.append(
            {
                "event": "end",
                "time": 1_790_000_034.0,
                "status": "finished",
                "best_epoch": 49,
                "peak_memory_bytes": 412_000_000 + rank * 9_000_000,
            }
        )
        folder.joinpath(f"events-{rank}.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    folder.joinpath("summary.json").write_text(json.dumps(summary(recipe, workers, epochs, seed)))
    return folder


def summary(recipe: str, workers: int, epochs: int, seed: int) -> dict[str, Any]:
    """A summary.json."""
    sent, seconds, _ = RECIPES[recipe]
    sent = sent if workers > 1 else 0
    best = min(50, epochs) - 1
    at = eval_event(best, recipe)
    return {
        "graph": "debian", "recipe": recipe, "model": "sage", "workers": workers,
        "mesh": {"stages": 1, "parts": workers, "chunks": 1},
        "epochs": epochs, "seed": seed, "metric": "accuracy", "train_loss": 0.631, "val": at["val"], "test": at["test"],
        "epoch_seconds": seconds, "wait_seconds": 0.16 * seconds if workers > 1 else 0.0, "wire_bytes_per_epoch": sent,
        "wire_bytes_total": sent * epochs, "setup_wire_bytes": 6_100_000 if workers > 1 else 0,
        "eval_wire_bytes": 54_000_000 if workers > 1 else 0,
        "gradient_bytes_per_epoch": 2_620_000 if workers > 1 else 0,
        "peak_memory_bytes": 421_000_000, "kernels": "native", "best_epoch": best, "status": "finished",
        "partition": {
            "num_parts": workers, "method": "metis", "seed": seed, "num_nodes": 63_620, "num_edges": 564_218,
            "cut_edges": 31_877, "cut_share": 0.0565, "nodes": [31_810, 31_825][:workers],
            "edges": [280_100, 284_118][:workers], "halo_rows": [2_961, 3_173][:workers],
            "node_imbalance": 1.031, "edge_imbalance": 1.018, "widths": [128, 128],
            "train_nodes": [15_920, 15_890][:workers], "bytes_per_epoch": {"32": sent, "1": sent // 23},
            "warnings": [],
        },
    }  # fmt: skip


def write_recut_run(folder: Path, epoch: int = 20) -> Path:
    """A run of 4 workers that was resumed with 2 after ``epoch``; the files of the others stay behind."""
    run = write_run(folder, workers=4)

    def change(event: dict[str, Any], rank: int) -> dict[str, Any] | None:
        if event["event"] == "start":
            return event if rank > 1 else event | {"workers": 2}
        return None if rank > 1 and event.get("epoch", epoch) >= epoch else event

    for rank in range(4):
        rewrite(run / f"events-{rank}.jsonl", partial(change, rank=rank))
    run.joinpath("summary.json").write_text(json.dumps(summary("exact", 2, 60, 0)))
    return run


def rewrite(path: Path, change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> None:
    """Change the events of a file, or drop those for which ``change`` returns None."""
    events = [change(json.loads(line)) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(event) + "\n" for event in events if event is not None))
