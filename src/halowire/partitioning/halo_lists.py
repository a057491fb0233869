"""What an exchange knows of a part: which owned rows each peer needs, and which of the peers' rows form the halo."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


class HaloLists(Protocol):
    """The rows that one worker sends and receives; a `Shard` has them, and so has each `Relation` between node types.

    Attributes:
        rank: the part.
        ids: original ids of owned rows, int64 ``[n]``.
        num_owned: number of owned rows, ``n``.
        num_boundary: no row behind the first ``num_boundary`` owned rows is sent.
        halo_ids: original ids of halo rows, int64 ``[h]``, by owner.
        num_halo: number of halo rows, ``h``.
        symmetric_degree: whole-graph degree of owned rows, then of halo rows, float32 ``[n + h]``.
        send_index: owned row of every row sent, int64, grouped by peer, in that peer's halo order.
        send_counts: rows sent to every peer.
        recv_counts: halo rows by owner.
    """

    @property
    def rank(self) -> int: ...
    @property
    def ids(self) -> Tensor: ...
    @property
    def num_owned(self) -> int: ...
    @property
    def num_boundary(self) -> int: ...
    @property
    def halo_ids(self) -> Tensor: ...
    @property
    def num_halo(self) -> int: ...
    @property
    def symmetric_degree(self) -> Tensor: ...
    @property
    def send_index(self) -> Tensor: ...
    @property
    def send_counts(self) -> tuple[int, ...]: ...
    @property
    def recv_counts(self) -> tuple[int, ...]: ...


@dataclass(frozen=True, eq=False)
class NamedHalo:
    """A halo of rows that were named, whichever edges there are; any owned row may be sent. See `HaloLists`."""

    rank: int
    ids: Tensor
    num_owned: int
    num_boundary: int
    halo_ids: Tensor
    num_halo: int
    symmetric_degree: Tensor
    send_index: Tensor
    send_counts: tuple[int, ...]
    recv_counts: tuple[int, ...]

    @staticmethod
    def of(
        rank: int, ids: Tensor, halo_ids: Tensor, send_index: Tensor, sent: list[int], received: list[int]
    ) -> NamedHalo:
        """The halo ``halo_ids`` of a part whose own rows are ``ids``; ``sent`` and ``received`` count rows by peer."""
        return NamedHalo(
            rank=rank,
            ids=ids,
            num_owned=ids.numel(),
            num_boundary=ids.numel(),
            halo_ids=halo_ids,
            num_halo=halo_ids.numel(),
            symmetric_degree=torch.zeros(ids.numel() + halo_ids.numel()),
            send_index=send_index,
            send_counts=tuple(sent),
            recv_counts=tuple(received),
        )
