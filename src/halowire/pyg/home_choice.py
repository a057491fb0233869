"""The choice whether the workers of a PyG model compute the first rows of their halo themselves."""

from __future__ import annotations

from torch import nn

from halowire.errors import InputError
from halowire.pyg.data_part import ShardData
from halowire.pyg.node_weights import NodeWeights
from halowire.pyg.rehearsal import rehearse
from halowire.pyg.trial import Call, Rehearsed
from halowire.training import Config


def rehearsed_at_home(model: nn.Module, call: Call, most: int, weights: NodeWeights, config: Config) -> Rehearsed:
    """What is known of ``call``, with the rows of the halo computed at home where the settings ask for it.

    A model of one's own may depend on torch's own dropout, so that `auto` leaves it as it is.
    """
    several = isinstance(call.data, ShardData) and call.data.transport.size > 1
    if config.wire.first_layer != "local" or not several:
        return rehearse(model, call, most, weights)
    known = rehearse(model, call, most, weights, at_home=True)
    if known.widths and not known.saved:
        raise InputError(
            "--wire.first-layer local computes the first rows of the halo on every worker, but this model sends all of "
            "its rows all the same: what it makes of its features before its first rows travel does not work row by "
            "row, or it reads the features from data instead of an argument; leave it out"
        )
    return known
