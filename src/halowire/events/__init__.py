"""What happened: events as JSON lines, and the ledger of bytes and seconds."""

from halowire.events.ledger import EVAL, GRADIENT, SETUP, STAGE, TRAIN, Entry, Ledger
from halowire.events.log import EventLog, plain, read_events

__all__ = ["EVAL", "GRADIENT", "SETUP", "STAGE", "TRAIN", "Entry", "EventLog", "Ledger", "plain", "read_events"]
