"""The choice of a partitioner by the size of the graph, with the reason in words."""

from __future__ import annotations

from halowire.inputs import memory_bytes
from halowire.kernels import Csr
from halowire.partitioning.needed_package import is_installed

HYPERGRAPH_EDGES = 3_000_000
"""Up to so many edges hypergraph partitioning ends within about half a minute."""
METIS_BYTES = 128
"""Memory that METIS takes for an edge: it needed 3.7 GiB for 31 million edges."""
INSTALL = "pip install 'halowire[partition]'"


def chosen_method(adj: Csr) -> tuple[str, str]:
    """The method for a graph of this size, and why: hypergraph, METIS, KaMinPar or streaming, in this order."""
    size = f"the graph has {adj.nnz:,} edges"
    lacking = ""
    if adj.nnz <= HYPERGRAPH_EDGES:
        if is_installed("mtkahypar"):
            return "hypergraph", f"hypergraph, the fewest halo rows: {size}, at most {HYPERGRAPH_EDGES:,}"
        lacking = f"; with Mt-KaHyPar ({INSTALL}) fewer rows would travel"
    needed, memory = METIS_BYTES * adj.nnz, memory_bytes()
    if needed <= memory // 2:
        return "metis", f"metis: {size}, and it takes {needed / 2**30:.1f} of {memory / 2**30:.1f} GiB{lacking}"
    too_large = f"{size}, for which METIS takes {needed / 2**30:.1f} of {memory / 2**30:.1f} GiB"
    if is_installed("kaminpar"):
        return "kaminpar", f"kaminpar: {too_large}"
    return "stream", f"stream: {too_large}; KaMinPar ({INSTALL}) would cut fewer edges"
