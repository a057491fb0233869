"""What scripts ask PyG's ``Data``: the graph answers as a whole, and the rest is this worker's part.

Questions about the whole graph are asked by all workers together, as every other step of the training loop is.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.events import SETUP
from halowire.kernels import row_keys
from halowire.pyg.edges import Edges, unmarked
from halowire.pyg.own_rows import plain

if TYPE_CHECKING:
    from halowire.partitioning import Shard
    from halowire.pyg.bridge import Bridge
    from halowire.pyg.model_pass import ModelPass

WHOLE_ONLY = frozenset({
    "coalesce", "sort", "subgraph", "edge_subgraph", "to_heterogeneous", "to_homogeneous", "connected_components",
    "is_sorted", "is_coalesced", "sort_by_time", "snapshot", "up_to", "concat", "update", "coo", "csr", "csc",
    "generate_ids", "from_dict", "debug",
})  # fmt: skip
"""Methods of PyG's ``Data`` that change the graph, or ask for the order of all its edges."""
STREAM = 302
"""The stream of random numbers by which edges and their reverse are compared."""


class Names(tuple[str, ...]):
    """The names of a part's tensors; ``data.keys`` and ``data.keys()`` both give them."""

    __slots__ = ()

    def __call__(self) -> Names:
        """Return the names, as PyG's method does."""
        return self


