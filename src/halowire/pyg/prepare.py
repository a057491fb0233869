"""Preparing a PyG model for a shard: what cannot work is refused, norms see the whole graph, weights are shared."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from halowire.errors import InputError
from halowire.events import SETUP
from halowire.pyg.bridge import Bridge
from halowire.pyg.whole_norm import NORMS
from halowire.wire import Transport

POOLING = (
    "it makes one graph of another, and every worker sees only its own nodes; leave it out, or train on one worker"
)
HETERO = "halowire trains on one kind of node; convert the graph with data.to_homogeneous() and use e.g. RGCNConv"
NEIGHBOURS = "it finds neighbours itself, among the nodes of this worker only; give it the edges instead"
REFUSED = {
    "TopKPooling": POOLING, "SAGPooling": POOLING, "ASAPooling": POOLING, "EdgePooling": POOLING,
    "PANPooling": POOLING, "MemPooling": POOLING, "ClusterPooling": POOLING,
    "HeteroConv": HETERO, "HGTConv": HETERO, "HANConv": HETERO, "HeteroLinear": HETERO, "HeteroDictLinear": HETERO,
    "HeteroBatchNorm": "its statistics by type of node are not gathered from all workers; use BatchNorm",
    "DynamicEdgeConv": NEIGHBOURS, "XConv": NEIGHBOURS, "GravNetConv": NEIGHBOURS,
    "SyncBatchNorm": "halowire spreads BatchNorm1d over the workers itself; use that",
    "GPSConv": "its attention is over all nodes, and every worker sees only its own; use TransformerConv",
    "Node2Vec": "it has one weight row per node of the whole graph; use a model of (x, edge_index)",
    "LightGCN": "it has one weight row per node of the whole graph; use LGConv layers on given features",
}  # fmt: skip
"""Layers that cannot run on a shard, and why."""


def refuse_unsupported(model: nn.Module) -> None:
    """Refuse a model with a layer or a weight that is known not to work on a shard, with the reason."""
    if isinstance(model, torch.jit.ScriptModule) or hasattr(model, "_orig_mod"):
        raise InputError("the model is compiled or scripted, so its layers cannot be reached; give the model itself")
    for name, module in model.named_modules():
        kind = type(module).__name__
        if kind in REFUSED and type(module).__module__.startswith(("torch.", "torch_geometric.")):
            raise InputError(f"layer {name or kind!r} is {kind}, which cannot run on a shard: {REFUSED[kind]}")
        if isinstance(module, _BatchNorm) and not isinstance(module, nn.BatchNorm1d):
            raise InputError(f"layer {name!r} is {kind}, which cannot run on a shard; nodes have BatchNorm1d")
        if kind == "ChebConv" and getattr(module, "normalization", "") is None:
            raise InputError(
                f"layer {name!r} is ChebConv without normalization, which takes the largest degree that it sees "
                'for that of the whole graph; use normalization="sym" or "rw"'
            )
    for name, value in [*model.named_parameters(), *model.named_buffers()]:
        if isinstance(value, UninitializedParameter | UninitializedBuffer):
            raise InputError(f"weight {name!r} has no shape yet; call the model once on a plain graph first")
        if isinstance(value, nn.Parameter) and value.dtype != torch.float32:
            raise InputError(f"weight {name!r} is {value.dtype}; halo rows travel as float32: call model.float()")


def spread_norms(model: nn.Module, bridge: Bridge) -> list[str]:
    """Give every normalisation layer the statistics of the whole graph; returns the names of those layers."""
    known: dict[type, Any] = {kind: forward for path, forward in NORMS.items() if (kind := _imported(path)) is not None}
    found = []
    for name, module in model.named_modules():
        forward = known.get(type(module))
        if forward is not None:
            # An attribute of the instance comes before the method of its class; parameters and buffers stay.
            module.forward = partial(forward, module, bridge)
            found.append(name)
    return found


def forget_cached(model: nn.Module) -> None:
    """Drop what layers cached of another graph (PyG's ``cached=True``)."""
    for module in model.modules():
        for name in vars(module):
            if name.startswith("_cached_"):
                setattr(module, name, None)


def share_weights(module: nn.Module, transport: Transport, what: str) -> None:
    """Give all workers rank 0's parameters and buffers; ``what`` names the message."""
    with torch.no_grad():
        for value in (*module.parameters(), *module.buffers()):
            value.copy_(transport.broadcast(value.detach().clone(), what, SETUP))


def _imported(path: str) -> type | None:
    """The class ``path`` where its package was imported; otherwise no model has such a layer."""
    package, _, name = path.rpartition(".")
    module = sys.modules.get(package)
    return None if module is None else getattr(module, name)
