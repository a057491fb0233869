"""halowire trains graph neural networks on whole graphs that are spread over many workers."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_PLACES = {
    "load": "halowire.graph",
    "Graph": "halowire.graph",
    "block_model": "halowire.graph",
    "rmat": "halowire.graph",
    "partition": "halowire.api",
    "train": "halowire.api",
    "compare": "halowire.api",
    "predict": "halowire.api",
    "Run": "halowire.training",
    "RECIPES": "halowire.training",
    "Config": "halowire.training",
    "InputError": "halowire.errors",
    "fit": "halowire.pyg",
    "Fit": "halowire.pyg",
    "shard": "halowire.pyg",
    "shard_links": "halowire.pyg",
    "distribute": "halowire.pyg",
    "layer_paths": "halowire.pyg",
    "clip_grad_norm_": "halowire.pyg",
    "optimizer_state": "halowire.pyg",
    "load_optimizer_state": "halowire.pyg",
    "DropEdges": "halowire.pyg",
    "Random": "halowire.pyg",
    "RowCodec": "halowire.wire",
    "Draws": "halowire.wire",
}
"""Every public name and the module that defines it; `__init__.pyi` says the same to type checkers."""
__all__ = list(_PLACES)


def __getattr__(name: str) -> Any:
    """Import a public name at its first use, so that `halowire --help` need not wait seconds for torch."""
    if name not in _PLACES:
        raise AttributeError(f"module 'halowire' has no attribute {name!r}")
    value = getattr(import_module(_PLACES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
