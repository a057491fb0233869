"""halowire trains graph neural networks on whole graphs that are spread over many workers."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from halowire.api import Run, partition, predict, train
    from halowire.graph import Graph, block_model, load, rmat
    from halowire.kernels import InputError
    from halowire.nn import GCN, SAGE, GCNConv, SAGEConv
    from halowire.train.config import Config
    from halowire.train.recipes import RECIPES

__all__ = [
    "GCN",
    "RECIPES",
    "SAGE",
    "Config",
    "GCNConv",
    "Graph",
    "InputError",
    "Run",
    "SAGEConv",
    "block_model",
    "load",
    "partition",
    "predict",
    "rmat",
    "train",
]

_PLACES = {
    "halowire.api": ("Run", "partition", "predict", "train"),
    "halowire.graph": ("Graph", "block_model", "load", "rmat"),
    "halowire.kernels": ("InputError",),
    "halowire.nn": ("GCN", "SAGE", "GCNConv", "SAGEConv"),
    "halowire.train.config": ("Config",),
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
