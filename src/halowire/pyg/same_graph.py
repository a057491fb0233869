"""All workers must cut the same graph: a digest of every tensor is compared before it is cut."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.events import SETUP
from halowire.wire import Transport

WHERE = "comparison of the workers' graphs"


def require_same_graph(tensors: Mapping[str, Any], num_nodes: int, transport: Transport) -> None:
    """Refuse, on all workers, a graph whose tensors are not the same everywhere; the tensors that differ are named.

    An unseeded ``RandomLinkSplit`` or ``RandomNodeSplit``, or a random graph, is another one in every process.
    """
    if transport.size == 1:
        return
    names = sorted(name for name, value in tensors.items() if isinstance(value, Tensor))
    facts = [_digest(name, tensors[name]) for name in names]
    together = zlib.crc32(repr((names, num_nodes, facts)).encode())
    if _all_equal(torch.tensor([len(names), together]), transport).all():
        return
    # The names themselves may differ, and then their digests cannot be compared one by one.
    alike = bool(_all_equal(torch.tensor([zlib.crc32(repr(names).encode())]), transport).all())
    differing = ["the set of tensors"]
    if alike:
        equal = _all_equal(torch.tensor(facts), transport).tolist()
        differing = [name for name, same in zip(names, equal, strict=True) if not same]
    raise InputError(
        f"the workers hold different graphs: {', '.join(differing) or 'the number of nodes'} differs; every process "
        "draws its own random split or graph, so call torch_geometric.seed_everything(0) before (torch.manual_seed is "
        "not enough: PyG draws with Python and NumPy too)"
    )


def require_same_list(index: Tensor, transport: Transport) -> None:
    """Refuse, on all workers, pairs of the whole graph that are not the same list everywhere."""
    if transport.size > 1 and not _all_equal(torch.tensor([_digest("pairs", index)]), transport).all():
        raise InputError(
            "data.pairs got other pairs on other workers, so that some would be left out; it takes the pairs of the "
            "whole graph, the same on every worker: call torch.manual_seed before they are drawn, or use "
            "data.negative_sampling(count)"
        )


def require_same_count(count: int, transport: Transport) -> None:
    """Refuse, on all workers, a number of pairs to draw that is not the same everywhere."""
    if transport.size > 1 and not _all_equal(torch.tensor([count]), transport).all():
        raise InputError(
            f"data.negative_sampling is asked for {count} pairs here, and for other numbers on other workers; give the "
            "number of all workers' pairs, such as graph.edge_label_index.size(1) from before the graph is cut, or "
            "data.num_whole_edges"
        )


def _all_equal(numbers: Tensor, transport: Transport) -> Tensor:
    """Which of the 32-bit whole ``numbers`` are the same on all workers, bool."""
    table = torch.zeros(transport.size, numbers.numel(), dtype=torch.int64)
    table[transport.rank] = numbers
    transport.all_reduce(table, WHERE, SETUP)
    return (table == table[0]).all(0)


def _digest(name: str, value: Tensor) -> int:
    """A 32-bit digest of a tensor's name, type, shape and values."""
    found = zlib.crc32(f"{name} {value.dtype} {tuple(value.shape)} {value.layout}".encode())
    for piece in _pieces(value.detach()):
        values: Any = piece.cpu().contiguous().view(-1).view(torch.uint8).numpy()
        found = zlib.crc32(values, found)
    return found


def _pieces(value: Tensor) -> tuple[Tensor, ...]:
    """The dense tensors that ``value`` is made of."""
    if value.layout == torch.sparse_coo:
        value = value.coalesce()
        return value.indices(), value.values()
    if value.layout == torch.sparse_csr:
        return value.crow_indices(), value.col_indices(), value.values()
    if value.layout == torch.sparse_csc:
        return value.ccol_indices(), value.row_indices(), value.values()
    return (value,)
