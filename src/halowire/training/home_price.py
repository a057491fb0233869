"""What it saves and what it costs to compute the halo's first hidden rows at home, worked out before anything is sent.

For ``h`` halo rows of all workers, whose first hidden rows have ``w`` columns and whose features and their sums have
``s`` stored values together (``h F`` or ``2 h F`` where they are dense):

    saved bytes     of layer 1, forward and backward, in every epoch, at the rate of the wire
    products        ``2 s w`` in every epoch, forward and backward, and ``3 h w w'`` where the rows that the next layer
                    reads are ``w'`` columns narrower products
    memory          the ``s`` values, and the rows that backward reads
    sent once       the ``s`` values, less those that the first layer needs in any case
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from halowire.errors import size_text
from halowire.events import SETUP
from halowire.kernels import Csr
from halowire.layers import Entry, Layer, Segment, stays_sparse
from halowire.partitioning import Shard
from halowire.schedules import Stage
from halowire.wire import Transport

VALUE = 4
"""Bytes of a float32 value."""
ENTRY = 8
"""Bytes of a stored value of a sparse matrix: its column and its value."""
DENSE, SPARSE, ACTIVATED = 5e-11, 1.5e-10, 1e-9
"""Seconds of a multiplication of dense and of sparse rows, and of activating a value there and back, on one core."""
DEVICE_SPEED = 100.0
"""How many times faster than one core a GPU is taken to be."""
EPOCHS = 100
"""Epochs that the bytes sent once are spread over; not those of the run, so that a longer resumed run decides alike."""
ETHERNET, LOOPBACK = 1000.0, 8000.0
"""Speeds in Mbit/s by which workers of several machines, and of one, are taken to send."""


@dataclass(frozen=True)
class Surroundings:
    """What decides beside the settings: where the workers are, and what they have.

    Attributes:
        link: the speed in Mbit/s by which a worker is taken to send where the settings do not say it.
        on_cpu: whether workers compute on CPUs.
        spare: bytes of memory that this worker has beyond what the run needs in any case; None: they are not counted.
    """

    link: float = ETHERNET
    on_cpu: bool = True
    spare: int | None = None


@dataclass(frozen=True)
class HomePrice:
    """What computing the halo's first rows at home saves and costs, for all workers together.

    Attributes:
        rows: the halo rows.
        saved: bytes that an epoch sends less.
        products: multiplications that an epoch has more.
        memory: bytes that the worker with the most needs more.
        sent_once: bytes that are sent more before training.
        saved_seconds, spent_seconds: the predicted seconds of an epoch that a worker saves and spends, in the mean.
        fits: whether every worker has the memory.
    """

    rows: int
    saved: int
    products: int
    memory: int
    sent_once: int
    saved_seconds: float
    spent_seconds: float
    fits: bool

    @property
    def pays(self) -> bool:
        """Whether an epoch is predicted to take less time, and every worker has the memory."""
        return self.fits and self.saved_seconds > self.spent_seconds

    def words(self) -> str:
        """The saving and the three prices."""
        return (
            f"{size_text(self.saved)} less per epoch ({self.saved_seconds:.2g} s), for {self.products:,} "
            f"multiplications over {self.rows:,} halo rows ({self.spent_seconds:.2g} s), {size_text(self.memory)} more "
            f"memory in the largest worker, {size_text(self.sent_once)} sent once"
        )


def home_price(
    shard: Shard, stage: Stage, saved: int, arriving: int, transport: Transport, around: Surroundings
) -> HomePrice:
    """The price for the model of ``stage``; all workers call this together.

    ``saved`` are the bytes of layer 1's messages in an epoch, of all workers. ``arriving`` rows and partial sums come
    to this worker in their place.
    """
    segment, layer = _first(stage)
    own, sums = _sent_values(shard, aggregates=stage.number == 0)
    sparse = stays_sparse(shard.x)
    # The features of halo rows are fetched in any case by a layer that sums them; under a cover, with sums among them.
    before = 0.0 if stage.number else own if sparse else float(arriving * shard.num_features)
    products = 2 * segment.width * (sums + (own if _reads_own(stage) else 0))
    products += 3 * shard.num_halo * segment.width * layer.width * layer.multiplies
    memory = home_memory(shard, stage)
    crowded = around.spare is not None and memory > around.spare
    sums_of_all = torch.tensor([shard.num_halo, products, own + sums, before, crowded], dtype=torch.float64)
    each = torch.zeros(transport.size, dtype=torch.float64)
    each[transport.rank] = memory
    counts = transport.all_reduce(torch.cat([sums_of_all, each]), "reduction of the prices", SETUP)
    rows, multiplied, sent, before, crowded_workers = counts[: len(sums_of_all)].tolist()
    once = int((ENTRY if sparse else VALUE) * max(0.0, sent - before))
    compute = multiplied * (SPARSE if sparse else DENSE) + rows * segment.width * ACTIVATED
    byte = 8e-6 / around.link
    return HomePrice(
        rows=int(rows),
        saved=saved,
        products=int(multiplied),
        memory=int(counts[len(sums_of_all) :].max()),
        sent_once=once,
        saved_seconds=(saved - once / EPOCHS) * byte / transport.size,
        spent_seconds=compute / transport.size / (1 if around.on_cpu else DEVICE_SPEED),
        fits=crowded_workers == 0,
    )


def home_memory(shard: Shard, stage: Stage) -> int:
    """Bytes that this worker needs more: features and sums of its halo rows, and what backward reads of these rows."""
    segment, layer = _first(stage)
    values = float(shard.num_halo * shard.num_features * (1 if stage.number else 2))
    size = VALUE
    if stays_sparse(shard.x):
        # Halo rows are taken to be as full as the rows that are sent; backward reads the transposes.
        values = sum(_sent_values(shard, stage.number == 0)) * shard.num_halo / max(1, shard.send_index.numel())
        size = 2 * ENTRY
    kept = segment.width + layer.width + (segment.width if layer.multiplies else 0)
    return round(size * values + VALUE * 2 * kept * shard.num_halo)


def _first(stage: Stage) -> tuple[Segment, Layer]:
    """The first segment of a model, and the layer that reads its rows."""
    segment = stage.segments[0]
    assert segment.following is not None, "a model of one layer sends no rows"
    return segment, segment.following


def _reads_own(stage: Stage) -> bool:
    """Whether the first segment multiplies the features of a row itself, beside the sum of its neighbours' or alone."""
    segment = stage.segments[0]
    assert isinstance(segment.first, Entry)
    return stage.number > 0 or segment.first.work.feature_products > 2 * segment.width


def _sent_values(shard: Shard, aggregates: bool) -> tuple[float, float]:
    """Stored values of the features of the rows that this worker sends, and of their sums over edges.

    The columns of sparse sums are not known before they are added up. If columns were independent, a sum of ``t``
    stored values would have ``F (1 - exp(-t / F))`` of its own.
    """
    rows, features = shard.send_index, shard.num_features
    if not isinstance(shard.x, Csr) or not stays_sparse(shard.x):
        each = float(rows.numel() * features)
        return each, each * aggregates
    stored = shard.x.indptr.diff().float()
    own = float(stored[rows].sum())
    return own, float(_filled(shard, stored)[rows].sum()) if aggregates else 0.0


def _filled(shard: Shard, stored: Tensor) -> Tensor:
    """The expected stored values of the sum of every owned row, ``[n]``, from those of the features of every row."""
    inner = Csr(shard.inner.indptr, shard.inner.indices, None, shard.inner.num_cols)
    near = inner.matmul(stored[:, None].contiguous())[:, 0]
    far = shard.halo.indptr.diff() * stored.mean()
    return shard.num_features * (1 - torch.exp(-(near + far) / shard.num_features))
