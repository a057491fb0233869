"""What happened: events as JSON lines, and the ledger of bytes and seconds."""

from halowire.events.ledger import EVAL, GRADIENT, SETUP, STAGE, TRAIN, Ledger, LedgerEntry
from halowire.events.log import EventLog, plain, read_events

__all__ = [
    "EVAL", "GRADIENT", "SETUP", "STAGE", "TRAIN", "EventLog", "Ledger", "LedgerEntry", "plain", "read_events",
]  # fmt: skip
