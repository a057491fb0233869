"""What goes over the wire: transport, codecs, and the halo exchange."""

from halowire.wire.codec import Codec, Full, Packed, Source, codec_of
from halowire.wire.codec_check import agree_on_codec, check_codec
from halowire.wire.features import exchange_features
from halowire.wire.freshness import Freshness
from halowire.wire.gradients import GradientCodec
from halowire.wire.halo import HaloExchange
from halowire.wire.loading import Flight
from halowire.wire.own_codec import Draws, RowCodec
from halowire.wire.policy import Policy
from halowire.wire.rate import BACKWARD, FORWARD, Rate
from halowire.wire.transport import Circle, Pending, Transport

__all__ = [
    "BACKWARD",
    "FORWARD",
    "Circle",
    "Codec",
    "Draws",
    "Flight",
    "Freshness",
    "Full",
    "GradientCodec",
    "HaloExchange",
    "Packed",
    "Pending",
    "Policy",
    "Rate",
    "RowCodec",
    "Source",
    "Transport",
    "agree_on_codec",
    "check_codec",
    "codec_of",
    "exchange_features",
]
