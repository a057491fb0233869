"""METIS owners: multilevel partitioning with a small edge cut, through pymetis."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pymetis
import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.kernels import Csr
from halowire.partitioning.one_pass import node_weight

# pymetis's own choice: up to this number of parts recursive bisection cuts fewer edges; beyond it k-way scales better.
MOST_PARTS_RECURSIVE = 8
# Integer steps per unit of node weight (whose mean is 2): rounding stays far below the tolerance of METIS.
WEIGHT_STEPS = 100


def metis_owners(
    adj: Csr,
    parts: int,
    seed: int,
    objective: Literal["cut", "volume"] = "cut",
    recursive: bool | None = None,
    balance: Literal["both", "nodes"] = "both",
) -> Tensor:
    """Owners from METIS on the simple undirected graph of ``adj``; int64 ``[N]``, possibly with empty parts.

    Args:
        adj: ``[N, N]``; directions, duplicates, self loops and weights are ignored.
        parts: number of parts, at least 2.
        seed: seed of METIS's random numbers.
        objective: ``cut`` minimises cut edges, ``volume`` the rows sent (k-way only).
        recursive: recursive bisection or k-way; by default recursive up to 8 parts.
        balance: ``both``: parts alike in nodes plus edges; ``nodes``: in nodes alone, mostly with fewer halo rows.
    """
    if balance not in ("both", "nodes"):
        raise InputError(f"balance {balance!r} is unknown to metis: use 'both' or 'nodes'")
    if objective not in ("cut", "volume"):
        raise InputError(f"objective {objective!r} is unknown to metis: use 'cut' or 'volume'")
    if objective == "volume" and recursive:
        raise InputError("metis minimises volume only by k-way partitioning: drop recursive or use objective 'cut'")
    if recursive is None:
        recursive = objective == "cut" and parts <= MOST_PARTS_RECURSIVE
    width = np.dtype(pymetis.zero_copy_dtype())
    limit = int(np.iinfo(width).max)
    # Checked before anything is built: the undirected graph has at most twice the entries.
    simple = _undirected(adj) if adj.nnz <= limit else None
    if simple is None or simple.nnz > limit or adj.num_rows > limit // 4:
        raise InputError(
            f"the graph ({adj.num_rows} nodes, {adj.nnz} edges) is too large for METIS with {8 * width.itemsize}-bit "
            "integers: use method 'stream'"
        )
    if simple.nnz == 0:
        return torch.arange(adj.num_rows) * parts // adj.num_rows
    options = pymetis.Options(seed=seed % 2**31)
    if objective == "volume":
        options.objtype = pymetis.ObjType.VOL
    arrays = (array.numpy().astype(width, copy=False) for array in (simple.indptr, simple.indices))
    _, owner = pymetis.part_graph(
        parts,
        pymetis.CSRAdjacency(*arrays),
        vweights=None if balance == "nodes" else _integer_weight(adj, limit).astype(width, copy=False),
        recursive=recursive,
        options=options,
    )
    return torch.from_numpy(np.asarray(owner, dtype=np.int64))


def _undirected(adj: Csr) -> Csr:
    """Both directions of every edge once, without self loops or weights."""
    row, col = adj.row_index(), adj.indices.to(torch.int64)
    proper = row != col
    row, col = row[proper], col[proper]
    both = Csr.from_edges(torch.cat([row, col]), torch.cat([col, row]), adj.num_rows, adj.num_rows)
    return both.distinct()


def _integer_weight(adj: Csr, limit: int) -> np.ndarray:
    """Node weights as positive integers with a sum below half of ``limit``, so that sums in METIS do not overflow."""
    weight = node_weight(adj)
    steps = min(float(WEIGHT_STEPS), limit / 2 / float(weight.sum()))
    return np.asarray((weight * steps).round().clamp(min=1).to(torch.int64).numpy())
