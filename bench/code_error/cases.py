"""The codes that are measured, and the run they are measured in."""

from __future__ import annotations

from typing import Any

from halowire.training import Config

CODES: dict[str, dict[str, Any]] = {
    "minmax, 8 bits": {"rate.bits": 8},
    "minmax, 4 bits": {"rate.bits": 4},
    "minmax, 2 bits": {"rate.bits": 2},
    "minmax, 1 bit": {"rate.bits": 1},
    "levels, 1 bit": {"rate.bits": 1, "rate.code": "levels"},
    "clipped, 1 bit": {"rate.bits": 1, "rate.code": "clipped"},
    "columns, 1 in 4": {"rate.ratio": 4.0},
    "levels, decay 0.8": {"rate.bits": 1, "rate.code": "levels", "rate.decay": 0.8},
    "minmax, decay 1, gain 0.2": {"rate.bits": 1, "rate.decay": 1.0, "rate.gain": 0.2},
}
GRAPH, WORKERS, EPOCHS, HIDDEN = "debian", 2, 30, 64


def config_of(name: str, seed: int) -> Config:
    """The settings of the run with the code ``name``."""
    return Config(epochs=EPOCHS, seed=seed).replace({"model.hidden": HIDDEN, "threads": 1, **CODES[name]})
