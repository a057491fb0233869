"""The bytes of an epoch by arithmetic, N nodes, H hidden, S stages; rows of k columns take 4 k bytes in float32.

- between stages: ``2 (S-1) N row(H)``, twice that for GCNII, whose initial rows travel too;
- between parts, exact: ``2 h sum_l row(k_l)``, where all halos hold h rows and layer l sends ``k_l`` columns;
- between parts, chunk by chunk: ``(h + b) sum_l row(k_l)``: backward sends the gradients of aggregates, and b of these
  (row, peer) pairs have an edge from a peer's node. With edges both ways b = h.

Every message has a header of 16 bytes beside its rows. Chunks without rows for a peer send it none, so that between
parts in chunks the formula for headers is the most there can be.

The wire takes at least ``halo / workers + stage / ((S-1) P)`` bytes at the rate of a link: all workers send halo rows
at the same time, but rows cross a border of stages first one way, then the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from bench.pipeline.cases import HIDDEN, Way
from bench.timing.rate import transfer_seconds
from halowire.partitioning import Shard, read_manifest, read_shard
from halowire.training import ModelConfig, travelling_widths
from halowire.wire import HEADER_BYTES, Rate, codec_of


@dataclass(frozen=True)
class Sizes:
    """What the formulas need of a graph cut into parts."""

    nodes: int
    features: int
    classes: int
    halo: int
    back: int

    @staticmethod
    def of(shards: Path) -> Sizes:
        """Count in the shards."""
        count = read_manifest(shards)["num_parts"]
        parts = [read_shard(shards, part, verify=False) for part in range(count)]
        first = parts[0]
        halo, back = sum(part.num_halo for part in parts), sum(map(_reached, parts))
        return Sizes(first.num_nodes, first.num_features, first.num_classes, halo, back)


def _reached(shard: Shard) -> int:
    """Owned rows with an edge from another part, where there are two parts."""
    return int((torch.diff(shard.halo.indptr) > 0).sum())


def expected(sizes: Sizes, model: str, layers: int, way: Way) -> dict[str, int]:
    """``{"halo": bytes, "stage": bytes}`` of all workers in an epoch."""
    widths = _widths(sizes, model, layers)
    bits = 1 if way.recipe == "gnnpipe-1bit" else 32
    kinds = _kinds(model)
    stage = 2 * (way.stages - 1) * sizes.nodes * codec_of(Rate(bits)).row_bytes(HIDDEN) * kinds
    rows = 2 * sizes.halo if way.stages == 1 else sizes.halo + sizes.back
    return {"halo": rows * sum(4 * width for width in widths) if way.parts > 1 else 0, "stage": stage}


def most_headers(sizes: Sizes, model: str, layers: int, way: Way) -> dict[str, int]:
    """``{"halo": bytes, "stage": bytes}`` of the headers of all workers in an epoch, at the most."""
    borders = (way.stages - 1) * way.parts * _kinds(model)
    pairs = way.parts * (way.parts - 1) * len(_widths(sizes, model, layers))
    chunks = way.chunks if way.stages > 1 else 1
    return {"halo": 2 * pairs * chunks * HEADER_BYTES, "stage": 2 * borders * chunks * HEADER_BYTES}


def _widths(sizes: Sizes, model: str, layers: int) -> list[int]:
    """Columns of the rows that every layer sends."""
    config = ModelConfig(name=model, layers=layers, hidden=HIDDEN)
    return list(travelling_widths(config, sizes.features, sizes.classes))


def _kinds(model: str) -> int:
    """Matrices that cross a border of stages: GCNII's initial rows travel too."""
    return 2 if model == "gcnii" else 1


def wire_seconds(sent: Mapping[str, float], way: Way, rate: float) -> float:
    """How long the links of ``rate`` bits per second take for the ``{"halo": bytes, "stage": bytes}`` of an epoch."""
    borders = (way.stages - 1) * way.parts
    stage = transfer_seconds(sent["stage"], borders, rate) if borders else 0.0
    return transfer_seconds(sent["halo"], way.workers, rate) + stage
