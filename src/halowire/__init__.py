"""halowire trains graph neural networks on whole graphs that are spread over many workers."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from halowire.api import partition, predict, train
    from halowire.fit import Fit, fit
    from halowire.graph import Graph, block_model, load, rmat
    from halowire.kernels import InputError
    from halowire.launch.shard import shard
    from halowire.launch.shard_links import shard_links
    from halowire.nn import GAT, GCN, SAGE, GATConv, GCNConv, SAGEConv
    from halowire.nn.foreign.drop_edges import DropEdges
    from halowire.outcome import Run
    from halowire.train.config import Config
    from halowire.train.distribute import distribute, layer_paths
    from halowire.train.recipes import RECIPES

__all__ = [
    "GAT",
    "GCN",
    "RECIPES",
    "SAGE",
    "Config",
    "DropEdges",
    "Fit",
    "GATConv",
    "GCNConv",
    "Graph",
    "InputError",
    "Run",
    "SAGEConv",
    "block_model",
    "distribute",
    "fit",
    "layer_paths",
    "load",
    "partition",
    "predict",
    "rmat",
    "shard",
    "shard_links",
    "train",
]

_PLACES = {
    "halowire.api": ("partition", "predict", "train"),
    "halowire.graph": ("Graph", "block_model", "load", "rmat"),
    "halowire.fit": ("Fit", "fit"),
    "halowire.kernels": ("InputError",),
    "halowire.launch.shard": ("shard",),
    "halowire.launch.shard_links": ("shard_links",),
    "halowire.nn": ("GAT", "GCN", "SAGE", "GATConv", "GCNConv", "SAGEConv"),
    "halowire.nn.foreign.drop_edges": ("DropEdges",),
    "halowire.outcome": ("Run",),
    "halowire.train.config": ("Config",),
    "halowire.train.distribute": ("distribute", "layer_paths"),
    "halowire.train.recipes": ("RECIPES",),
}


class _Package(ModuleType):
    """The package as a module whose public names are imported when first asked for.

    `halowire --help` need not wait seconds for torch. `train` and `partition` are functions here and folders as well:
    importing a folder must not put it in the function's place.
    """

    def __getattr__(self, name: str) -> Any:
        for place, names in _PLACES.items():
            if name in names:
                value = getattr(import_module(place), name)
                setattr(self, name, value)
                return value
        raise AttributeError(f"module 'halowire' has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in __all__ and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *__all__})


sys.modules[__name__].__class__ = _Package
