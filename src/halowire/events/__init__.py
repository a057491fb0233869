"""What happened in a run: events as JSON lines, the ledger of bytes and seconds, and the names of metrics."""

from halowire.events.clocks import Clock, DeviceClock, HostClock, clock_of
from halowire.events.ledger import ACCOUNTS, EVAL, GRADIENT, LOCAL, NETWORK, SETUP, STAGE, TRAIN, Ledger, LedgerEntry
from halowire.events.log import EventLog, plain, read_events
from halowire.events.metric_names import (
    CLASS_METRICS,
    HITS,
    LINK_METRICS,
    LOWER_IS_BETTER,
    NO_SHARE,
    VALUE_METRICS,
    best_of,
    choose_metric,
    is_better,
)

__all__ = [
    "ACCOUNTS", "CLASS_METRICS", "EVAL", "GRADIENT", "HITS", "LINK_METRICS", "LOCAL", "LOWER_IS_BETTER", "NETWORK",
    "NO_SHARE", "SETUP", "STAGE", "TRAIN", "VALUE_METRICS", "Clock", "DeviceClock", "EventLog", "HostClock", "Ledger",
    "LedgerEntry", "best_of", "choose_metric", "clock_of", "is_better", "plain", "read_events",
]  # fmt: skip
