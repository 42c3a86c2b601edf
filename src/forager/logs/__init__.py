"""The log: JSON lines for machines, readable lines for a terminal, secrets removed from both."""

from forager.logs.lines import configure_logs

__all__ = ["configure_logs"]
