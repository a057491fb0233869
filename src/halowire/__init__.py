"""halowire trains graph neural networks on whole graphs that are spread over many workers."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from halowire.api import compare, partition, predict, train
    from halowire.errors import InputError
    from halowire.graph import Graph, block_model, load, rmat
    from halowire.pyg import DropEdges, Fit, distribute, fit, layer_paths, shard, shard_links
    from halowire.training.config import Config
    from halowire.training.outcome import Run
    from halowire.training.recipes import RECIPES
    from halowire.wire import Draws, RowCodec

_PLACES = {
    "halowire.api": ("compare", "partition", "predict", "train"),
    "halowire.errors": ("InputError",),
    "halowire.graph": ("Graph", "block_model", "load", "rmat"),
    "halowire.pyg": ("DropEdges", "Fit", "distribute", "fit", "layer_paths", "shard", "shard_links"),
    "halowire.training.config": ("Config",),
    "halowire.training.outcome": ("Run",),
    "halowire.training.recipes": ("RECIPES",),
    "halowire.wire": ("Draws", "RowCodec"),
}
__all__ = [
    "RECIPES", "Config", "Draws", "DropEdges", "Fit", "Graph", "InputError", "RowCodec", "Run", "block_model",
    "compare", "distribute", "fit", "layer_paths", "load", "partition", "predict", "rmat", "shard",
    "shard_links", "train",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for: `halowire --help` need not wait seconds for torch."""
    for place, names in _PLACES.items():
        if name in names:
            value = getattr(import_module(place), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'halowire' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
