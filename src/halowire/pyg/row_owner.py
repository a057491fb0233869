"""Whose rows a tensor has: which worker's, of which nodes or edges."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from halowire.pyg.edge_forms import ALL_EDGES, EdgeForm
from halowire.pyg.model_pass import ModelPass


@dataclass(frozen=True, eq=False)
class Owner:
    """Whose rows they are: a worker with ``owned`` of the ``whole`` nodes, whose models run in ``passing``.

    Rows of nodes have the numbers ``rows`` in the whole graph. Rows of edges have the list ``form`` of the worker's
    edges; then ``owned`` counts its entries. ``kind`` is the type of the nodes or edges in a graph of several types.
    """

    owned: int
    whole: int
    passing: ModelPass
    form: EdgeForm = ALL_EDGES
    rows: Tensor | None = None
    kind: str | tuple[str, str, str] | None = None
    targets: Owner | None = None
    """For rows of edges, the owner of the nodes that the edges lead to: this worker has all edges of these."""
    cut: int = 0
    """The number of the cut; parts whose rows are the same have the same number."""

    def apart(self, other: Owner) -> bool:
        """Whether the rows of ``other`` are other nodes of the same type."""
        nodes = self.rows is not None and other.rows is not None and self.kind == other.kind
        return nodes and self.cut != other.cut

    def __deepcopy__(self, memo: dict[int, object]) -> Owner:
        """Return the same owner: a copy of rows is this worker's too."""
        return self
