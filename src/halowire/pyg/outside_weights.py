"""Weights outside of the distributed model, such as a head or a learnt mask: found in the loss, and told from rows."""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.events import SETUP
from halowire.pyg.own_rows import plain
from halowire.wire import Transport

PIECE_BITS = 20
PIECES = 3
"""A digest is compared in so many whole numbers, whose squares float64 holds exactly."""


def leaf_tensors(terms: Iterable[Tensor]) -> list[Tensor]:
    """The tensors without a history that ``terms`` depend on and whose gradient is asked for, in a fixed order."""
    found: dict[int, Tensor] = {}
    seen: set[Any] = set()
    waiting: list[Any] = []
    for term in terms:
        if term.grad_fn is not None:
            waiting.append(term.grad_fn)
        elif term.requires_grad:
            found[id(term)] = term
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        variable = getattr(node, "variable", None)
        if isinstance(variable, Tensor):
            found.setdefault(id(variable), variable)
        waiting += [parent for parent, _ in node.next_functions if parent is not None]
    return list(found.values())


class RowTensors:
    """Remembers leaves that hold rows of this worker's nodes or edges: their gradients are complete as they are."""

    def __init__(self, extents: Sequence[int]) -> None:
        self._extents = tuple(extents)
        self._known: dict[int, weakref.ref[Tensor]] = {}

    def __contains__(self, leaf: Tensor) -> bool:
        known = self._known.get(id(leaf))
        return known is not None and known() is leaf

    def add(self, leaf: Tensor) -> None:
        """Remember ``leaf`` as long as it lives."""
        self._known[id(leaf)] = weakref.ref(leaf)

    def fits(self, leaf: Tensor) -> bool:
        """Whether ``leaf`` has one row for each of this worker's nodes or edges."""
        return leaf.dim() > 0 and leaf.shape[0] in self._extents


def told_apart(leaves: Sequence[Tensor], total: int, rows: RowTensors, transport: Transport) -> list[Tensor]:
    """Those of ``leaves`` that are weights, the same on all workers; the others are added to ``rows``.

    All workers call this together; ``total`` is the number of all workers' leaves. A weight has the same values
    everywhere. A tensor of rows has one row for each node or edge of its worker, and other values elsewhere, or
    one value.
    """
    if total != transport.size * len(leaves):
        raise InputError(
            f"the loss depends on {len(leaves)} weights outside of the distributed model here, and on other numbers of "
            "them on other workers; all workers must run the same code on their rows"
        )
    facts = torch.tensor([_facts(leaf, rows) for leaf in leaves], dtype=torch.float64)
    sums = torch.stack([facts, facts.square()])
    transport.all_reduce(sums, "check of the weights outside of the model", SETUP)
    total_of, square_of = sums
    same = (transport.size * square_of == total_of.square())[:, 2:].all(1)
    constant, like_rows = (total_of[:, place] == transport.size for place in (0, 1))
    shared = []
    for place, leaf in enumerate(leaves):
        if same[place] and like_rows[place] and not constant[place]:
            raise InputError(
                f"a tensor of shape {list(leaf.shape)} outside of the distributed model is learnt, has the same values "
                "on all workers, and as many rows as each has nodes or edges: it could be one weight, or rows of other "
                "nodes on every worker; make one weight part of the model, and draw rows for all nodes and take this "
                "worker's: nn.Parameter(torch.randn(data.num_whole_nodes, 1)[data.rows])"
            )
        if same[place] and not like_rows[place]:
            shared.append(leaf)
        elif like_rows[place]:
            rows.add(leaf)
        else:
            raise InputError(
                f"a weight of shape {list(leaf.shape)} outside of the distributed model has other values on other "
                "workers, so it is not one weight; make it part of the model, or call torch.manual_seed(0) before it "
                "is made"
            )
    return shared


def _facts(leaf: Tensor, rows: RowTensors) -> list[float]:
    """Whether all values are equal, whether ``leaf`` could be rows, and its digest in pieces."""
    leaf = plain(leaf)
    values = leaf.detach().reshape(-1).cpu().contiguous()
    constant = values.numel() == 0 or bool((values == values[0]).all())
    said = f"{tuple(leaf.shape)} {leaf.dtype}".encode() + values.view(torch.uint8).numpy().tobytes()
    number = int.from_bytes(hashlib.sha256(said).digest()[:8], "little")
    pieces = [float((number >> (PIECE_BITS * place)) % (1 << PIECE_BITS)) for place in range(PIECES)]
    return [float(constant), float(rows.fits(leaf)), *pieces]
