"""``halowire.distribute``: a PyG model on a shard, under the wire settings of a recipe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from torch import nn

from halowire.errors import InputError
from halowire.pyg.attach import ATTRIBUTE, HaloRows, PolicyMaker, attach, state_of
from halowire.pyg.layer_path import LayerPath
from halowire.pyg.shard_data import ShardData
from halowire.pyg.trial_pass import Rehearsed
from halowire.training import Config, Situation, policy_of, recipe_config, refuse, settled
from halowire.wire import Policy, RowCodec, agree_on_codec

Model = TypeVar("Model", bound=nn.Module)


def distribute(
    model: Model,
    data: ShardData,
    recipe: str = "exact",
    settings: Mapping[str, Any] | None = None,
    *,
    codec: RowCodec | None = None,
) -> Model:
    """Make ``model`` run on this worker's part of a graph; the same object, with the same ``state_dict`` keys.

    ``model`` is any module whose forward takes ``edge_index``, such as ``(x, edge_index, ...)``: layers of PyTorch
    Geometric, or code of its own that reads nodes by edges. Called with the tensors of ``data``, it gives the output of
    the owned rows. Wherever it reads rows by the edges' sources, the halo's rows are exchanged, and their gradients
    return in backward; rows that carry gradients are coded by the recipe while training, everything else is exact.
    Normalisation layers get the statistics of the whole graph. All workers get rank 0's weights.

    The model is first rehearsed on a small random graph, cut in two, and refused where it does not equal the plain
    model there. Make the loss with ``data.mean``.

    Example:
        >>> data = halowire.shard(dataset[0])
        >>> model = halowire.distribute(model, data, recipe="halowire")
        >>> out = model(data.x, data.edge_index)
        >>> loss = data.mean(F.cross_entropy(out[data.train_mask], data.y[data.train_mask], reduction="none"))

    Args:
        model: the model, in float32.
        data: this worker's part, from `halowire.shard`.
        recipe: a named setting of the wire.
        settings: overrides of ``rate.*``, ``freshness.*``, ``seed`` and ``epochs`` (for schedules of the rate).
        codec: a codec of one's own for the rows that the recipe would send in float32 (`halowire.wire.RowCodec`).
    """
    config = recipe_config(recipe).replace(settings or {})
    refuse(config, Situation(caller="distribute", given=tuple(settings or {}), codec=codec is not None))
    attach_under(config, model, data, codec)
    return model


def attach_under(config: Config, model: nn.Module, data: ShardData, codec: RowCodec | None = None) -> None:
    """Attach ``model`` to ``data``; its rows travel under ``config``, coded by ``codec`` if there is one."""
    policy = wire_policy(config, codec)
    if codec is not None:
        agree_on_codec(codec, data.transport)
    attach(model, data, policy)


def layer_paths(model: nn.Module) -> dict[str, LayerPath]:
    """By name, how every PyG layer of a distributed ``model`` ran in its training passes so far.

    ``path`` is ``native`` (halowire's kernels), ``general`` (PyG's own code) or both in turn; ``reason`` says why not
    natively.

    Example:
        >>> for name, layer in halowire.layer_paths(model).items():
        ...     print(name, layer.path, layer.reason)
    """
    if ATTRIBUTE not in model.__dict__:
        raise InputError("the model is not distributed, so all of it is plain PyG; call halowire.distribute first")
    return state_of(model).native


def wire_policy(config: Config, codec: RowCodec | None = None) -> PolicyMaker:
    """How a distributed model's rows travel under ``config``, coded by ``codec`` if there is one."""
    here = Situation(caller="fit", codec=codec is not None)
    refuse(config, here)

    def make(known: Rehearsed, halo_rows: HaloRows) -> Policy:
        used = settled(config, replace(here, drops=known.drops))
        return replace(policy_of(used, known.widths, halo_rows(used.rate.rows)), codec=codec)

    return make
