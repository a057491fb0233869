"""What it saves and what it costs to compute the halo's first hidden rows at home, worked out before anything is sent.

For ``h`` halo rows of all workers, whose first hidden rows have ``w`` columns and whose features and their sums have
``s`` stored values together (``h F`` or ``2 h F`` where they are dense; see `Held` for how sparse ones are counted):

    saved bytes     of layer 1, forward and backward, in every epoch, at the rate of the wire
    products        ``2 s w`` in every epoch, forward and backward, and ``3 h w w'`` where the rows that the next layer
                    reads are ``w'`` columns narrower products
    memory          the ``s`` values, and the rows that backward reads
    sent once       the bytes of both in their smallest exact form, less those that the first layer needs in any case

Bytes between machines take the time of the network, those within one machine that of its memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress

import torch

from halowire.errors import size_text
from halowire.events import SETUP
from halowire.layers import SPARSE_LIMIT, Entry, stays_sparse
from halowire.partitioning import Shard
from halowire.schedules import Stage
from halowire.training.halo_values import COUNTS, Held, held_features, held_sums
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
        link: the speed in Mbit/s by which a machine is taken to send, or a worker where each counts as one, if the
            settings do not say it.
        within: the speed in Mbit/s by which a worker is taken to send to others of its machine.
        on_cpu: whether workers compute on CPUs.
        spare: bytes of memory that this worker has beyond what the run needs in any case; None: they are not counted.
    """

    link: float = ETHERNET
    within: float = LOOPBACK
    on_cpu: bool = True
    spare: int | None = None


