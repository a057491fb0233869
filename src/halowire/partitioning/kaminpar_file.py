"""A graph as a ParHIP file, the binary format in which KaMinPar reads graphs."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from halowire.kernels import Csr

# Bits of the first number: no edge weights (1), node ids (8), node weights (16) and edge weights (32) of 32 bits.
KIND = 1 | 8 | 16 | 32
HEADER_BYTES = 24


def write_parhip(path: Path, graph: Csr, weight: np.ndarray) -> None:
    """Write the simple undirected ``graph`` ``[N, N]`` with the integer node ``weight`` ``[N]``.

    The header holds the kind, the number of nodes and the number of entries, 64 bits each. Then come, for every node
    and the end, the byte at which its neighbours begin, the neighbours, and the node weights.
    """
    begin = HEADER_BYTES + 8 * (graph.num_rows + 1)
    with path.open("wb") as file:
        np.array([KIND, graph.num_rows, graph.nnz], dtype=np.uint64).tofile(file)
        (begin + 4 * graph.indptr.numpy().astype(np.uint64)).tofile(file)
        graph.indices.numpy().astype(np.uint32, copy=False).tofile(file)
        weight.astype(np.int32).tofile(file)
