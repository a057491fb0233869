"""The choice whether the workers of a PyG model compute the first rows of their halo themselves."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from halowire.errors import InputError
from halowire.events import SETUP
from halowire.launch import Place
from halowire.pyg.data_part import ShardData
from halowire.pyg.node_weights import NodeWeights
from halowire.pyg.rehearsal import rehearse
from halowire.pyg.trial import Call, Rehearsed
from halowire.training import (
    ETHERNET,
    LOOPBACK,
    Config,
    FirstLayer,
    FirstRows,
    Spread,
    Surroundings,
    asked,
    chosen,
    epoch_bytes,
    home_price,
    policy_of,
)
from halowire.wire import BACKWARD, HEADER_BYTES, Rate, sample_size

DRAWN = (
    "because its dropout would then draw by node instead of by torch's generator, and train to another result; "
    "--wire.first-layer local asks for that"
)
"""Why a model that drops values keeps its exchanges unless the settings ask."""
NO_ROWS = "because this model makes no rows of its features row by row or by a first sum with weights that stay"


def rehearsed_at_home(model: nn.Module, call: Call, most: int, weights: NodeWeights, config: Config) -> Rehearsed:
    """What is known of ``call``, with the rows of the halo computed at home where the settings ask for it.

    Where they leave it open, both ways are rehearsed, and :func:`settled_first` chooses.
    """
    several = isinstance(call.data, ShardData) and call.data.transport.size > 1
    if several and config.wire.first_layer == "local":
        known = rehearse(model, call, most, weights, at_home=True)
        if known.widths and not known.saved:
            raise InputError(
                "--wire.first-layer local computes the first rows of the halo on every worker, but this model sends "
                "all of its rows all the same: what it makes of its features before its first rows travel does not "
                "work row by row, or it reads the features from data instead of an argument; leave it out"
            )
        return known
    known = rehearse(model, call, most, weights)
    if several and asked(config) is None and known.widths and call.kept_names:
        try:
            home = rehearse(model, call, most, weights, at_home=True)
        except InputError:
            return known  # nobody asked for what cannot be
        return replace(known, at_home=home if home.saved else None)
    return known


def settled_first(known: Rehearsed, call: Call, config: Config) -> Rehearsed:
    """What is known of the way that is taken, with the choice; all workers call this together."""
    part = call.data
    if part.transport.size == 1:
        return known
    if not isinstance(part, ShardData):
        return replace(known, first=asked(config) or FirstLayer(False, NO_ROWS))
    if config.wire.first_layer == "local":
        return replace(known, first=FirstLayer(True, "as --wire.first-layer local asks"))
    choice, home = asked(config), known.at_home
    if choice is None:
        able = torch.tensor([home is not None, home is None or home.drawn], dtype=torch.int64)
        count, drawn = part.transport.all_reduce(able, "choice of the first layer", SETUP).tolist()
        if count < part.transport.size or home is None:
            choice = FirstLayer(False, NO_ROWS)
        elif drawn:
            choice = FirstLayer(False, DRAWN)
        else:
            choice = _priced(home, call, part, config)
    taken = home if choice.at_home and home is not None else known
    return replace(taken, at_home=None, first=choice)


def _priced(home: Rehearsed, call: Call, part: ShardData, config: Config) -> FirstLayer:
    """The choice by predicted cost."""
    features = next(value for name, (_, value) in call.samples.items() if name == call.kept_names[0])
    shard = replace(part.shard, x=_plain(features))
    # Several exchanges may be saved: with them their products, forward and backward.
    rows = FirstRows(sum(home.saved), 0, multiplies=False, sums=home.summed, loops=False, own=True, kept=True)
    place = Place.here()
    one_machine = place.local_size == place.size and part.transport.machines.count == 1
    link = config.wire.link or (LOOPBACK if one_machine else ETHERNET)
    around = Surroundings(link, on_cpu=part.passing.device.type == "cpu")
    price = home_price(shard, rows, _saved(home, part, config), None, part.transport, around)
    return chosen(config, price)


def _plain(features: Tensor) -> Tensor:
    return features.detach().as_subclass(Tensor).cpu().float()


def _saved(home: Rehearsed, part: ShardData, config: Config) -> tuple[int, int]:
    """Bytes of the exchanges that are not needed, in the middle of the run: on the network, and within machines."""
    shard, transport = part.shard, part.transport
    count = sum(sample_size(arriving, config.rate.rows) for arriving in shard.recv_counts)
    pairs = sum(arriving > 0 for arriving in shard.recv_counts)
    sizes = transport.all_reduce(torch.tensor([count, pairs]), "reduction of the halo sizes", SETUP)
    rows, messages = sizes.tolist()
    used = config.replace({"wire.first_layer": "exchange", "wire.link": 0.0})
    policy = policy_of(used, home.saved, [rows] * len(home.saved), pairs=[messages] * len(home.saved))
    epoch = 0 if policy.base is not None else config.epochs // 2

    def rates(layer: int, direction: str) -> Rate:
        return replace(policy.rates(epoch, layer, direction), graded=False)

    returns = policy.freshness.sends(BACKWARD)
    every = epoch_bytes(rates, dict(enumerate(home.saved, 1)), rows, returns=returns)
    spread = Spread.of(shard, shard.recv_counts, transport, policy.once_per_machine)
    header = HEADER_BYTES * (1 + returns) * len(home.saved)
    over, within = header * spread.over_pairs, header * spread.within_pairs
    return round(every * spread.over) + over, round(every * spread.within) + within
