"""The port of the ledger: verbs at the level of intent, never `execute(sql)`. Two implementations, one contract suite.

Every verb is one transaction. Durations are in seconds, points in time in Unix milliseconds. The port has three parts:
`queue` (jobs, tasks, lanes), `upkeep` (sweeps, retention, restore) and `store` (changes, clock, queries).
"""

from typing import Protocol

from forager.core.ledger.queue import (
    SHIFT,
    Away,
    Demand,
    Extras,
    GivenLane,
    JobNews,
    Lease,
    LeaseBatch,
    LedgerQueue,
    LogLine,
    NewJob,
    OwnedLane,
    PartsReceived,
    Session,
    Settlement,
    Submitted,
    Tried,
    Want,
)
from forager.core.ledger.store import LedgerStore
from forager.core.ledger.upkeep import LedgerUpkeep, Swept

__all__ = [
    "SHIFT",
    "Away",
    "Demand",
    "Extras",
    "GivenLane",
    "JobNews",
    "Lease",
    "LeaseBatch",
    "Ledger",
    "LedgerQueue",
    "LedgerStore",
    "LedgerUpkeep",
    "LogLine",
    "NewJob",
    "OwnedLane",
    "PartsReceived",
    "Session",
    "Settlement",
    "Submitted",
    "Swept",
    "Tried",
    "Want",
]


class Ledger(LedgerQueue, LedgerUpkeep, LedgerStore, Protocol):
    """The durable store of jobs, tasks, lanes, records and changes."""
