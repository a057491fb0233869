"""KaMinPar owners: a cut like METIS's in a fraction of its memory, for graphs that METIS cannot hold."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.kernels import Csr
from halowire.partitioning.kaminpar_file import write_parhip
from halowire.partitioning.needed_package import require_package
from halowire.partitioning.node_cost import SLACK, integer_weight
from halowire.partitioning.simple_graph import simple_undirected

# Several threads would find another partition in every run.
ONE_THREAD = 1
LIMIT = int(np.iinfo(np.int32).max)


def kaminpar_owners(adj: Csr, parts: int, seed: int, edges: float = 1.0) -> Tensor:
    """Owners with a small edge cut on the simple undirected graph of ``adj``; int64 ``[N]``, possibly with empty parts.

    Args:
        adj: ``[N, N]``; directions, duplicates, self loops and weights are ignored.
        parts: number of parts, at least 2.
        seed: seed of the random numbers.
        edges: weight of all edges, where all nodes together weigh 1.
    """
    require_package("kaminpar", "kaminpar")
    import kaminpar

    if adj.num_rows > LIMIT // 4:
        raise InputError(f"the graph has {adj.num_rows} nodes, too many for KaMinPar: use method 'stream'")
    simple = simple_undirected(adj)
    if simple.nnz == 0:
        return torch.arange(adj.num_rows) * parts // adj.num_rows
    # The package takes graphs from files only.
    with tempfile.TemporaryDirectory(prefix="halowire-kaminpar-") as folder:
        path = Path(folder) / "graph.parhip"
        write_parhip(path, simple, integer_weight(adj, edges, LIMIT))
        graph = kaminpar.load_graph(str(path), kaminpar.GraphFileFormat.PARHIP)
    kaminpar.reseed(seed % 2**31)
    solver = kaminpar.KaMinPar(ONE_THREAD, kaminpar.default_context())
    return torch.tensor(solver.compute_partition(graph, parts, SLACK), dtype=torch.int64)
