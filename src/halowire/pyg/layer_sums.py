"""A layer gets partial sums in the place of halo rows, where its edges and their weights stay the same.

Partial sums are added up by the sender with the weights of the edges, which the workers tell each other once. So they
serve a layer that gets the same edges and weights in every pass. A layer works out the weights from what it is called
with, so the arguments of the call are compared, by their memory: all workers run the same code, and so all of them find
the same arguments changed. Values, which differ from worker to worker, are never compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from inspect import signature
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from halowire.events import SETUP
from halowire.partitioning import Shard
from halowire.pyg.bridge import Bridge
from halowire.pyg.edges import unmarked
from halowire.pyg.model_pass import FIRST_EXACT, in_backward
from halowire.pyg.pattern import Weighted
from halowire.pyg.seen import version_of
from halowire.wire import Cover, Crossing

if TYPE_CHECKING:
    from torch import nn

NODE_ROWS = ("self", "x", "x_0")
"""Parameters of layers that are rows of nodes; all others say which edges are summed, and with which weights."""
WEIGHING = ("aggr", "improved", "add_self_loops", "normalize", "normalization")
"""Attributes of layers on which the weights of their edges depend."""
MOST_LISTS = 4
"""How often layers of a kind agree on partial sums, as for several lists of edges; rows travel for further ones."""
PLAIN = (bool, int, float, str, type(None))
CPU = torch.device("cpu")


@dataclass(frozen=True, eq=False)
class SteadyInputs:
    """What a layer was called with beside the rows of its nodes.

    Layers of one kind that are given the same sum with the same weights, and share their partial sums.

    Attributes:
        kind: the class of the layer.
        places: the version and the memory of every tensor.
        others: all other arguments, and what else the weights depend on, as text.
        kept: the tensors; as long as they are here, no others take their memory.
    """

    kind: str
    places: tuple[tuple[int, object], ...]
    others: str
    kept: tuple[Tensor, ...]

    @staticmethod
    def of(layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> SteadyInputs | None:
        """The arguments of a call of ``layer``; None where edges and weights may change although they do not."""
        named = dict(zip(signature(type(layer).forward).parameters, (layer, *args), strict=False)) | kwargs
        given = {name: value for name, value in named.items() if name not in NODE_ROWS}
        tensors = {name: value for name, value in given.items() if isinstance(value, Tensor)}
        others = {name: value for name, value in given.items() if name not in tensors}
        plain = all(isinstance(value, PLAIN) for value in others.values())
        drops = layer.training and getattr(layer, "dropout", 0) > 0  # weights of edges, in APPNP
        kept = tuple(tensors.values())
        places = tuple(_place(unmarked(value)) for value in kept)
        if drops or not plain or any(version < 0 for version, *_ in places):
            return None
        others |= {name: getattr(layer, name, None) for name in WEIGHING}
        return SteadyInputs(type(layer).__name__, places, repr(others), kept)

    def same(self, other: SteadyInputs | None) -> bool:
        """Whether ``other`` arguments are in the same memory, unchanged."""
        if other is None or not self.like(other) or len(self.kept) != len(other.kept):
            return False
        pairs = zip(self.kept, other.kept, self.places, other.places, strict=True)
        return all(mine[0] == its[0] if a is b else mine == its for a, b, mine, its in pairs)

    def like(self, other: SteadyInputs) -> bool:
        """Whether they are those of the same kind of layer."""
        return self.kind == other.kind and self.others == other.others


def _place(value: Tensor) -> tuple[int, object]:
    """How often ``value`` was changed, and its memory; also tensors without values have a place of their own."""
    memory = value.untyped_storage()._cdata, value.storage_offset(), tuple(value.shape), value.stride()
    return version_of(value), memory


@dataclass(frozen=True)
class Noted:
    """A sum that a layer asked other workers for in a rehearsal: the layer's name, its arguments, the exchange."""

    layer: str
    number: int
    given: SteadyInputs | None


@dataclass(frozen=True, eq=False)
class Agreed:
    """What the workers agreed on for one list of edges and weights.

    ``name`` names the exchange, ``edges`` are the matrices of what arrives.
    """

    name: str
    given: SteadyInputs
    cover: Cover
    edges: Weighted


class LayerSums:
    """The partial sums of the layer ``name``, and what it was ``given`` last."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.given: SteadyInputs | None = None

    def __deepcopy__(self, memo: dict[int, object]) -> LayerSums:
        """For a copied layer, which was not called yet."""
        return LayerSums(self.name)

    def note(self, layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Note what ``layer`` is called with, before its forward."""
        self.given = SteadyInputs.of(layer, args, kwargs)

    def routed(self, bridge: Bridge, crossing: Crossing, edges: Callable[[], Weighted]) -> tuple[Weighted, Crossing]:
        """The matrices and the crossing of a sum: those of partial sums where these travel, else of all halo rows.

        ``edges`` gives the matrices of the halo rows. Where partial sums are new, all workers agree on them here.
        """
        passing = bridge.passing
        if passing.noted is not None and not in_backward():
            passing.noted.append(Noted(self.name, crossing.number, self.given))
        exchanges, given = passing.exchanges, self.given
        if given is None or exchanges is None or self.name not in exchanges.summing or in_backward():
            return edges(), crossing
        alike = [one for one in bridge.agreed if one.given.like(given)]
        found = next((one for one in alike if one.given.same(given)), None)
        if found is None and len(alike) < MOST_LISTS:
            found = self._agree(bridge, given, edges(), exchanges.policy.once_per_machine)
        if found is None:
            return edges(), crossing
        with bridge.transport.ledger.account(SETUP):
            exchange = exchanges.summed(found.name, bridge.shard, found.cover)
        return found.edges, replace(crossing, exchange=exchange)

    def _agree(self, bridge: Bridge, given: SteadyInputs, edges: Weighted, once: bool) -> Agreed:
        """Agree with the other workers on the partial sums of ``edges``; ``once``: a machine gets a row once."""
        shard, device = bridge.shard, bridge.passing.device
        assert isinstance(shard, Shard)
        halo = edges.halo.to(CPU)
        with bridge.transport.ledger.account(SETUP):
            cover = Cover.agree(shard, halo, bridge.transport, once)
        arriving = cover.halo
        edges = replace(edges, halo=arriving.to(device), halo_t=arriving.transpose().to(device))
        number = sum(one.given.kind == given.kind for one in bridge.agreed)
        agreed = Agreed(f"{given.kind}:{number}", given, cover, edges)
        bridge.agreed.append(agreed)
        return agreed


def steady_sums(noted: list[list[Noted]]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The layers that asked for the same sums in each of some passes, and their coded exchanges in the first one."""
    found = []
    for name in dict.fromkeys(one.layer for one in noted[0]):
        asked = [[one.given for one in of if one.layer == name] for of in noted]
        first = asked[0]
        alike = all(len(other) == len(first) for other in asked)
        if alike and all(
            mine is not None and mine.same(theirs) for other in asked for mine, theirs in zip(first, other, strict=True)
        ):
            found.append(name)
    numbers = sorted({one.number for one in noted[0] if one.layer in found and one.number < FIRST_EXACT})
    return tuple(found), tuple(numbers)
