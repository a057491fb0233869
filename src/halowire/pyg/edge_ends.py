"""The ends of a part's edges outside of a model: sums at targets are complete, draws of edges and reads of rows not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from halowire.errors import InputError
from halowire.pyg.own_rows import OwnEnds
from halowire.pyg.written import Asked

if TYPE_CHECKING:
    from halowire.pyg.bridge import Bridge
    from halowire.pyg.stacked import Stacked


def at_targets(values: Tensor, bridge: Bridge | Stacked) -> Tensor:
    """``values``, the targets of edges, marked as such outside of a pass; in one, every call is rehearsed."""
    owner = getattr(bridge, "edge_owner", None)
    if owner is None or owner.passing.serves or values.dim() != 1:
        return values
    found: Tensor = OwnEnds.of(values, owner)
    return found


def refuse_drawn(bridge: Bridge | Stacked) -> None:
    """Refuse edges that PyG's functions drop outside of a model."""
    passing = bridge.passing
    if passing.transport.size == 1 or passing.serves:
        return
    asked = Asked.here()
    if asked.function.startswith("dropout_"):
        raise InputError(
            f"{asked.words('')} draws on every worker by itself, outside of the model; drop edges in the model's "
            "forward: edge_index, edge_attr = self.drop(edge_index, edge_attr) with self.drop = halowire.DropEdges(p), "
            "or before halowire.shard"
        )
