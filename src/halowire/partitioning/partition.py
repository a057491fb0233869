"""Who owns which node: one entry point over all partitioners."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.graph import Graph, checked_seed
from halowire.kernels import Csr
from halowire.partitioning.hypergraph import hypergraph_owners
from halowire.partitioning.kaminpar_owners import kaminpar_owners
from halowire.partitioning.method_choice import chosen_method
from halowire.partitioning.metis import metis_owners
from halowire.partitioning.one_pass import random_owners, range_owners, stream_owners
from halowire.partitioning.part_load import DEFAULT_WIDTHS
from halowire.partitioning.weightings import BALANCES, Teller, best_weighting

METIS_WAYS = {"auto": None, "recursive": True, "kway": False}
"""How METIS divides a graph, by the setting's name: whether by recursive bisection, or None where METIS chooses."""


@dataclass(frozen=True)
class Method:
    """A partitioner.

    Attributes:
        owners: gives every node of a matrix an owner, from the matrix, the number of parts, the seed and options.
        options: the names of its options.
        weighs: whether it takes a weight of all edges, the option ``edges``.
    """

    owners: Callable[..., Tensor]
    options: frozenset[str] = frozenset()
    weighs: bool = False


METHODS = {
    "metis": Method(metis_owners, frozenset({"objective", "recursive"}), weighs=True),
    "hypergraph": Method(hypergraph_owners, weighs=True),
    "kaminpar": Method(kaminpar_owners, weighs=True),
    "random": Method(random_owners),
    "range": Method(range_owners),
    "stream": Method(stream_owners, frozenset({"slack"})),
}
"""The partitioners by name."""
SLOW_EDGES = 500_000
"""From so many edges on, the user is told that a cut has begun: it may take a minute."""
AUTO = "auto"
"""The method that chooses one of the others by the size of the graph."""


@dataclass(frozen=True, eq=False)
class Partition:
    """An owner for every node.

    Attributes:
        owner: int64 ``[N]``, values in ``0..num_parts-1``.
        num_parts: number of parts.
        method: the partitioner's name.
        seed: the seed it was given.
        metis: for the method ``metis``, how it was to divide the graph: ``recursive``, ``kway`` or ``auto``.
        balance: for methods that weigh, what parts were to be alike in: ``both`` nodes and edges, ``nodes``, or
            ``auto``.
        asked: the name of the method that was asked for, which may be ``auto``.
        choices: what was tried, and why this method and this weighting were kept, in words.
    """

    owner: Tensor
    num_parts: int
    method: str = "given"
    seed: int = 0
    metis: str = "auto"
    balance: str = "auto"
    asked: str = "given"
    choices: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        owner = self.owner
        if owner.dtype != torch.int64 or owner.dim() != 1:
            raise InputError(f"owner is {owner.dtype} {list(owner.shape)}, but must be int64 with one entry per node")
        if owner.numel() and (int(owner.min()) < 0 or int(owner.max()) >= self.num_parts):
            raise InputError(
                f"owners run from {int(owner.min())} to {int(owner.max())}, but must lie in 0..{self.num_parts - 1}"
            )

    def require_fit(self, graph: Graph) -> None:
        """Refuse a graph of another number of nodes."""
        if self.owner.numel() != graph.num_nodes:
            raise InputError(
                f"the partition is for {self.owner.numel()} nodes, but the graph has {graph.num_nodes}: partition this "
                "graph"
            )

    def sizes(self) -> Tensor:
        """Nodes of every part, int64 ``[num_parts]``."""
        return torch.bincount(self.owner, minlength=self.num_parts)