class DataHabits:
    """The attributes and methods of PyG's ``Data`` that scripts use."""

    tensors: dict[str, Any]
    shard: Shard
    bridge: Bridge
    passing: ModelPass

    @property
    def num_nodes(self) -> int:
        """The nodes of this worker; `num_whole_nodes` are those of the whole graph."""
        return self.shard.num_owned

    @property
    def keys(self) -> Names:
        """The names of the tensors."""
        return Names(name for name, value in self.tensors.items() if value is not None)

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def __setitem__(self, name: str, value: Any) -> None:
        setattr(self, name, value)

    def __contains__(self, name: object) -> bool:
        return name in self.keys

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        """The names and the tensors."""
        return iter(self.to_dict().items())

    def __call__(self, *names: str) -> Iterator[tuple[str, Any]]:
        """The names and the tensors, of the given ``names`` only where there are any."""
        return ((name, value) for name, value in self if not names or name in names)

    def __len__(self) -> int:
        """The number of tensors, as in PyG."""
        return len(self.keys)

    def get(self, name: str, default: Any = None) -> Any:
        """The tensor ``name``, or ``default`` where there is none."""
        return self.tensors.get(name, default)

    def to_dict(self) -> dict[str, Any]:
        """The tensors by their names."""
        return {name: self.tensors[name] for name in self.keys}

    def to_namedtuple(self) -> Any:
        """The tensors as a named tuple."""
        return namedtuple("DataTuple", self.keys)(*self.to_dict().values())

    def node_attrs(self) -> list[str]:
        """The names of the tensors with one row for each of this worker's nodes."""
        return [name for name, value in self if _extent(value) == self.num_nodes and not isinstance(value, Edges)]

    def edge_attrs(self) -> list[str]:
        """The names of the tensors of this worker's edges."""
        count = self.num_edges
        return [name for name, value in self if name == "edge_index" or _extent(value) == count != self.num_nodes]

    @property
    def num_edges(self) -> int:
        """The edges into this worker's nodes; `num_whole_edges` are those of the whole graph."""
        edges: Tensor = self.tensors["edge_index"]
        return edges.shape[1]

    @property
    def num_whole_edges(self) -> int:
        """The edges of the whole graph."""
        return int(self._sum(torch.tensor([self.num_edges])))

    @property
    def num_whole_nodes(self) -> int:
        """The nodes of the whole graph; ``num_nodes`` are this worker's."""
        return self.shard.num_nodes

    @property
    def num_node_features(self) -> int:
        """The columns of ``x``."""
        return _width(self.tensors.get("x"))

    num_features = num_node_features

    @property
    def num_edge_features(self) -> int:
        """The columns of ``edge_attr``."""
        return _width(self.tensors.get("edge_attr"))

    @property
    def num_node_types(self) -> int:
        """The kinds of nodes of the whole graph, as ``node_type`` numbers them."""
        return self._kinds("node_type")

    @property
    def num_edge_types(self) -> int:
        """The kinds of edges of the whole graph, as ``edge_type`` numbers them."""
        return self._kinds("edge_type")

    @property
    def num_classes(self) -> int:
        """The classes of the whole graph: one more than the largest label, or the columns of ``y`` ``[n, C]``."""
        y = self.tensors.get("y")
        if not isinstance(y, Tensor):
            return 0
        return y.shape[1] if y.dim() > 1 and y.shape[1] > 1 else 1 + self._largest(y)

    def size(self, dim: int | None = None) -> Any:
        """``(n, n)``, the extents of this worker's part, as PyG gives those of a graph."""
        extents = (self.num_nodes, self.num_nodes)
        return extents if dim is None else extents[dim]

    def has_self_loops(self) -> bool:
        """Whether a node of the whole graph has an edge to itself."""
        ends = unmarked(self.tensors["edge_index"])
        return bool(self._sum((ends[0] == ends[1]).any().long().reshape(1).cpu()))

    contains_self_loops = has_self_loops

    def has_isolated_nodes(self) -> bool:
        """Whether a node of the whole graph has no edge but to itself."""
        ends = unmarked(self.tensors["edge_index"])
        ends = ends[:, ends[0] != ends[1]]
        held = torch.zeros(self.num_nodes + self.bridge.num_halo, dtype=torch.int64, device=ends.device)
        held.index_fill_(0, ends.reshape(-1), 1)
        # Another worker may hold the only edges of a node: those that leave it.
        touched = self.bridge.collect(held, 0)
        return bool(self._sum((touched == 0).any().long().reshape(1).cpu()))

    contains_isolated_nodes = has_isolated_nodes

    def is_undirected(self) -> bool:
        """Whether every edge of the whole graph has its reverse, as often and with the same ``edge_attr`` or weight.

        ``sum of h(u, v, a) over edges = sum of h(v, u, a)`` for a random function ``h`` into 64 bits.
        """
        ends = torch.cat([self.shard.ids, self.shard.halo_ids])[unmarked(self.tensors["edge_index"]).cpu()]
        first, second = row_keys(0, 0, 0, ends.reshape(-1), STREAM).view(2, -1)
        forth = row_keys(0, 1, 0, first ^ ends[1], STREAM)
        back = row_keys(0, 1, 0, second ^ ends[0], STREAM)
        for name in ("edge_attr", "edge_weight"):
            for column in _columns(self.tensors.get(name)):
                forth, back = (row_keys(0, 2, 0, keys ^ column, STREAM) for keys in (forth, back))
        forth, back = self._sum(torch.stack([forth.sum(), back.sum()]))
        return bool(forth == back)

    def is_directed(self) -> bool:
        """Whether some edge of the whole graph has no reverse."""
        return not self.is_undirected()

    def validate(self, raise_on_error: bool = True) -> bool:
        """True: a graph is checked when it is cut."""
        return True

    def is_node_attr(self, name: str) -> bool:
        """Whether the tensor ``name`` has one row for each node."""
        return name in self.node_attrs()

    def is_edge_attr(self, name: str) -> bool:
        """Whether the tensor ``name`` has one row for each edge."""
        return name in self.edge_attrs()

    @property
    def is_cuda(self) -> bool:
        """Whether the part lies on a GPU."""
        return self.passing.device.type == "cuda"

    def to(self, device: Any, *names: str, non_blocking: bool = False) -> Self:
        """Return the part itself: `halowire.shard` has put it on its device. Another device is refused."""
        wanted = torch.device(device)
        if wanted.type != self.passing.device.type:
            raise InputError(
                f"data.to({str(wanted)!r}): this part lies on {self.passing.device}, with its connections; choose the "
                f"device when the graph is cut: halowire.shard(data, device={wanted.type!r})"
            )
        return self

    def cpu(self, *names: str) -> Self:
        """See :meth:`to`."""
        return self.to("cpu")

    def cuda(self, device: Any = "cuda", *names: str, non_blocking: bool = False) -> Self:
        """See :meth:`to`."""
        return self.to(device)

    def contiguous(self, *names: str) -> Self:
        """Return the part itself, whose tensors are contiguous."""
        return self

    def pin_memory(self, *names: str) -> Self:
        """Return the part itself: it is where it is used."""
        return self

    share_memory_ = contiguous

    def apply(self, function: Callable[[Tensor], Tensor], *names: str) -> Self:
        """Replace every tensor of nodes and edges (or those of the given ``names``) by ``function(tensor)``."""
        for name, value in self(*names):
            if isinstance(value, Tensor) and not isinstance(value, Edges):
                setattr(self, name, function(value))
        return self

    def detach(self, *names: str) -> Self:
        """Detach every tensor."""
        return self.apply(Tensor.detach, *names)

    def requires_grad_(self, *names: str, requires_grad: bool = True) -> Self:
        """Ask for the gradients of the tensors of floats."""
        return self.apply(
            lambda value: value.requires_grad_(requires_grad) if value.is_floating_point() else value, *names
        )

    def clone(self, *names: str) -> Self:
        """A part of the same graph with tensors of its own; the connections are the same."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        copied = {name: value.clone() if isinstance(value, Tensor) else value for name, value in self.tensors.items()}
        twin.__dict__["tensors"] = copied
        return twin

    def __copy__(self) -> Self:
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.__dict__["tensors"] = dict(self.tensors)
        return twin

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self.clone()

    def _kinds(self, name: str) -> int:
        value = self.tensors.get(name)
        return 1 + self._largest(value) if isinstance(value, Tensor) else 1

    def _largest(self, value: Tensor) -> int:
        """The largest number in the ``value`` of any worker; -1 where there is none."""
        largest = torch.zeros(self.passing.transport.size, dtype=torch.int64)
        value = plain(value)
        largest[self.passing.transport.rank] = int(value.max()) if value.numel() else -1
        return int(self._sum(largest).max())

    def _sum(self, value: Tensor) -> Tensor:
        """The sum of all workers' ``value``."""
        return self.passing.transport.all_reduce(value, "question about the whole graph", SETUP)


def whole_only(name: str) -> InputError | None:
    """The refusal of PyG's method ``name`` where it needs the whole graph; None for other names."""
    if name not in WHOLE_ONLY:
        return None
    return InputError(
        f"data.{name} needs the whole graph, and this is one worker's part; call it before halowire.shard cuts it"
    )


def _extent(value: Any) -> int:
    """The rows of a tensor; -1 for anything else."""
    return value.shape[0] if isinstance(value, Tensor) and value.dim() else -1


def _width(value: Any) -> int:
    """The columns of a tensor, one where it has a single number per row, none where there is no tensor."""
    if not isinstance(value, Tensor):
        return 0
    return 1 if value.dim() == 1 else value.shape[-1]


def _columns(value: Any) -> Iterator[Tensor]:
    """The columns of an edge tensor as whole numbers that are equal where the values are."""
    if isinstance(value, Tensor):
        rows = value.detach().cpu().reshape(value.shape[0], -1)
        for column in rows.t():
            yield column.double().contiguous().view(torch.int64)
