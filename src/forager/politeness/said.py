"""A rule in force together with its source, so that people can see whom to ask."""

from dataclasses import dataclass
from typing import Any, Literal

By = Literal["operator", "file", "pipeline", "default", "settings"]


@dataclass(frozen=True, slots=True)
class Said:
    """A number in force, and whose it is."""

    value: Any
    by: By
    where: str
    """The domain, lane or setting that says it."""
