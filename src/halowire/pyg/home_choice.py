"""The choice whether the workers of a PyG model compute the first rows of their halo themselves."""

from __future__ import annotations

from torch import nn

from halowire.errors import InputError
from halowire.launch import Place
from halowire.pyg.data_part import ShardData
from halowire.pyg.node_weights import NodeWeights
from halowire.pyg.rehearsal import rehearse
from halowire.pyg.trial import Call, Rehearsed
from halowire.training import ETHERNET, LOOPBACK, Config, row_pays


def rehearsed_at_home(model: nn.Module, call: Call, most: int, weights: NodeWeights, config: Config) -> Rehearsed:
    """What is known of ``call``, with the rows of the halo computed at home where the settings ask for it or it pays.

    All workers choose the same: nothing depends on a worker's own rows.
    """
    if not isinstance(call.data, ShardData) or call.data.transport.size == 1 or not _wanted(config):
        return rehearse(model, call, most, weights)
    if config.wire.first_layer == "local":
        known = rehearse(model, call, most, weights, at_home=True)
        _refuse_useless(known)
        return known
    try:
        known = rehearse(model, call, most, weights, at_home=True)
    except InputError:  # what hides rows from halowire, as reentrant checkpoints do, may still work with messages
        return rehearse(model, call, most, weights)
    place = Place.here()
    link = config.wire.link or (LOOPBACK if place.local_size == place.size else ETHERNET)
    if not known.saved or row_pays(known.saved, known.products, config.rate.bits, link):
        return known
    return rehearse(model, call, most, weights)


def _wanted(config: Config) -> bool:
    """Whether rows may be computed at home; settings that name exchanges by number, or watch the first, want all."""
    named = config.rate.layers or config.rate.layer_ratios or config.freshness.threshold > 0
    first = config.wire.first_layer
    return not config.wire.plain and (first == "local" or (first == "auto" and not named))


def _refuse_useless(known: Rehearsed) -> None:
    if known.widths and not known.saved:
        raise InputError(
            "--wire.first-layer local computes the first rows of the halo on every worker, but this model sends all of "
            "its rows all the same: what it makes of its features before its first rows travel does not work row by "
            "row, or it reads the features from data instead of an argument; leave it out"
        )
