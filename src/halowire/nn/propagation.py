"""A normalised adjacency spread over the workers, with its transpose and the exchange that feeds it."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from halowire.exchange import HaloExchange
from halowire.kernels import Csr, InputError
from halowire.partition import Shard

SYMMETRIC, MEAN = "symmetric", "mean"


@dataclass(frozen=True, eq=False)
class Propagation:
    """``y = inner @ x + halo @ x_halo``: this worker's rows of the whole graph's ``A x``.

    ``inner`` is ``[n, n]`` and needs nothing from outside, so it is multiplied while the halo rows fly; ``halo`` is
    ``[n, h]``. The transposes serve backward: ``x_grad = inner_t @ y_grad`` and what the owners add to it.
    """

    inner: Csr
    halo: Csr
    inner_t: Csr
    halo_t: Csr
    exchange: HaloExchange

    @staticmethod
    def of(shard: Shard, kind: str, exchange: HaloExchange, device: torch.device) -> Propagation:
        """Normalise ``shard`` (``symmetric`` for GCN, ``mean`` for GraphSAGE) by whole-graph degrees."""
        if kind not in (SYMMETRIC, MEAN):
            raise InputError(f"normalisation {kind!r} is unknown; use {SYMMETRIC!r} or {MEAN!r}")
        inner, halo = shard.symmetric() if kind == SYMMETRIC else shard.mean()
        inner_t, halo_t = inner.transpose(), halo.transpose()
        return Propagation(inner.to(device), halo.to(device), inner_t.to(device), halo_t.to(device), exchange)
