"""Runs whose checkpoints a test damages, and how they go on."""

from __future__ import annotations

import json
import shutil
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from halowire.events import read_events
from halowire.training import Hooks, Silent
from halowire.training.checkpoint import Entry
from tests.support.recipe_case import config_of, recipe_trainer
from tests.support.resumed import outcome, run_in_one_go


def straight_here(rank: int, run: str, recipe: str, settings: dict[str, Any]) -> dict[str, Any]:
    """The outcome of a run in one go."""
    return run_in_one_go(recipe_trainer(rank, run, config_of(recipe, **settings)))


def stopped_here(rank: int, run: str, recipe: str, settings: dict[str, Any], epochs: int) -> None:
    """Train until ``epochs`` are done, then stop as after Ctrl-C, with a checkpoint."""
    trainer = recipe_trainer(rank, run, config_of(recipe, **settings))
    trainer.run(Hooks(Silent(), should_stop=lambda: trainer.progress.epoch == epochs - 1))


def resumed_here(
    rank: int, runs: list[str], recipe: str, settings: dict[str, Any]
) -> list[tuple[int, list[str], dict[str, Any]]]:
    """For every run: the epoch that it goes on from, the warnings, and the outcome."""
    found = []
    for run in runs:
        trainer = recipe_trainer(rank, run, config_of(recipe, **settings))
        warnings: list[str] = []
        trainer.resume(warn=warnings.append)
        epoch = trainer.progress.epoch
        found.append((epoch, warnings, outcome(trainer, trainer.run())))
    return found


def flip(path: Path) -> None:
    """Change one bit in the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


def truncate(path: Path) -> None:
    """Cut a file to half its length."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


DAMAGES: dict[str, Callable[[Path], None]] = {"flipped": flip, "truncated": truncate, "missing": Path.unlink}


def damaged_copies(run: Path, newest: str, target: Path) -> Iterator[tuple[str, Path]]:
    """Copies of ``run``, each with one file of its checkpoint ``newest`` damaged in one way; (what was done, copy)."""
    for file in sorted((run / "checkpoints" / newest).iterdir()):
        for name, damage in DAMAGES.items():
            copy = target / f"{file.name}-{name}"
            shutil.copytree(run, copy)
            damage(copy / "checkpoints" / newest / file.name)
            yield f"{file.name} {name}", copy


def written(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the facts in a manifest, whose checksum over itself is right again: content is bad, checksums are good."""
    path = folder / "manifest.json"
    values = json.loads(path.read_text())
    values["manifest"] = change(values["manifest"])
    facts = json.dumps(values["manifest"], sort_keys=True, separators=(",", ":")).encode()
    path.write_text(json.dumps(values | {"crc32": zlib.crc32(facts)}))


def put(folder: Path, name: str, content: bytes) -> None:
    """Write a file of a checkpoint, and its size and checksum into the manifest."""
    (folder / name).write_bytes(content)
    entry = vars(Entry.of(content))
    written(folder, lambda facts: facts | {"files": facts["files"] | {name: entry}})


def tree(folder: Path) -> dict[str, bytes]:
    """All files below ``folder`` with their content."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def losses(run: Path) -> list[float]:
    """The losses of all epochs, from the events of rank 0."""
    events = [event for event in read_events(run / "events-0.jsonl") if event["event"] == "epoch"]
    assert [event["epoch"] for event in events] == list(range(len(events)))
    return [event["loss"] for event in events]


class BrokenOffError(Exception):
    """Ends a run at once, without a checkpoint, as a kill does."""


def broken_off_here(rank: int, run: str, recipe: str, settings: dict[str, Any], epoch: int) -> None:
    """Resume a run, and break it off while it trains ``epoch``, without a checkpoint."""
    trainer = recipe_trainer(rank, run, config_of(recipe, **settings))
    trainer.resume()

    def broken() -> bool:
        if trainer.progress.epoch == epoch:
            raise BrokenOffError
        return False

    with suppress(BrokenOffError):
        trainer.run(Hooks(Silent(), should_stop=broken))
    assert trainer.progress.epoch == epoch
    trainer.settle()
