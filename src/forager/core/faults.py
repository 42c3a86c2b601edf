"""Fail points: places where a test can stop the program. The default does nothing."""

from typing import Protocol


class Faults(Protocol):
    def at(self, point: str) -> None:
        """Called at a commit boundary; a test's version may kill the process here."""
        ...


class NoFaults:
    def at(self, point: str) -> None:
        return
