"""Synthetic graphs by a one-line description such as ``rmat:nodes=200000,edges=10000000,features=128,seed=0``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from halowire.errors import InputError
from halowire.graph.block_model import block_model
from halowire.graph.graph import Graph
from halowire.graph.rmat import rmat

EXAMPLES = ("rmat:nodes=200000,edges=10000000", "sbm:nodes=10000,edges=200000")


def is_synthetic(spec: str) -> bool:
    """Whether ``spec`` describes a synthetic graph."""
    return spec.partition(":")[0] in _makers()


def synthetic(spec: str) -> Graph:
    """Make the graph that ``spec`` describes: ``rmat:`` or ``sbm:``, then ``key=value`` pairs.

    Keys: nodes, edges (both required), features, classes, seed; for sbm also homophily, noise and multi_label (0 or 1).
    """
    kind, _, text = spec.partition(":")
    maker, keys = _makers()[kind]
    arguments: dict[str, Any] = {}
    for pair in filter(None, text.split(",")):
        key, equals, value = (part.strip() for part in pair.partition("="))
        if key not in keys or not equals:
            raise InputError(f"{pair!r} in {spec!r} is not known, expected key=value with a key of {', '.join(keys)}")
        name, convert = keys[key]
        try:
            arguments[name] = convert(value)
        except ValueError:
            raise InputError(f"{pair!r} in {spec!r} is not a number, expected for example {EXAMPLES[0]}") from None
    if "num_nodes" not in arguments or "num_edges" not in arguments:
        raise InputError(f"{spec!r} does not say how many nodes and edges, expected for example {_example(kind)}")
    return maker(**arguments)


def _makers() -> dict[str, tuple[Callable[..., Graph], dict[str, tuple[str, Callable[[str], Any]]]]]:
    common: dict[str, tuple[str, Callable[[str], Any]]] = {
        "nodes": ("num_nodes", int),
        "edges": ("num_edges", int),
        "features": ("num_features", int),
        "classes": ("num_classes", int),
        "seed": ("seed", int),
    }
    block: dict[str, tuple[str, Callable[[str], Any]]] = {
        "homophily": ("homophily", float),
        "noise": ("feature_noise", float),
        "multi_label": ("multi_label", _flag),
    }
    return {"rmat": (rmat, common), "sbm": (block_model, common | block)}


def _flag(value: str) -> bool:
    if value not in ("0", "1"):
        raise ValueError(value)
    return value == "1"


def _example(kind: str) -> str:
    return next(example for example in EXAMPLES if example.startswith(kind))
