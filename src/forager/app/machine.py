"""Provides what an application takes from its machine: threads, processes, connections and chance.

`open_app` builds everything else itself. A simulation replaces these, and the clock, to run the whole application in
one thread, where a seed decides what happens and in which order. Nothing here decides about work.
"""

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from forager.core.clock import Faults, NoFaults
from forager.core.reading import Offload
from forager.fetch.http.fetcher import HttpFetcher
from forager.ledger.sqlite.connection import Writer
from forager.reading.pool import ReaderPool
from forager.storage.pages.local import LocalBlobs


class Readers(Offload, Protocol):
    """Parses pages until it is closed."""

    async def close(self) -> None: ...


def _name() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The makers of the parts that use threads, processes, sockets or random numbers."""

    writer: type[Writer] = Writer
    """Commits to the embedded store, in a thread."""
    blobs: type[LocalBlobs] = LocalBlobs
    """Stores pages in a folder, in a thread."""
    fetcher: type[HttpFetcher] = HttpFetcher
    """Sends requests, over sockets."""
    readers: Callable[[int], Readers] = ReaderPool
    """Parse pages, in this number of processes."""
    random: Callable[[], Random] = Random
    """Makes the source of jitter."""
    name: Callable[[], str] = _name
    """Returns the name of this process, which people see next to its sessions."""
    faults: Faults = field(default_factory=NoFaults)
    """Fail points at the commits of the embedded store."""


THIS_MACHINE = Machine()
