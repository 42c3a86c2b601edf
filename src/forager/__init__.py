"""Forager collects web data reliably: crash-safe, rate-limited, priced up front."""

__version__ = "0.1.0"
