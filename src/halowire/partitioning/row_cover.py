"""Which halo rows travel themselves where the others travel as partial sums: a minimum vertex cover of the cut edges.

The edges from part ``p`` to part ``q`` join sources of ``p`` and destinations of ``q``. Part ``q`` gets all it needs if
every edge has its source's row sent, or its destination's sum: the sum over the destination's other sources in ``p``,
added up by ``p``. So as many rows suffice as a minimum vertex cover has nodes. It is given by its sources alone: the
destinations in it are those that read a source that is not in it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor

from halowire.kernels import Csr, minimum_cover, row_range


def covered_rows(halo: Csr, counts: Sequence[int]) -> Tensor:
    """The halo rows that travel themselves, bool ``[h]``.

    ``halo`` ``[n, h]`` has the edges from halo rows, of which ``counts[p]`` come from part ``p``, part after part.
    """
    sources = halo.transpose()
    ends = itertools.pairwise(itertools.accumulate(counts, initial=0))
    found = [minimum_cover(row_range(sources, first, last)) for first, last in ends]
    return torch.cat(found) if found else torch.empty(0, dtype=torch.bool)


def summed_pairs(halo: Csr, covered: Tensor, counts: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
    """The partial sums: the part that adds each up, its destination, and the sum of every edge that is in one.

    The first two are int64 ``[s]``, ordered by part, then by destination; the third has one entry for every edge whose
    source is not ``covered``, in the order of the matrix.
    """
    summed = ~covered[halo.indices.long()]
    part = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    key = part[halo.indices[summed].long()] * halo.num_rows + halo.row_index()[summed]
    keys, of_edge = torch.unique(key, return_inverse=True)
    return keys // max(halo.num_rows, 1), keys % max(halo.num_rows, 1), of_edge


def cover_counts(halo: Csr, covered: Tensor, counts: Sequence[int]) -> tuple[int, ...]:
    """How many rows and partial sums come from every part."""
    rows = [int(own.sum()) for own in torch.split(covered, list(counts))]
    sums = torch.bincount(summed_pairs(halo, covered, counts)[0], minlength=len(counts)).tolist()
    return tuple(a + b for a, b in zip(rows, sums, strict=True))
