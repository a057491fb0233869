"""A job: what a worker process needs to know, written to `config.json` of the run folder."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from halowire.errors import InputError
from halowire.files import write_json
from halowire.training.config import Config

PREDICTIONS = "predictions.npy"
"""Where a run folder keeps the predictions of a model that only the user's program can make again."""


@dataclass(frozen=True)
class Job:
    """A run: its folder, its graph, its shards, its settings."""

    run: Path
    graph: str
    source: str
    shards: Path
    workers: int
    config: Config
    resume: bool = False
    quiet: bool = False
    tensorboard: bool = False
    table: bool = True
    own_model: bool = False

    def write(self) -> None:
        """Write `config.json`: the settings, and under ``run`` the rest."""
        rest = {
            "graph": self.graph, "source": self.source, "shards": self._shards_name(), "workers": self.workers,
            "resume": self.resume, "quiet": self.quiet, "tensorboard": self.tensorboard,
            "table": self.table, "own_model": self.own_model,
        }  # fmt: skip
        write_json(self.run / "config.json", {**self.config.to_dict(), "run": rest})

    def _shards_name(self) -> str:
        """Relative where the shards are in the run folder, so that the folder can be moved."""
        inside = self.shards.parent == self.run
        return self.shards.name if inside else str(self.shards.absolute())

    @staticmethod
    def read(run: Path) -> Job:
        """Read the job of a run folder."""
        try:
            values = json.loads((run / "config.json").read_text())
            rest = values.pop("run")
            rest["shards"] = run / rest["shards"]
            return Job(run=run, config=Config.from_dict(values), **rest)
        except FileNotFoundError:
            raise InputError(f"{run} is not a run folder: it holds no config.json") from None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(f"{run / 'config.json'} cannot be read as the settings of a run ({error})") from error


def delete_run(run: Path, shards: bool) -> None:
    """Delete what a run wrote to its folder, and nothing else; ``shards``: also the shards."""
    for name in ("checkpoints", "tensorboard", *(["shards"] if shards else [])):
        shutil.rmtree(run / name, ignore_errors=True)
    files = ("config.json", "summary.json", "report.html", PREDICTIONS)
    for file in (*(run / name for name in files), *run.glob("events-*.jsonl")):
        file.unlink(missing_ok=True)
