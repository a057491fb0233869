"""What goes over the wire: transport, codecs, and the halo exchange."""

from halowire.exchange.codec import Codec, Full
from halowire.exchange.features import exchange_features
from halowire.exchange.halo import Flight, HaloExchange
from halowire.exchange.transport import LateError, Pending, Transport

__all__ = ["Codec", "Flight", "Full", "HaloExchange", "LateError", "Pending", "Transport", "exchange_features"]
