"""Hypergraph owners: as few halo rows as possible, through Mt-KaHyPar.

A node ``v`` is sent once to every other part that reads it. Let the net of ``v`` be ``v`` and all its readers; a
partition that spreads it over ``lambda_v`` parts sends ``lambda_v - 1`` rows of ``v``. The sum over all nodes,

    halo rows = sum_v (lambda_v - 1),

is the connectivity objective that hypergraph partitioners minimise: it *is* what travels, where cut edges only hint at
it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.kernels import Csr
from halowire.partitioning.needed_package import require_package
from halowire.partitioning.node_cost import SLACK, integer_weight

SCRIPT = Path(__file__).with_name("kahypar_script.py")
LIMIT = int(np.iinfo(np.int32).max)


def hypergraph_owners(adj: Csr, parts: int, seed: int, edges: float = 1.0) -> Tensor:
    """Owners with few halo rows; int64 ``[N]``, possibly with empty parts.

    Args:
        adj: ``[N, N]``; duplicates, self loops and weights are ignored.
        parts: number of parts, at least 2.
        seed: seed of the random numbers.
        edges: weight of all edges, where all nodes together weigh 1.
    """
    require_package("mtkahypar", "hypergraph")
    nets = readers(adj)
    if nets.nnz == 0:
        return torch.arange(adj.num_rows) * parts // adj.num_rows
    arrays = {"indptr": nets.indptr.numpy(), "pins": nets.indices.numpy(), "weight": integer_weight(adj, edges, LIMIT)}
    arrays |= {"numbers": np.array([parts, seed % 2**31]), "slack": np.array(SLACK)}
    with tempfile.TemporaryDirectory(prefix="halowire-hypergraph-") as folder:
        for name, array in arrays.items():
            np.save(Path(folder) / f"{name}.npy", array)
        # Without the folder of the script among the places from which modules are imported (-P).
        done = subprocess.run([sys.executable, "-P", str(SCRIPT), folder], capture_output=True, text=True, check=False)
        if done.returncode:
            why = (done.stderr.strip().splitlines() or [f"code {done.returncode}"])[-1]
            raise InputError(f"Mt-KaHyPar could not partition the graph ({why}): use method 'metis'")
        return torch.from_numpy(np.load(Path(folder) / "owner.npy", allow_pickle=False))


def readers(adj: Csr) -> Csr:
    """The nets, one in each row: every node that others read, and its readers, each once; ``[nets, N]``."""
    node = torch.arange(adj.num_rows)
    rows, columns = torch.cat([adj.indices.long(), node]), torch.cat([adj.row_index(), node])
    nets = Csr.from_edges(rows, columns, adj.num_rows, adj.num_rows).distinct()
    return nets.select_rows((nets.indptr.diff() > 1).nonzero().flatten())
