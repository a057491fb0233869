"""What a model is called with must fit together: its edges, its rows, and its weights with a row for each node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from halowire.errors import InputError
from halowire.pyg.cut_number import other_part
from halowire.pyg.data_part import ShardData
from halowire.pyg.hetero_data import HeteroShardData
from halowire.pyg.leaves import leaves
from halowire.pyg.outside_norms import refuse_outside_norms
from halowire.pyg.own_rows import OwnRows
from halowire.pyg.row_owner import Owner

Part = ShardData | HeteroShardData


def refuse_unfitting(given: Any, part: Part, home: Part, node_weights: Sequence[str]) -> None:
    """Refuse inputs of a pass over ``part`` that are rows of other nodes or were normed before, and weights of others.

    ``node_weights`` are cut like the graph ``home`` that the model was distributed on.
    """
    if part.transport.size == 1:
        return
    owners = _owners(part)
    refuse_outside_norms(leaf for leaf in leaves(given) if isinstance(leaf, Tensor))
    for leaf in leaves(given):
        if isinstance(leaf, OwnRows) and owners.get(leaf.owner.kind, leaf.owner).apart(leaf.owner):
            raise other_part("edges")
    if node_weights and part is not home and _owners(home)[None].apart(owners[None]):
        raise InputError(
            f"the model has weights with a row for each node ({', '.join(node_weights)}), of which every worker has "
            "those of its nodes in the graph that the model was distributed on, and is called with a graph that was "
            "cut otherwise; cut it alike: test_data = halowire.shard(graph, like=train_data)"
        )


def _owners(part: Part) -> dict[Any, Owner]:
    """Whose the rows of ``part`` are, by node type; None is the type of a graph of one type."""
    return {None: part.owner} if isinstance(part, ShardData) else dict(part.owners)
