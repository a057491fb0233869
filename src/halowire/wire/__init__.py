"""What goes over the network.

A `Route` says which rows go to which peer and where they land; a `Policy` says how rows travel: rate, freshness and
coding. From the policy come the `Terms` of one epoch, layer and direction, and a `Message` carries rows by a route and
under terms: it encodes, launches, waits and decodes. Three classes send messages: `HaloExchange` (the halo rows of a
whole part), `ChunkExchange` (the halo rows of the chunks in work) and `StageLink` (rows from stage to stage). A
`Transport` carries the bytes, and books them in the ledger.
"""

from halowire.kernels import sent_over
from halowire.wire.arrived import refuse_outside
from halowire.wire.chunk_halo import ChunkExchange, Routes
from halowire.wire.circle import Circle, gpu_of, hold_watchdog, leave_group, pairs_of
from halowire.wire.code_error import MEASURE_EVERY, MEASURED_ROWS
from halowire.wire.codec import Packed, Source
from halowire.wire.cover import Cover
from halowire.wire.crossing import Crossing, Extend
from halowire.wire.deadline import WARN_AFTER, bounded, process_watch, seconds_text
from halowire.wire.graded import BASES, by_base, grade_bits, grade_counts
from halowire.wire.gradients import GradientCodec
from halowire.wire.halo_exchange import HaloExchange
from halowire.wire.halo_exchanges import HaloExchanges
from halowire.wire.header import HEADER_BYTES, Envelope
from halowire.wire.in_process import InProcessTransport, run_threads
from halowire.wire.machines import Machines
from halowire.wire.message import Arrival, Message
from halowire.wire.once import Form, any_worker, counts_of
from halowire.wire.own_codec import Draws, RowCodec, agree_on_codec, check_codec
from halowire.wire.placement import vector_on
from halowire.wire.policy import (
    AFFINE,
    BACKWARD,
    BITS,
    FORWARD,
    FRESH,
    LATE,
    MEAN,
    NONE,
    Freshness,
    Policy,
    Rate,
    codec_of,
    column_subset,
)
from halowire.wire.rate_schedule import BaseBit, Budget, exponential, linear, parse_steps, stepped
from halowire.wire.route import Piece, row_subset, sample_size
from halowire.wire.stage_link import StageLink
from halowire.wire.transport import Pending, Transport
from halowire.wire.transport_choice import carriers_of, transport_on
from halowire.wire.transport_nccl import NcclTransport
from halowire.wire.transport_pinned import PinnedTransport

__all__ = [
    "AFFINE", "BACKWARD", "BASES", "BITS", "FORWARD", "FRESH", "HEADER_BYTES", "LATE", "MEAN", "MEASURED_ROWS",
    "MEASURE_EVERY", "NONE", "WARN_AFTER", "Arrival", "BaseBit", "Budget", "ChunkExchange", "Circle", "Cover",
    "Crossing", "Draws", "Envelope", "Extend", "Form", "Freshness", "GradientCodec", "HaloExchange", "HaloExchanges",
    "InProcessTransport", "Machines", "Message", "NcclTransport", "Packed", "Pending", "Piece", "PinnedTransport",
    "Policy", "Rate", "Routes", "RowCodec", "Source", "StageLink", "Transport", "agree_on_codec", "any_worker",
    "bounded", "by_base", "carriers_of", "check_codec", "codec_of", "column_subset", "counts_of", "exponential",
    "gpu_of", "grade_bits",
    "grade_counts", "hold_watchdog", "leave_group", "linear", "pairs_of", "parse_steps", "process_watch",
    "refuse_outside", "row_subset", "run_threads", "sample_size", "seconds_text", "sent_over", "stepped",
    "transport_on", "vector_on",
]  # fmt: skip
