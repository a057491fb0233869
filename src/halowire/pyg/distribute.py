"""``halowire.distribute``: a PyG model on a shard, under the wire settings of a recipe."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

from torch import nn

from halowire.errors import InputError
from halowire.pyg.attach import ATTRIBUTE, HaloRows, PolicyMaker, attach, state_of
from halowire.pyg.layer_path import LayerPath
from halowire.pyg.shard_data import ShardData
from halowire.pyg.trial_pass import Rehearsed
from halowire.training.config import Config, check_config
from halowire.training.recipes import recipe_config
from halowire.training.refuse_wire import refuse_codec
from halowire.training.wire import policy_of
from halowire.wire import Policy, RowCodec, agree_on_codec

USED = ("rate.", "freshness.", "seed", "epochs")
"""Settings that a distributed model has a use for; a loop of the user's own decides about all others."""
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

    Args:
        model: the model, in float32.
        data: this worker's part, from `halowire.shard`.
        recipe: a named setting of the wire.
        settings: overrides of ``rate.*``, ``freshness.*``, ``seed`` and ``epochs`` (for schedules of the rate).
        codec: a codec of one's own for the rows that the recipe would send in float32 (`halowire.wire.RowCodec`).
    """
    config = recipe_config(recipe).replace(settings or {})
    check_config(config)
    for name in settings or {}:
        if not name.startswith(USED):
            raise InputError(f"the setting {name} has no effect on a distributed model; it uses rate.* and freshness.*")
    if config.rate.weights != Config().rate.weights:
        raise InputError(
            "--rate.weights has no effect in a loop of one's own, which sums the weight gradients in float32; leave it "
            "out, or train with halowire.fit"
        )
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
    """
    if ATTRIBUTE not in model.__dict__:
        raise InputError("the model is not distributed, so all of it is plain PyG; call halowire.distribute first")
    return state_of(model).native


def wire_policy(config: Config, codec: RowCodec | None = None) -> PolicyMaker:
    """How a distributed model's rows travel under ``config``, coded by ``codec`` if there is one."""
    refuse_for_own_model(config)
    if codec is not None:
        refuse_codec(config)

    def make(known: Rehearsed, halo_rows: HaloRows) -> Policy:
        used = rows_as_they_are(config) if known.drops else config
        return dataclasses.replace(policy_of(used, known.widths, halo_rows(used.rate.rows)), codec=codec)

    return make


def rows_as_they_are(config: Config) -> Config:
    """``config`` for rows that travel after dropout: other masks make their changes larger than the rows themselves.

    The recipe `halowire` goes on without delta coding; who asked for it with settings of their own is refused.
    """
    own, recipe = config.rate, recipe_config("halowire").rate
    if own.decay < 0:
        return config
    if config.recipe != "halowire" or (own.decay, own.gain) != (recipe.decay, recipe.gain):
        raise InputError(
            f"--rate.decay {own.decay:g} codes changes of rows, but this model drops values or edges before its rows "
            "travel, which changes all of them in every epoch; set its dropout to 0, or use a recipe without changes, "
            "such as two-levels"
        )
    return config.replace({"rate.decay": -1.0, "rate.gain": 1.0})


def refuse_for_own_model(config: Config) -> None:
    """Refuse what the library's own models have, and a distributed model would not follow."""
    if config.freshness.mode == "never":
        raise InputError(
            f"recipe {config.recipe} leaves out the edges between workers; a model of one's own sees all edges: give "
            "it a graph without them, or another recipe"
        )
    if config.mesh != Config().mesh:
        raise InputError(
            f"recipe {config.recipe} splits the layers over the workers; a model of one's own has all of them on every "
            "worker: use a recipe without stages, such as sylvie-a"
        )
    if config.rate.resend_input:
        raise InputError(
            "--rate.resend-input has no effect on a model of one's own, which decides itself what it reads of its "
            "input; leave it out"
        )
    if config.rate.schedule == "budget" and config.rate.nodes == "degree":
        raise InputError(
            "--rate.schedule budget does not plan for --rate.nodes degree with a model of one's own; drop one of them"
        )
