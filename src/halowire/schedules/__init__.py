"""In which order a model is computed: boundary rows first, or chunks through stages.

:mod:`halowire.schedules.boundary_first` is graph parallelism. :mod:`halowire.schedules.pipeline` is layer parallelism
(GNNPipe) and the hybrid of both: workers form a **mesh** of stages x parts. A worker holds a contiguous range of the
model's blocks, its stage, and all rows of its part, which METIS cuts into C **chunks**. In an epoch every chunk goes
forward through the S stages, one chunk after another; then all go backward in the reverse order, and there is one
optimiser step: no weight is ever stale. With equal stages and chunks a worker is idle for (S-1)/(C+S-1) of the time,
the bubble.

When a chunk is aggregated, rows of earlier chunks in this epoch's order are current, rows of later chunks are
historical. Three techniques keep this close to exact training, each with its setting: the order is drawn anew every
epoch (``mesh.shuffle``), historical rows are a snapshot that stays for a period of epochs (``mesh.history``), and
gradients along edges between chunks are weighted so that every edge counts once in the mean (``mesh.gradient_rule``).
With one chunk per part everything is exact. Evaluation is always exact: float32, all rows current.

Bytes per epoch, in float32 with N nodes and H hidden columns: ``2 (S-1) N H 4`` between stages, however deep the model
is (twice as many for GCNII, whose initial rows travel too), and ``2 H 4`` per halo row and layer between parts.
"""

from halowire.schedules.block_costs import measured_costs, predicted_costs
from halowire.schedules.border import Border
from halowire.schedules.boundary_first import BoundaryFirst, Complete, Part
from halowire.schedules.chunk_sums import ChunkSums
from halowire.schedules.chunks import Chunks, chunk_numbers, renumber
from halowire.schedules.departure import AT_HOME, BOUNDARY_FIRST, NOT_HIDDEN, plain_overlap
from halowire.schedules.halo_copies import HaloCopies
from halowire.schedules.mesh import Mesh, Seat, forget_circles
from halowire.schedules.pipeline import Pipeline, Side
from halowire.schedules.stage import Stage
from halowire.schedules.stage_split import parse_split, split
from halowire.schedules.timeline import Timeline, ideal_bubble
from halowire.schedules.watch import Sighting, Spot, Watch, count_not_finite, watched
from halowire.schedules.whole_sums import Sums, WholeSums

__all__ = [
    "AT_HOME",
    "BOUNDARY_FIRST",
    "NOT_HIDDEN",
    "Border",
    "BoundaryFirst",
    "ChunkSums",
    "Chunks",
    "Complete",
    "HaloCopies",
    "Mesh",
    "Part",
    "Pipeline",
    "Seat",
    "Side",
    "Sighting",
    "Spot",
    "Stage",
    "Sums",
    "Timeline",
    "Watch",
    "WholeSums",
    "chunk_numbers",
    "count_not_finite",
    "forget_circles",
    "ideal_bubble",
    "measured_costs",
    "parse_split",
    "plain_overlap",
    "predicted_costs",
    "renumber",
    "split",
    "watched",
]  # fmt: skip
