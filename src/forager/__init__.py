"""Forager collects web data reliably: crash-safe, rate-limited, priced up front."""

from importlib import import_module
from typing import Any

__version__: str


def __getattr__(name: str) -> Any:
    """Import `forager.read` when it is used: every module imports this one, and none may depend on that. The version is
    that of the installed distribution, which has it from the tag; looked up once."""
    if name == "read":
        return import_module("forager.client.records").read
    if name == "__version__":
        globals()[name] = _installed_version()
        return globals()[name]
    raise AttributeError(f"module 'forager' has no attribute {name!r}")


def _installed_version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("forager-data")
    except PackageNotFoundError:  # the sources are on the path, and nothing is installed
        return "0.0.0"