def partition(
    graph: Graph,
    parts: int,
    method: str = "metis",
    seed: int = 0,
    *,
    widths: Sequence[int] = DEFAULT_WIDTHS,
    tell: Teller = lambda line: None,
    **options: Any,
) -> Partition:
    """Give every node of ``graph`` one of ``parts`` owners; no part is empty and equal calls give equal owners.

    Args:
        graph: the whole graph; direction, duplicates and self loops are all allowed.
        parts: number of parts, between 1 and the number of nodes.
        method: ``metis`` (small cut), ``hypergraph`` (fewest halo rows), ``kaminpar`` (small cut in little memory),
            ``stream`` (one pass, any size), ``range`` (node order), ``random``, or ``auto``, which chooses by size.
        seed: for the methods that draw random numbers, 0..2**63-1.
        widths: columns of the rows that the model will exchange, by which the memory of a part is predicted.
        tell: called with a line about every step of a cut that takes long.
        options: ``metis``, ``hypergraph``, ``kaminpar``: ``balance`` ("auto", "both", "nodes"); ``metis``:
            ``objective`` ("cut", "volume"), ``recursive`` (bool); ``stream``: ``slack`` (float).
    """
    parts, seed = _checked_parts(graph, parts), checked_seed(seed)
    if method not in (*METHODS, AUTO):
        raise InputError(f"partition method {method!r} is unknown: use one of {', '.join((*METHODS, AUTO))}")
    name, why = chosen_method(graph.adj) if method == AUTO else (method, "")
    how = METHODS[name]
    takes = how.options | ({"balance"} if how.weighs else set())
    if method == AUTO:
        options = {key: value for key, value in options.items() if key in takes}
    if unknown := sorted(options.keys() - takes):
        words = ", ".join(sorted(takes)) or "no options"
        raise InputError(f"partition method {name!r} does not take {', '.join(unknown)}: it takes {words}")
    balance = options.pop("balance", "auto")
    if balance not in BALANCES:
        raise InputError(f"balance {balance!r} is unknown: use one of {', '.join(BALANCES)}")
    if why:
        tell(f"partition   {why}")
    if how.weighs and graph.num_edges >= SLOW_EDGES and parts > 1:
        tell(f"partition   {name} cuts {graph.num_nodes:,} nodes and {graph.num_edges:,} edges into {parts} parts")
    owner, choices = _owners(graph, parts, how, seed, balance, options, widths, tell)
    asked = next(way for way, recursive in METIS_WAYS.items() if recursive is options.get("recursive"))
    said = ((why,) if why else ()) + choices
    return Partition(fill_empty(owner, parts, graph.adj), parts, name, seed, asked, balance, method, said)


def _checked_parts(graph: Graph, parts: int) -> int:
    """The number of ``parts``; refuses what is no whole number, too small, or more than the nodes."""
    try:
        parts = operator.index(parts)
    except TypeError:
        raise InputError(f"{parts!r} parts were asked for: give a whole number") from None
    if parts < 1:
        raise InputError(f"{parts} parts were asked for: give 1 or more")
    if parts > graph.num_nodes:
        raise InputError(
            f"{parts} parts were asked for, but the graph has {graph.num_nodes} nodes: use at most one part per node"
        )
    return parts


def _owners(
    graph: Graph,
    parts: int,
    how: Method,
    seed: int,
    balance: str,
    options: dict[str, Any],
    widths: Sequence[int],
    tell: Teller,
) -> tuple[Tensor, tuple[str, ...]]:
    """The owners, int64 ``[N]``, possibly with empty parts; and what was tried, in words."""
    adj = graph.adj
    if parts == 1:
        return torch.zeros(graph.num_nodes, dtype=torch.int64), ()
    if not how.weighs:
        return how.owners(adj, parts, seed, **options), ()

    def cut(edges: float) -> Tensor:
        return how.owners(adj, parts, seed, edges=edges, **options)

    return best_weighting(graph, parts, BALANCES[balance], widths, cut, tell)


def fill_empty(owner: Tensor, parts: int, adj: Csr) -> Tensor:
    """Give every empty part the lightest node (the last of equals) of the part that then has the most nodes.

    METIS leaves parts empty on tiny graphs; a worker without nodes would be useless, not wrong.
    """
    sizes = torch.bincount(owner, minlength=parts)
    empty = (sizes == 0).nonzero().flatten().tolist()
    if not empty:
        return owner
    owner, degree = owner.clone(), adj.indptr.diff()
    for part in empty:
        largest = int(sizes.argmax())
        members = (owner == largest).nonzero().flatten().flip(0)
        moved = members[degree[members].argmin()]
        owner[moved] = part
        sizes[largest] -= 1
        sizes[part] = 1
    return owner
