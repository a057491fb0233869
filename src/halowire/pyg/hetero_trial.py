"""The rehearsal of a model on several node types: its call is repeated on a random graph of the same types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.partitioning import is_by_target, target_order
from halowire.pyg.edges import Edges, unmarked
from halowire.pyg.held_edges import Kind
from halowire.pyg.hetero_data import HeteroShardData, halo_name
from halowire.pyg.own_rows import plain
from halowire.pyg.pair_trial import NAME, draw_pairs, pairs_of
from halowire.pyg.pairs import Pairs, pair_names, refuse_ends
from halowire.pyg.row_numbers import TypedRows
from halowire.pyg.slots import Slot

if TYPE_CHECKING:
    from halowire.pyg.trial import Call, Size

STEP = 3
"""How many nodes more each type has than the one before, so that their numbers tell the types apart."""
SHARE = 0.4
"""Share of the first type's nodes that belong to the second part."""


class HeteroSlots:
    """Replaces the tensors of a call by slots, and collects them with the type of their nodes or edges.

    A tensor of the part is known by itself; any other one by the dictionary that it stands in, or by its rows.
    ``doubt`` says why the call must be refused; None where it need not be.
    """

    def __init__(self, data: HeteroShardData) -> None:
        self.samples: dict[str, tuple[Any, Tensor]] = {}
        self.doubt: InputError | None = None
        self._data = data
        self._extents: dict[Kind, int] = {name: rows.numel() for name, rows in data.shard.rows.items()}
        self._extents |= {kind: relation.edges.numel() for kind, relation in data.shard.relations.items()}
        self._known = {
            id(value): (kind, name)
            for kind in self._extents
            for name, value in data[kind].items()
            if isinstance(value, Tensor)
        }

    def of(self, value: Any, key: Any = None) -> Any:
        """``value`` with a slot in place of every tensor of the graph, also inside tuples, lists and dictionaries."""
        if isinstance(value, HeteroShardData):
            for kind in self._extents:
                for name, found in value[kind].items():
                    if isinstance(found, Tensor) and not isinstance(found, Edges) and name != "rows":
                        self.samples[f"{kind}.{name}"] = kind, plain(found)
            return Slot("")
        if isinstance(value, Mapping):
            return {name: self.of(found, name) for name, found in value.items()}
        if isinstance(value, tuple | list):
            items = [self.of(found, key) for found in value]
            return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
        if isinstance(value, Edges):
            return Slot("edge_index", self._relation(value))
        if isinstance(value, Pairs):
            return self._pairs(value)
        return self._tensor(value, key) if isinstance(value, Tensor) and value.dim() else value

    def _relation(self, edges: Edges) -> Kind:
        named = getattr(edges.bridge, "name", None)
        for kind in self._data.shard.relations:
            if halo_name(kind) == named and len(edges.sources) == 2:
                return kind
        raise InputError(
            "the model is called with edges that are not those of one edge type; pass data.edge_index_dict or "
            "data[edge type].edge_index, and join them in its forward"
        )

    def _pairs(self, value: Pairs) -> Slot:
        """A slot for pairs of nodes, which stand at the first edge type that joins their types."""
        refuse_ends(value)
        names = value.places[0].name, value.places[-1].name
        kind, name = self._known.get(id(value), (None, ""))
        if kind is None:
            # Pairs of types that no edge joins have nowhere to stand in the random graph.
            kind = next((found for found in self._data.shard.relations if (found[0], found[2]) == names), None)
            name = f"sample{len(self.samples)}_{NAME}"
        if kind is None:
            raise InputError(
                f"the model is called with pairs of {names[0]!r} and {names[1]!r}, which no edge type joins; score "
                "them by its output: z = model.encode(x_dict, edge_index_dict), then model.decode(z, pairs)"
            )
        self.samples[f"{kind}.{name}"] = kind, value
        return Slot(name, kind)

    def _tensor(self, value: Tensor, key: Any) -> Any:
        kind, known = self._known.get(id(value), (key, ""))
        if isinstance(kind, tuple) and kind in self._data.shard.relations:
            pairs = pair_names(dict(self._data[kind].items())).get(known, known)
            if pairs != known:  # labels of pairs
                self._pairs(self._data[kind][pairs])
                self.samples[f"{kind}.{known}"] = kind, value
                return Slot(known, kind)
        if kind not in self._extents or value.shape[0] != self._extents[kind]:
            fitting = [name for name, extent in self._extents.items() if extent == value.shape[0]]
            if len(fitting) > 1:
                # Only this worker may have types of equal numbers: all workers refuse it together, in the rehearsal.
                self.doubt = InputError(
                    f"the model is called with a tensor of {value.shape[0]} rows, which may be {fitting[0]!r} or "
                    f"{fitting[1]!r}; pass it in a dictionary by type, or keep it in data[type] and pass it from there"
                )
                return value
            if not fitting:
                return value
            kind = fitting[0]
        name = f"sample{len(self.samples)}"
        self.samples[f"{kind}.{name}"] = kind, plain(value)
        return Slot(name, kind)


