"""Seconds of a minimum vertex cover on bipartite graphs of ten million edges: python -m bench.bytes.cover_seconds."""

from __future__ import annotations

import time
from collections.abc import Iterator

import torch
from torch import Tensor

from halowire.kernels import Csr, minimum_cover

EDGES = 10_000_000


def graphs() -> Iterator[tuple[str, Tensor, Tensor, int]]:
    """Of every graph: its name, the left and the right end of its edges, and the number of nodes on each side.

    Random graphs of few edges per node are the hard ones: many nodes stay free, and paths to free ones are long.
    """
    draw = torch.Generator().manual_seed(0)
    for degree in (2.5, 3, 4, 8):
        nodes = int(EDGES / degree)
        ends = (torch.randint(nodes, (EDGES,), generator=draw) for _ in range(2))
        yield f"random, {degree} edges per node", *ends, nodes
    nodes = 2_000_000
    ends = ((torch.rand(EDGES, generator=draw).pow(3) * nodes).long() for _ in range(2))
    yield "power law", *ends, nodes


def main() -> None:
    """Print the nodes of the cover and the seconds of every graph, on one thread."""
    torch.set_num_threads(1)
    for name, left, right, nodes in graphs():
        matrix = Csr.from_edges(left, right, nodes, nodes)
        start = time.perf_counter()
        covered = minimum_cover(matrix)
        seconds = time.perf_counter() - start
        others = torch.unique(matrix.indices.long()[~covered[matrix.row_index().long()]]).numel()
        print(f"{name}: {int(covered.sum()) + others:,} nodes cover {matrix.nnz:,} edges, {seconds:.1f} s", flush=True)


if __name__ == "__main__":
    main()
