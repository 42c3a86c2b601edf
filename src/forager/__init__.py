"""Forager collects web data reliably: crash-safe, rate-limited, priced up front."""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import `forager.read` when it is used: every module imports this one, and none may depend on that."""
    if name == "read":
        return import_module("forager.client.records").read
    raise AttributeError(f"module 'forager' has no attribute {name!r}")
