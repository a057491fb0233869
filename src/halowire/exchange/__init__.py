"""What goes over the wire: transport, codecs, and the halo exchange."""

from halowire.exchange.codec import Codec, Full, Packed, Source, codec_of
from halowire.exchange.codec_check import agree_on_codec, check_codec
from halowire.exchange.features import exchange_features
from halowire.exchange.freshness import Freshness
from halowire.exchange.gradients import GradientCodec
from halowire.exchange.halo import HaloExchange
from halowire.exchange.loading import Flight
from halowire.exchange.own_codec import Draws, RowCodec
from halowire.exchange.policy import Policy
from halowire.exchange.rate import BACKWARD, FORWARD, Rate
from halowire.exchange.transport import Circle, LateError, Pending, Transport

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
    "LateError",
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