@dataclass(frozen=True)
class HomePrice:
    """What computing the halo's first rows at home saves and costs, for all workers together.

    Attributes:
        rows: the halo rows.
        saved: bytes that an epoch sends less; ``saved_within``: within machines, which the network does not see.
        products: multiplications that an epoch has more.
        memory: bytes that the worker with the most needs more.
        sent_once: bytes that are sent more before training; ``once_within``: within machines.
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
    saved_within: int = 0
    once_within: int = 0

    @property
    def pays(self) -> bool:
        """Whether an epoch is predicted to take less time, and every worker has the memory."""
        return self.fits and self.saved_seconds > self.spent_seconds

    def words(self) -> str:
        """The saving and the three prices."""
        within = f" and {size_text(self.saved_within)} within machines" if self.saved_within else ""
        return (
            f"{size_text(self.saved)}{within} less per epoch ({self.saved_seconds:.2g} s), for {self.products:,} "
            f"multiplications over {self.rows:,} halo rows ({self.spent_seconds:.2g} s), {size_text(self.memory)} more "
            f"memory in the largest worker, {size_text(self.sent_once)} sent once"
        )


@dataclass(frozen=True)
class FirstRows:
    """How the first hidden rows that travel are made, and what is made of them.

    Attributes:
        width: their columns ``w``.
        next_width: columns of what travels in their place, if ``multiplies``: the rows are multiplied by weights first.
        sums: whether they are made of sums of features over edges; ``loops``: of sums that have the row itself in them.
        own: whether they are made of the features of the row itself.
        kept: whether the halo's features are here in any case, as a layer that sums features needs them.
    """

    width: int
    next_width: int
    multiplies: bool
    sums: bool
    loops: bool
    own: bool
    kept: bool

    @staticmethod
    def of(stage: Stage) -> FirstRows:
        """Those of a whole model."""
        segment, sums = stage.segments[0], stage.number == 0
        assert segment.following is not None, "a model of one layer sends no rows"
        assert isinstance(segment.first, Entry)
        layer = segment.following
        own = not sums or segment.first.work.feature_products > 2 * segment.width
        return FirstRows(segment.width, layer.width, layer.multiplies, sums, sums and not own, own, kept=sums)


def home_price(
    shard: Shard,
    first: FirstRows,
    saved: tuple[int, int],
    arriving: Sequence[int] | None,
    transport: Transport,
    around: Surroundings,
) -> HomePrice:
    """The price of computing the rows ``first`` at home; all workers call this together.

    ``saved`` are the bytes of their messages in an epoch, of all workers: on the network, and within machines. Under a
    cover, ``arriving`` rows and partial sums come from every worker in their place; None: the rows themselves.
    """
    machines, width = transport.machines, shard.num_features
    across = machines.elsewhere(transport.rank)
    crossing = torch.repeat_interleave(torch.tensor(across), torch.tensor(shard.send_counts))
    own = held_features(shard, crossing)
    sums = held_sums(shard, crossing, first.loops) if first.sums else Held.of([0.0] * COUNTS)
    covered = [sum(compress(arriving, across)), sum(arriving)] if arriving is not None else [0, 0]
    memory = _memory(shard, first, own, sums)
    crowded = around.spare is not None and memory > around.spare
    each = [0.0] * transport.size
    each[transport.rank] = memory
    sparse = stays_sparse(shard.x)
    counts = torch.tensor([*own.numbers(), *sums.numbers(), *covered, crowded, sparse, *each], dtype=torch.float64)
    total = transport.all_reduce(counts, "reduction of the prices", SETUP).tolist()
    own, sums = Held.of(total), Held.of(total[COUNTS:])
    over, covered_rows, crowded_workers, sparse_workers = total[2 * COUNTS : 2 * COUNTS + 4]
    once = [a + b for a, b in zip(own.sizes(width), sums.sizes(width), strict=True)]
    if first.kept:
        plain, row = own.sizes(width), VALUE * width
        in_sums = (row * over, row * (covered_rows - over))
        fewer = arriving is not None and not sparse_workers and in_sums[0] < plain[0]
        once = [a - b for a, b in zip(once, in_sums if fewer else plain, strict=True)]
    rows = sum(own.rows)
    multiplied = 3.0 * rows * first.width * first.next_width * first.multiplies
    seconds = multiplied * DENSE + rows * first.width * ACTIVATED
    for held in (sums if first.sums else None, own if first.own else None):
        if held is not None:
            values, speed = _stored(held, sparse_workers > 0, width)
            multiplied += 2 * first.width * values
            seconds += 2 * first.width * values * speed
    members = machines.count if machines.count > 1 else transport.size
    bits = [less - more / EPOCHS for less, more in zip(saved, once, strict=True)]
    return HomePrice(
        rows=int(rows),
        saved=saved[0],
        products=int(multiplied),
        memory=int(max(total[-transport.size :])),
        sent_once=round(max(0.0, once[0])),
        saved_seconds=8e-6 * (bits[0] / around.link / members + bits[1] / around.within / transport.size),
        spent_seconds=seconds / transport.size / (1 if around.on_cpu else DEVICE_SPEED),
        fits=crowded_workers == 0,
        saved_within=saved[1],
        once_within=round(max(0.0, once[1])),
    )


def _stored(held: Held, sparse: bool, width: int) -> tuple[float, float]:
    """The values that rows are multiplied with, and the seconds of each: sparse ones, unless they are too many."""
    rows = sum(held.rows)
    if sparse and sum(held.entries) <= SPARSE_LIMIT * rows * width:
        return sum(held.entries), SPARSE
    return rows * width, DENSE


def _memory(shard: Shard, first: FirstRows, own: Held, sums: Held) -> int:
    """Bytes that this worker needs more: features and sums of its halo rows, and what backward reads of these rows.

    Halo rows are taken to be as full as the rows that are sent; backward reads transposes of sparse ones.
    """
    needed = 0.0
    for held in (own, *((sums,) if first.sums else ())):
        values, speed = _stored(held, stays_sparse(shard.x), shard.num_features)
        each = 2 * ENTRY if speed == SPARSE else VALUE
        needed += each * values * shard.num_halo / max(1.0, sum(held.rows))
    kept = first.width + first.next_width + (first.width if first.multiplies else 0)
    return round(needed + VALUE * 2 * kept * shard.num_halo)
