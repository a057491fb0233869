"""Some layers need the whole graph: norms are given its statistics; layers that a shard cannot serve are refused."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parallel import DistributedDataParallel
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from halowire.errors import InputError
from halowire.pyg.edge_lists import pad_alike
from halowire.pyg.global_attention import OneGraph, polynormer, sgformer
from halowire.pyg.graph_norms import BATCH_NORMS, GraphMeans
from halowire.pyg.label_propagation import propagate_labels
from halowire.pyg.model_pass import ModelPass
from halowire.pyg.semantic_attention import WholeHan
from halowire.pyg.typed_norm import typed_batch_norm

POOLING = (
    "it makes one graph of another, and every worker sees only its own nodes; leave it out, or train on one worker"
)
NEIGHBOURS = "it finds neighbours itself, among the nodes of this worker only; give it the edges instead"
REFUSED = {
    "TopKPooling": POOLING, "SAGPooling": POOLING, "ASAPooling": POOLING, "EdgePooling": POOLING,
    "PANPooling": POOLING, "MemPooling": POOLING, "ClusterPooling": POOLING,
    "DynamicEdgeConv": NEIGHBOURS, "XConv": NEIGHBOURS, "GravNetConv": NEIGHBOURS,
    "SyncBatchNorm": "halowire spreads BatchNorm1d over the workers itself; use that",
    "GPSConv": "its attention is over all nodes, and every worker sees only its own; use TransformerConv",
    "MeshCNNConv": "it needs four edges into every node, in the order of a mesh; use EdgeConv or train on one worker",
    "DeepGraphInfomax": "its summary is a mean over all nodes, and every worker sees only its own; distribute its "
    "encoder, and take the summary of all rows, without a gradient: data.gather(z).mean(0)",
    "Node2Vec": "it has one weight row per node of the whole graph; use a model of (x, edge_index)",
}  # fmt: skip
"""Layers that cannot run on a shard, each with the reason."""


def refuse_wrapped(model: nn.Module | None = None) -> None:
    """Refuse a wrapper that averages gradients: around ``model``, or around the model whose forward begins here."""
    wrapper = type(model).__name__
    inside = DistributedDataParallel._get_active_ddp_module() is not None  # type: ignore[no-untyped-call]
    if inside or wrapper in ("DistributedDataParallel", "FullyShardedDataParallel", "DataParallel"):
        raise InputError(
            f"the model is wrapped in {'DistributedDataParallel' if inside else wrapper}, which averages the gradients "
            "of workers that hold different nodes, after halowire has summed them; leave the wrapper out: "
            "halowire.distribute(model, data) does all of it"
        )


def refuse_unsupported(model: nn.Module) -> None:
    """Refuse a model with a layer or a weight that is known not to work on a shard, with the reason."""
    refuse_wrapped(model)
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
        if kind == "CorrectAndSmooth" and module.autoscale:
            raise InputError(
                f"layer {name or kind!r} is CorrectAndSmooth with autoscale, which takes the mean error of the nodes "
                "that it sees; use autoscale=False and a scale of your own"
            )
        if kind == "EGConv" and module.add_self_loops and "symnorm" not in module.aggregators:
            raise InputError(
                f"layer {name!r} is EGConv, which adds self loops up to the largest number of a node that it sees; use "
                'an aggregator "symnorm" too, or add_self_loops=False and AddSelfLoops before the graph is cut'
            )
    for name, value in [*model.named_parameters(), *model.named_buffers()]:
        if isinstance(value, UninitializedParameter | UninitializedBuffer):
            raise InputError(
                f"weight {name!r} has no shape yet, and halowire cannot find it: distribute calls the model where the "
                "graph has all inputs of forward by name, and fit never does; call it once on a plain graph first"
            )


def spread_norms(model: nn.Module, passing: ModelPass) -> None:
    """Give norms, linear attention over all nodes, ``HANConv`` and padding aggregations what the whole graph has."""
    known: dict[type, Any] = {nn.BatchNorm1d: column_norm}
    if (package := sys.modules.get("torch_geometric.nn")) is not None:
        known |= {getattr(package, name): norm for name, norm in NORMS.items()}
    whole: dict[type, Any] = {}
    if package is not None:
        whole = {package.HeteroBatchNorm: typed_batch_norm, package.LabelPropagation: propagate_labels}
    if (attentions := sys.modules.get("torch_geometric.nn.attention")) is not None:
        whole |= {attentions.SGFormerAttention: sgformer, attentions.PolynormerAttention: polynormer}
    models = sys.modules.get("torch_geometric.nn.models.sgformer")
    for module in model.modules():
        if type(module) in known:
            # An attribute of the instance comes before the method of its class; parameters and buffers stay.
            module.forward = partial(_forward, known[type(module)], module, passing)
        elif type(module) in whole:
            module.forward = partial(whole[type(module)], module, passing)
        elif package is not None and type(module) is package.HANConv:
            module.forward = WholeHan(module, passing)
        elif models is not None and type(module) is models.SGModule:
            module.forward = OneGraph(module)
        elif (padded := pad_alike(module, passing)) is not None:
            module.forward = padded


def _forward(
    norm: Callable[..., Tensor], module: Any, passing: ModelPass, x: Tensor, batch: Tensor | None = None,
    *more: object, **named: object,
) -> Tensor:  # fmt: skip
    """Call ``norm`` with the arguments of PyG's layers: ``x``, ``batch`` and, by any name, the number of graphs."""
    # The sums of many rows need more digits than a row has, as torch's own norms know.
    wide = x.float() if x.dtype in (torch.bfloat16, torch.float16) else x
    # Statistics that were learnt serve all graphs alike, and so does a norm of each row.
    alike = getattr(module, "track_running_stats", False) and not module.training
    by_graph = BATCH_NORMS.get(type(module).__name__)
    if batch is None or alike or getattr(module, "mode", "graph") == "node" or by_graph is None:
        return norm(module, passing, wide).to(x.dtype)
    least = next((number for number in (*more, *named.values()) if isinstance(number, int)), 0)
    return by_graph(module, wide, GraphMeans(passing, batch, least)).to(x.dtype)


