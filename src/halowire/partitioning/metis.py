"""METIS owners: multilevel partitioning with a small edge cut, through pymetis."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pymetis
import torch
from numpy.typing import NDArray
from torch import Tensor

from halowire.errors import InputError
from halowire.kernels import Csr
from halowire.partitioning.in_child import in_child
from halowire.partitioning.node_cost import integer_weight
from halowire.partitioning.simple_graph import simple_undirected

# pymetis's own choice: up to this number of parts recursive bisection cuts fewer edges; beyond it k-way scales better.
MOST_PARTS_RECURSIVE = 8
LONG = 1 << 20
"""From so many entries on METIS may take longer than somebody who has pressed Ctrl-C wants to wait."""


def metis_owners(
    adj: Csr,
    parts: int,
    seed: int,
    objective: Literal["cut", "volume"] = "cut",
    recursive: bool | None = None,
    edges: float = 1.0,
) -> Tensor:
    """Owners from METIS on the simple undirected graph of ``adj``; int64 ``[N]``, possibly with empty parts.

    Args:
        adj: ``[N, N]``; directions, duplicates, self loops and weights are ignored.
        parts: number of parts, at least 2.
        seed: seed of METIS's random numbers.
        objective: ``cut`` minimises cut edges, ``volume`` the rows sent (k-way only).
        recursive: recursive bisection or k-way; by default recursive up to 8 parts.
        edges: weight of all edges, where all nodes together weigh 1; parts are alike in the sum. With 0 they are alike
            in nodes alone, mostly with fewer halo rows.
    """
    if objective not in ("cut", "volume"):
        raise InputError(f"objective {objective!r} is unknown to metis: use 'cut' or 'volume'")
    if objective == "volume" and recursive:
        raise InputError("metis minimises volume only by k-way partitioning: drop recursive or use objective 'cut'")
    if recursive is None:
        recursive = objective == "cut" and parts <= MOST_PARTS_RECURSIVE
    width = np.dtype(pymetis.zero_copy_dtype())
    limit = int(np.iinfo(width).max)
    # Checked before anything is built: the undirected graph has at most twice the entries.
    simple = simple_undirected(adj) if adj.nnz <= limit else None
    if simple is None or simple.nnz > limit or adj.num_rows > limit // 4:
        raise InputError(
            f"the graph ({adj.num_rows} nodes, {adj.nnz} edges) is too large for METIS with {8 * width.itemsize}-bit "
            "integers: use method 'kaminpar' or 'stream'"
        )
    if simple.nnz == 0:
        return torch.arange(adj.num_rows) * parts // adj.num_rows
    options = pymetis.Options(seed=seed % 2**31)
    if objective == "volume":
        options.objtype = pymetis.ObjType.VOL
    arrays = (array.numpy().astype(width, copy=False) for array in (simple.indptr, simple.indices))
    adjacency = pymetis.CSRAdjacency(*arrays)
    weights = integer_weight(adj, edges, limit).astype(width, copy=False) if edges else None

    def owners() -> NDArray[np.int64]:
        _, found = pymetis.part_graph(parts, adjacency, vweights=weights, recursive=recursive, options=options)
        return np.asarray(found, dtype=np.int64)

    return torch.from_numpy(in_child(owners, adj.num_rows) if simple.nnz >= LONG else owners())
