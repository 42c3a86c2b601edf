"""Simulated upstreams: deterministic by seed, with the faults of the real ones, and a log that proves what was sent.

Serper's places API so far. They start inside `demo` and tests, and alone (`python -m forager.sandbox`). Never used
against the outside: they listen on the loopback address only.
"""

from forager.sandbox.config import SerperConfig
from forager.sandbox.faults import Fault, Rule
from forager.sandbox.log import Entry, RequestLog, read_log
from forager.sandbox.server import SerperSandbox, serve
from forager.sandbox.world import FULL_DENSITY, MIXED_DENSITY, Band, World

__all__ = [
    "FULL_DENSITY",
    "MIXED_DENSITY",
    "Band",
    "Entry",
    "Fault",
    "RequestLog",
    "Rule",
    "SerperConfig",
    "SerperSandbox",
    "World",
    "read_log",
    "serve",
]
