"""The sparse adjacency of a part: PyG's ``adj_t``, given to layers or multiplied with rows of nodes."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from halowire.errors import InputError
from halowire.pyg.edges import Edges, unmarked
from halowire.pyg.leaves import changed, leaves

NAMES = {"adj_t": True, "adj": False}
"""Names of a sparse adjacency, and whether its rows are the edges' targets."""
PRODUCTS = {"matmul", "__matmul__", "mm", "spmm", "sparse_mm", "_sparse_mm"}
SAME = {"coalesce", "to", "cpu", "cuda", "detach", "clone", "contiguous", "to_sparse", "to_sparse_csr", "to_sparse_coo"}
"""Methods that leave the matrix as it is."""


class Adjacency:
    """The matrix of this worker's edges; ``by_target`` says whether its rows are targets, as those of ``adj_t``.

    ``edges`` are the marked edges ``[2, E]``, ``value`` ``[E]`` their weights, None where all are 1. A product reads
    and adds rows of nodes by the edges, so the rows of the halo come in and sums go to their owners.
    """

    def __init__(self, edges: Tensor, value: Tensor | None, by_target: bool) -> None:
        self.edges = edges
        self.value = value
        self.by_target = by_target

    @property
    def shape(self) -> torch.Size:
        """``[n, n]``, the nodes of this worker."""
        count = self._marked.bridge.num_owned
        return torch.Size((count, count))

    @property
    def _marked(self) -> Edges:
        assert isinstance(self.edges, Edges)
        return self.edges

    @property
    def device(self) -> torch.device:
        """Where the edges are."""
        return unmarked(self.edges).device  # type: ignore[no-any-return]

    def size(self, dim: int | None = None) -> Any:
        """The shape, or one extent of it."""
        return self.shape if dim is None else self.shape[dim]

    def t(self) -> Adjacency:
        """The transpose."""
        return Adjacency(self.edges, self.value, not self.by_target)

    def __matmul__(self, rows: Tensor) -> Tensor:
        """``sum over edges of value x[other end]`` for every row."""
        source, target = self.edges
        read, add = (source, target) if self.by_target else (target, source)
        terms = rows[read]
        if self.value is not None:
            terms = terms * self.value.view(-1, *[1] * (rows.dim() - 1)).to(terms.dtype)
        return torch.zeros_like(rows, dtype=terms.dtype).index_add(0, add, terms)

    matmul = __matmul__

    def __getattr__(self, name: str) -> Any:
        if name in SAME:
            return lambda *_, **__: self
        if name.startswith("__"):
            raise AttributeError(name)
        raise _refusal(name)

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Serve ``torch.sparse.mm(adj, x)`` and its like."""
        name = getattr(func, "__name__", "")
        if name in PRODUCTS and len(args) == 2 and isinstance(args[0], Adjacency):
            return args[0] @ args[1]
        raise _refusal(name)

    def __deepcopy__(self, memo: dict[int, object]) -> Adjacency:
        return self


def _refusal(name: str) -> InputError:
    return InputError(
        f"the model uses `{name}` on a sparse adjacency, which is cut among the workers; it can be given to PyG's "
        "layers, transposed and multiplied with rows (adj_t @ x): do everything else before halowire.shard"
    )


def is_sparse(value: Any) -> bool:
    """Whether ``value`` is a sparse matrix of torch or of torch_sparse."""
    if isinstance(value, Tensor):
        return value.layout in (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc)
    return type(value).__name__ == "SparseTensor" and hasattr(value, "coo")


def edges_of(value: Any, by_target: bool) -> tuple[Tensor, Tensor]:
    """The edges ``[2, E]``, source then target, and the weights ``[E]`` of a sparse matrix."""
    if isinstance(value, Tensor):
        matrix = value.to_sparse(layout=torch.sparse_coo).coalesce()
        rows, cols = matrix.indices().unbind()
        weight = matrix.values()
    else:
        rows, cols, found = value.coo()
        weight = torch.ones(rows.numel()) if found is None else found
    return torch.stack([cols, rows] if by_target else [rows, cols]), weight


def with_edges(tensors: Mapping[str, Any]) -> dict[str, Any]:
    """``tensors`` with the edges of a sparse adjacency as ``edge_index``, and in its place the weights of the edges."""
    found = {name: value for name, value in tensors.items() if name in NAMES and is_sparse(value)}
    out = dict(tensors)
    for name, value in found.items():
        edges, out[name] = edges_of(value, NAMES[name])
        if out.get("edge_index") is None:
            out["edge_index"] = edges
        elif not torch.equal(out["edge_index"], edges):
            raise InputError(
                f"the graph has {name} beside edge_index, with other edges or in another order; keep one of them "
                "(ToSparseTensor removes edge_index unless told not to)"
            )
    return out


def plain_adjacency(edge_index: Tensor, value: Tensor, num_nodes: int, name: str) -> Tensor:
    """The matrix that PyG makes of these edges and weights, in CSR."""
    source, target = edge_index
    rows, cols = (target, source) if NAMES[name] else (source, target)
    order = torch.argsort(rows * num_nodes + cols)
    indptr = torch.zeros(num_nodes + 1, dtype=torch.int64)
    torch.cumsum(torch.bincount(rows, minlength=num_nodes), 0, out=indptr[1:])
    return torch.sparse_csr_tensor(indptr, cols[order], value[order], (num_nodes, num_nodes))


def holds_adjacency(value: Any) -> bool:
    """Whether there is a sparse adjacency of a part in ``value``."""
    return any(isinstance(leaf, Adjacency) for leaf in leaves(value))


def take_adjacency(model: nn.Module) -> None:
    """Let PyG's layers take a sparse adjacency: they get its edges and, where they are not all 1, its weights."""
    package: Any = sys.modules.get("torch_geometric.nn")
    for module in model.modules():
        if package is not None and isinstance(module, package.MessagePassing):
            module.register_forward_pre_hook(_as_edges, with_kwargs=True)


def _as_edges(layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any] | None:
    given = [leaf for leaf in (*args, *kwargs.values()) if isinstance(leaf, Adjacency)]
    if not given:
        return None
    adjacency = given[0]
    edges = adjacency.edges if adjacency.by_target else adjacency.edges.flip(0)
    args, kwargs = changed((args, kwargs), lambda leaf: edges if leaf is adjacency else leaf)
    value = adjacency.value
    if value is not None and not bool((value == 1).all()):
        names = inspect.signature(type(layer).forward).parameters
        name = next((name for name in ("edge_weight", "edge_attr") if name in names), None)
        if name is None:
            raise InputError(
                f"{type(layer).__name__} takes no weights of edges, but the sparse adjacency has weights that are not "
                "1; leave them out of the matrix"
            )
        kwargs = {**kwargs, name: value}
    return args, kwargs
