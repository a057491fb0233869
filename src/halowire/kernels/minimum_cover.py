"""A minimum vertex cover of a bipartite graph, from a maximum matching."""

from __future__ import annotations

import torch
from torch import Tensor

from halowire.kernels.csr import Csr
from halowire.kernels.dispatch import call, check_matrix, matrix_of, native_for
from halowire.kernels.sort import INT32_LIMIT


def minimum_cover(matrix: Csr) -> Tensor:
    """The rows of ``matrix`` ``[m, n]`` that are in a minimum vertex cover, bool ``[m]``.

    An entry of the matrix is an edge between its row and its column. The cover is these rows and the columns of all
    entries in the other rows; by König's theorem no set of fewer rows and columns touches every entry. Among the
    minimum covers it is the one with the most rows. Duplicates and weights have no effect.
    """
    check_matrix(matrix.indptr, matrix.indices, None)
    native = native_for(matrix.indptr, matrix.indices)
    # A module that was built before this kernel existed serves all others.
    if native is None or not hasattr(native, "minimum_cover") or max(matrix.shape) >= INT32_LIMIT:
        return minimum_cover_twin(matrix)
    covered = torch.empty(matrix.num_rows, dtype=torch.bool)
    arrays = matrix_of(matrix.indptr, matrix.indices, matrix.num_cols)
    call(native.minimum_cover, *arrays, matrix.num_rows, covered)
    return covered


def minimum_cover_twin(matrix: Csr) -> Tensor:
    """:func:`minimum_cover` in Python: row after row looks for an augmenting path, breadth first (Kuhn).

    What a search without success has reached stays as it is for good: no later path leads through it. These columns,
    and the rows that lead to them, are the ones that alternating paths from rows without a column reach.
    """
    ends, columns = matrix.indptr.tolist(), matrix.indices.tolist()
    mates: dict[int, int] = {}
    held: dict[int, int] = {}
    closed: dict[int, int] = {}
    covered = torch.ones(matrix.num_rows, dtype=torch.bool)
    for start in range(matrix.num_rows):
        came_from, rows, free = _search(start, ends, columns, mates, closed)
        if free is None:
            closed |= came_from
            covered[rows] = False
            continue
        while True:  # give every row on the path the column after it
            row, column = came_from[free], free
            mates[column] = row
            held[row], free = column, held.get(row, -1)
            if row == start:
                break
    return covered


def _search(
    start: int, ends: list[int], columns: list[int], mates: dict[int, int], closed: dict[int, int]
) -> tuple[dict[int, int], list[int], int | None]:
    """Search for a column without a row, from the row ``start``; ``mates`` are the rows by column.

    Returns from which row every column was reached, the rows that were reached, and the free column if there is one.
    """
    came_from: dict[int, int] = {}
    queue = [start]
    for row in queue:
        for column in columns[ends[row] : ends[row + 1]]:
            if column in came_from or column in closed:
                continue
            came_from[column] = row
            if column not in mates:
                return came_from, queue, column
            queue.append(mates[column])
    return came_from, queue, None
