"""The choice whether the workers of a PyG model compute the first rows of their halo themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from halowire.errors import InputError
from halowire.events import SETUP
from halowire.launch import Place
from halowire.pyg.data_part import ShardData
from halowire.pyg.hetero_data import HeteroShardData
from halowire.pyg.node_weights import NodeWeights
from halowire.pyg.own_savings import cover_of, travelling
from halowire.pyg.rehearsal import rehearse
from halowire.pyg.trial import Call, Rehearsed
from halowire.training import (
    ETHERNET,
    LOOPBACK,
    Config,
    FirstLayer,
    FirstRows,
    Savings,
    Spread,
    Surroundings,
    asked,
    chosen,
    epoch_bytes,
    home_price,
    policy_of,
)
from halowire.wire import BACKWARD, HEADER_BYTES, Rate, RowCodec

DRAWN = (
    "because its dropout would then draw by node instead of by torch's generator, and train to another result; "
    "--wire.first-layer local asks for that"
)
"""Why a model that drops values keeps its exchanges unless the settings ask."""
NO_ROWS = "because this model makes no rows of its features row by row or by a first sum with weights that stay"
SUMS_ANEW = "because its first layer sums features over edges or with weights that are made anew in every pass"
TYPED = "because rows of several types are sent by their owners"


def rehearsed_at_home(model: nn.Module, call: Call, most: int, weights: NodeWeights, config: Config) -> Rehearsed:
    """What is known of ``call``, with the rows of the halo computed at home where the settings ask for it.

    Where they leave it open, both ways are rehearsed, and :func:`settled_first` chooses.
    """
    several = call.data.transport.size > 1
    if several and config.wire.first_layer == "local":
        if isinstance(call.data, HeteroShardData):
            raise InputError(
                "--wire.first-layer local computes the first rows of the halo on every worker, but in a graph of "
                "several types owners send them; use --wire.first-layer exchange"
            )
        known = rehearse(model, call, most, weights, at_home=True)
        if known.widths and not known.saved:
            raise InputError(
                "--wire.first-layer local computes the first rows of the halo on every worker, but this model sends "
                "all of its rows all the same: what it makes of its features before its first rows travel does not "
                "work row by row, or it reads the features from data instead of an argument; leave it out"
            )
        if known.sums_anew:
            raise InputError(
                "--wire.first-layer local has the sums of features sent once, but a layer of this model sums them "
                "over edges or with weights that are made anew in every pass; pass data.edge_index and weights of data "
                "to it as they are, or use --wire.first-layer exchange"
            )
        return known
    known = rehearse(model, call, most, weights)
    if several and known.widths and not _settled(call.data, config) and _features(call) is not None:
        try:
            home = rehearse(model, call, most, weights, at_home=True, enough=_keeps_its_rows)
        except InputError:
            return known  # nobody asked for what cannot be
        return replace(known, at_home=home if home.saved else None)
    return known


def settled_first(known: Rehearsed, call: Call, config: Config, codec: RowCodec | None) -> Rehearsed:
    """What is known of the way that is taken, with the choice; all workers call this together."""
    part = call.data
    if part.transport.size == 1:
        return known
    choice, home = _settled(part, config), known.at_home
    if choice is None and isinstance(part, ShardData):
        found = (False, False, False) if home is None else (True, home.drawn, home.sums_anew)
        counts = torch.tensor(found, dtype=torch.int64)
        able, drawn, anew = part.transport.all_reduce(counts, "choice of the first layer", SETUP).tolist()
        if able < part.transport.size or home is None:
            choice = FirstLayer(False, NO_ROWS)
        elif drawn or anew:
            choice = FirstLayer(False, DRAWN if drawn else SUMS_ANEW)
        else:
            choice = _priced(known, home, call, part, config, codec)
    taken = home if choice is not None and choice.at_home and home is not None else known
    return replace(taken, at_home=None, first=choice)


def _keeps_its_rows(home: Rehearsed) -> bool:
    """Whether a model that is called so is left as it is, whatever that costs."""
    return home.drawn or home.sums_anew or not home.saved


def _settled(part: ShardData | HeteroShardData, config: Config) -> FirstLayer | None:
    """The choice that needs no price; None where the price decides."""
    if config.wire.first_layer == "local":
        return FirstLayer(True, "as --wire.first-layer local asks")
    choice = asked(config)
    if choice is None and isinstance(part, HeteroShardData):
        return FirstLayer(False, TYPED)
    return choice


def _features(call: Call) -> Tensor | None:
    """The first features of the call, ``[n, F]``, whose halo rows are kept."""
    return next((value for name in call.kept_names if (value := call.samples[name][1]).dim() == 2), None)


def _priced(
    known: Rehearsed, home: Rehearsed, call: Call, part: ShardData, config: Config, codec: RowCodec | None
) -> FirstLayer:
    """The choice by predicted cost."""
    features = _features(call)
    assert features is not None
    shard = replace(part.shard, x=features.detach().as_subclass(Tensor).cpu().float())
    # Several exchanges may be saved: with them their products, forward and backward.
    rows = FirstRows(sum(home.saved), 0, multiplies=False, sums=home.summed, loops=False, own=True, kept=True)
    place = Place.here()
    one_machine = place.local_size == place.size and part.transport.machines.count == 1
    link = config.wire.link or (LOOPBACK if one_machine else ETHERNET)
    around = Surroundings(link, on_cpu=part.passing.device.type == "cpu")
    price = home_price(shard, rows, _saved(known, home, part, config, codec), None, part.transport, around)
    return chosen(config, price)


def _saved(
    known: Rehearsed, home: Rehearsed, part: ShardData, config: Config, codec: RowCodec | None
) -> tuple[int, int]:
    """Bytes of the exchanges that are not needed, in the middle of the run: on the network, and within machines."""
    used = config.replace({"wire.first_layer": "exchange", "wire.link": 0.0})
    cover = cover_of(known, part, config)
    rows, pairs, _ = travelling(known, part, Savings(cover), used.rate.rows)
    policy = policy_of(used, known.widths, rows, pairs=pairs)
    epoch = 0 if policy.base is not None else config.epochs // 2
    returns = policy.freshness.sends(BACKWARD)

    def rates(layer: int, direction: str) -> Rate:
        return replace(policy.rates(epoch, layer, direction), graded=False)

    over, within = 0.0, 0.0
    for number in _numbers(known.widths, home.saved):
        covered = cover.used and number in known.sums
        counts = part.shard.cover_counts() if covered else part.shard.recv_counts
        spread = Spread.of(part.shard, counts, part.transport, policy.once_per_machine)
        width, travel = known.widths[number - 1], rows[number - 1]
        sums = cover.sums if covered else 0
        every = epoch_bytes(rates, {number: width}, travel, returns=returns, sums=sums)
        if codec is not None:
            every = travel * codec.row_bytes(width) * (1 + returns)
        header = HEADER_BYTES * (1 + returns)
        over += every * spread.over + header * spread.over_pairs
        within += every * spread.within + header * spread.within_pairs
    return round(over), round(within)


def _numbers(widths: Sequence[int], saved: Sequence[int]) -> list[int]:
    """The numbers, from 1, of the exchanges of ``widths`` columns that ``saved`` leaves out, the first that fit."""
    left, found = list(saved), []
    for number, width in enumerate(widths, 1):
        if width in left:
            left.remove(width)
            found.append(number)
    return found