def draw_hetero(call: Call, generator: torch.Generator, size: Size) -> tuple[Any, dict[str, Tensor]]:
    """A random ``HeteroData`` of the same types, and random owners; its rows are sampled from the real graph."""
    data: Any = call.data

    def draw(high: int, *shape: int) -> Tensor:
        return torch.randint(max(high, 1), shape, generator=generator)

    graph = type(data.store)()
    owner = {}
    for place, name in enumerate(data.node_types):
        graph[name].num_nodes = size.nodes + STEP * place
        second = int(SHARE * size.nodes) + place
        owner[name] = torch.zeros(size.nodes + STEP * place, dtype=torch.int64)
        owner[name][torch.randperm(owner[name].numel(), generator=generator)[:second]] = 1
    for place, kind in enumerate(data.edge_types):
        counts = graph[kind[0]].num_nodes, graph[kind[2]].num_nodes
        first = int(SHARE * size.edges) + 2 * place
        ends = torch.stack([
            draw(counts[0], size.edges + 2 * STEP * place),
            _drawn_targets(owner[kind[2]], size.edges + 2 * STEP * place, first, generator),
        ])  # fmt: skip
        real = unmarked(data[kind].edge_index)
        if kind[0] == kind[2] and not bool((real[0] == real[1]).any()):
            ends[0] = torch.where(ends[0] == ends[1], (ends[0] + 1) % counts[0], ends[0])
        graph[kind].edge_index = ends[:, target_order(ends)] if is_by_target(real) else ends
    above = max(graph[name].num_nodes for name in data.node_types)
    above += max(graph[kind].edge_index.shape[1] for kind in data.edge_types)
    pairs = {label: kind for label, (kind, value) in call.samples.items() if isinstance(value, Pairs)}
    for place, (label, kind) in enumerate(pairs.items()):
        drawn = draw_pairs(owner[kind[0]], graph[kind[2]].num_nodes, above, place, generator)
        graph[kind][label.removeprefix(f"{kind}.")] = drawn
    for label, (kind, value) in call.samples.items():
        if label in pairs:
            continue
        count = graph[kind].num_nodes if isinstance(kind, str) else graph[kind].edge_index.shape[1]
        of = pairs_of(label, pairs)
        if of is not None:
            count = graph[kind][of.removeprefix(f"{kind}.")].shape[1]
        graph[kind][label.removeprefix(f"{kind}.")] = sampled_rows(value, count, isinstance(kind, str), generator)
    return graph, owner


def _drawn_targets(owner: Tensor, count: int, second: int, generator: torch.Generator) -> Tensor:
    """``count`` random nodes in random order, ``second`` of them of the second part."""
    pieces = []
    for part, wanted in enumerate((count - second, second)):
        nodes = (owner == part).nonzero()[:, 0]
        pieces.append(nodes[torch.randint(nodes.numel(), (wanted,), generator=generator)])
    return torch.cat(pieces)[torch.randperm(count, generator=generator)]


def sampled_rows(value: Tensor, count: int, is_node: bool, generator: torch.Generator) -> Tensor:
    """``count`` rows drawn from ``value``; rows of nodes are made different."""
    if not value.shape[0]:
        return torch.ones(count, *value.shape[1:], dtype=value.dtype)
    chosen = torch.randint(value.shape[0], (count,), generator=generator)
    rows = value.detach()[chosen].cpu().clone()
    if is_node and rows.is_floating_point():
        # If all rows of a small part were equal, a norm would divide by rounding.
        rows *= 0.5 + torch.rand(rows.shape, generator=generator)
    return rows


def turn_hetero(graph: Any) -> Any:
    """The same graph with the nodes of every type numbered backwards."""
    turned = type(graph)()
    for name in graph.node_types:
        for key, value in graph[name].items():
            turned[name][key] = value.flip(0) if isinstance(value, Tensor) else value
    for kind in graph.edge_types:
        last = torch.tensor([[graph[kind[0]].num_nodes - 1], [graph[kind[2]].num_nodes - 1]])
        ends = last - graph[kind].edge_index
        sort = is_by_target(graph[kind].edge_index)
        order = target_order(ends) if sort else torch.arange(ends.shape[1])
        paired = pair_names(dict(graph[kind].items()))
        for key, value in graph[kind].items():
            if key in paired:
                turned[kind][key] = last - value if paired[key] == key else value
            elif key != "edge_index":
                turned[kind][key] = value[order] if isinstance(value, Tensor) else value
        turned[kind].edge_index = ends[:, order]
    return turned


def part_rows(part: HeteroShardData) -> TypedRows:
    """Which rows of the whole random graph a part holds."""
    return TypedRows(part.shard.rows, part.shard.num_nodes)


def whole_rows(graph: Any) -> TypedRows:
    """All rows of a whole random graph."""
    return TypedRows.whole({name: graph[name].num_nodes for name in graph.node_types})
