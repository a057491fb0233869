"""What goes over the network: routes, policies, codecs, messages, and the exchanges that send them."""

from halowire.wire.base_bit import BaseBit
from halowire.wire.chunk_halo import ChunkExchange, ChunkRoute, Routes
from halowire.wire.code_error import MEASURE_EVERY, MEASURED_ROWS
from halowire.wire.codec import Codec, Full, Packed, Source, codec_of
from halowire.wire.codec_check import agree_on_codec, check_codec
from halowire.wire.crossing import Crossing, Extend
from halowire.wire.feature_exchange import exchange_features, exchange_flat
from halowire.wire.freshness import Freshness
from halowire.wire.graded import BASES, by_base, grade_bits, grade_counts
from halowire.wire.gradients import GradientCodec
from halowire.wire.halo_exchange import HaloExchange
from halowire.wire.in_process import InProcessTransport, run_threads
from halowire.wire.message import Arrival, Message
from halowire.wire.own_codec import Draws, RowCodec
from halowire.wire.policy import Policy
from halowire.wire.rate import BACKWARD, BITS, FORWARD, Rate
from halowire.wire.ratio_schedule import Budget, exponential, linear, parse_steps, stepped
from halowire.wire.route import Piece, Route
from halowire.wire.stage_link import StageLink
from halowire.wire.subset import column_subset, row_subset, sample_size
from halowire.wire.transport import Circle, Pending, Transport

__all__ = [
    "BACKWARD",
    "BASES",
    "BITS",
    "FORWARD",
    "MEASURED_ROWS",
    "MEASURE_EVERY",
    "Arrival",
    "BaseBit",
    "Budget",
    "ChunkExchange",
    "ChunkRoute",
    "Circle",
    "Codec",
    "Crossing",
    "Draws",
    "Extend",
    "Freshness",
    "Full",
    "GradientCodec",
    "HaloExchange",
    "InProcessTransport",
    "Message",
    "Packed",
    "Pending",
    "Piece",
    "Policy",
    "Rate",
    "Route",
    "Routes",
    "RowCodec",
    "Source",
    "StageLink",
    "Transport",
    "agree_on_codec",
    "by_base",
    "check_codec",
    "codec_of",
    "column_subset",
    "exchange_features",
    "exchange_flat",
    "exponential",
    "grade_bits",
    "grade_counts",
    "linear",
    "parse_steps",
    "row_subset",
    "run_threads",
    "sample_size",
    "stepped",
]
