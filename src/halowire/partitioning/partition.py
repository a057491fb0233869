"""Who owns which node: one entry point over all partitioners."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.graph import Graph, checked_seed
from halowire.kernels import Csr
from halowire.partitioning.metis import metis_owners
from halowire.partitioning.one_pass import random_owners, range_owners, stream_owners

METHODS = {"metis": {"objective", "recursive", "balance"}, "random": set(), "range": set(), "stream": {"slack"}}
"""The partitioners by name, and the options that each takes."""
METIS_WAYS = {"auto": None, "recursive": True, "kway": False}
"""How METIS divides a graph, by the setting's name: whether by recursive bisection, or None where METIS chooses."""


@dataclass(frozen=True, eq=False)
class Partition:
    """An owner for every node.

    Attributes:
        owner: int64 ``[N]``, values in ``0..num_parts-1``.
        num_parts: number of parts.
        method: the partitioner's name.
        seed: the seed it was given.
        metis: for the method ``metis``, how it was to divide the graph: ``recursive``, ``kway`` or ``auto``.
        balance: for the method ``metis``, what parts were to be alike in: ``both`` nodes and edges, or ``nodes``.
    """

    owner: Tensor
    num_parts: int
    method: str = "given"
    seed: int = 0
    metis: str = "auto"
    balance: str = "both"

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


def partition(graph: Graph, parts: int, method: str = "metis", seed: int = 0, **options: Any) -> Partition:
    """Give every node of ``graph`` one of ``parts`` owners; no part is empty and equal calls give equal owners.

    Args:
        graph: the whole graph; direction, duplicates and self loops are all allowed.
        parts: number of parts, between 1 and the number of nodes.
        method: ``metis`` (smallest cut), ``stream`` (one pass, any size), ``range`` (node order), ``random``.
        seed: for the methods that draw random numbers, 0..2**63-1.
        options: ``metis``: ``objective`` ("cut", "volume"), ``recursive`` (bool), ``balance`` ("both", "nodes");
            ``stream``: ``slack`` (float).
    """
    try:
        parts = operator.index(parts)
    except TypeError:
        raise InputError(f"{parts!r} parts were asked for: give a whole number") from None
    seed = checked_seed(seed)
    if parts < 1:
        raise InputError(f"{parts} parts were asked for: give 1 or more")
    if parts > graph.num_nodes:
        raise InputError(
            f"{parts} parts were asked for, but the graph has {graph.num_nodes} nodes: use at most one part per node"
        )
    if method not in METHODS:
        raise InputError(f"partition method {method!r} is unknown: use one of {', '.join(METHODS)}")
    adj = graph.adj
    methods: dict[str, Callable[..., Tensor]] = {
        "metis": lambda **given: metis_owners(adj, parts, seed, **given),
        "random": lambda: random_owners(adj, parts, seed),
        "range": lambda: range_owners(adj, parts),
        "stream": lambda **given: stream_owners(adj, parts, **given),
    }
    if unknown := sorted(options.keys() - METHODS[method]):
        takes = ", ".join(sorted(METHODS[method])) or "no options"
        raise InputError(f"partition method {method!r} does not take {', '.join(unknown)}: it takes {takes}")
    owner = torch.zeros(graph.num_nodes, dtype=torch.int64) if parts == 1 else methods[method](**options)
    asked = next(name for name, recursive in METIS_WAYS.items() if recursive is options.get("recursive"))
    return Partition(fill_empty(owner, parts, adj), parts, method, seed, asked, options.get("balance", "both"))


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