def whole_mean(passing: ModelPass, x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean ``[k]`` of the rows ``[m, k]`` of all workers, and the number of all workers' rows, in one message."""
    sums = torch.cat([x.sum(0), x.new_full((1,), x.shape[0])])
    total = passing.whole_sum(sums)
    count = total[-1].detach()
    return total[:-1] / count, count


def column_norm(module: Any, passing: ModelPass, x: Tensor) -> Tensor:
    """``(x - mean) / sqrt(var + eps) * weight + bias`` by column, with running statistics.

    This is ``torch.nn.BatchNorm1d`` and, for a single graph, PyG's ``InstanceNorm``.
    """
    counts = isinstance(module, nn.BatchNorm1d)
    if counts and x.dim() != 2:
        raise InputError(f"BatchNorm1d got a tensor of shape {list(x.shape)}; on many workers it takes rows [n, C]")
    if not module.training and module.running_mean is not None:
        running = module.running_mean, module.running_var
        return F.batch_norm(x.to(running[0].dtype), *running, module.weight, module.bias, False, 0.0, module.eps)
    mean, count = whole_mean(passing, x)
    centred = x - mean
    var, _ = whole_mean(passing, centred.square())
    if module.training and module.running_mean is not None:
        with torch.no_grad():
            factor = module.momentum
            if counts and module.num_batches_tracked is not None:
                module.num_batches_tracked.add_(1)
                # Without a momentum, the running statistics are the average of all updates.
                factor = 1.0 / float(module.num_batches_tracked) if factor is None else factor
            kind = module.running_mean.dtype
            module.running_mean.lerp_(mean.to(kind), factor or 0.0)
            module.running_var.lerp_((var * (count / (count - 1))).to(kind), factor or 0.0)
    return _affine(module, centred * (var + module.eps).rsqrt())


def layer_norm(module: Any, passing: ModelPass, x: Tensor) -> Tensor:
    """PyG's ``LayerNorm``: mode ``graph`` has one mean and one deviation for all values of the whole graph."""
    if module.mode == "node":
        x = x if module.weight is None else x.to(module.weight.dtype)
        return F.layer_norm(x, (module.in_channels,), module.weight, module.bias, module.eps)
    centred = x - whole_mean(passing, x)[0].mean()
    deviation = whole_mean(passing, centred.square())[0].mean().sqrt()
    return _affine(module, centred / (deviation + module.eps))


def graph_norm(module: Any, passing: ModelPass, x: Tensor) -> Tensor:
    """PyG's ``GraphNorm``: ``(x - a mean) / sqrt(var + eps) * weight + bias``, by column."""
    centred = x - whole_mean(passing, x)[0] * module.mean_scale
    var = whole_mean(passing, centred.square())[0]
    return _affine(module, centred / (var + module.eps).sqrt())


def pair_norm(module: Any, passing: ModelPass, x: Tensor) -> Tensor:
    """PyG's ``PairNorm``: centred rows, divided by the root of their mean squared length, or each by its own length."""
    centred = x - whole_mean(passing, x)[0]
    if module.scale_individually:
        return module.scale * centred / (module.eps + centred.norm(2, -1, keepdim=True))  # type: ignore[no-any-return]
    length = whole_mean(passing, centred.square())[0].sum()
    return module.scale * centred / (module.eps + length).sqrt()  # type: ignore[no-any-return]


def mean_subtraction_norm(module: Any, passing: ModelPass, x: Tensor) -> Tensor:
    """PyG's ``MeanSubtractionNorm``: ``x - mean``, by column."""
    return x - whole_mean(passing, x)[0]


def graph_size_norm(module: Any, passing: ModelPass, x: Tensor) -> Tensor:
    """PyG's ``GraphSizeNorm``: ``x / sqrt(N)``."""
    return x / whole_mean(passing, x)[1].sqrt()


def _affine(module: Any, out: Tensor) -> Tensor:
    return out if module.weight is None else out * module.weight + module.bias


NORMS: dict[str, Callable[..., Tensor]] = {
    "InstanceNorm": column_norm, "LayerNorm": layer_norm, "GraphNorm": graph_norm, "PairNorm": pair_norm,
    "MeanSubtractionNorm": mean_subtraction_norm, "GraphSizeNorm": graph_size_norm,
}  # fmt: skip
"""Layers of ``torch_geometric.nn`` whose statistics run over all nodes, and what they compute on many workers."""
