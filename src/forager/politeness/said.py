"""A rule in force together with its source, so that operators can see where it comes from."""

from dataclasses import dataclass
from typing import Any, Literal

By = Literal["operator", "file", "pipeline", "default", "settings"]


@dataclass(frozen=True, slots=True)
class Said:
    """A value in force, and its source."""

    value: Any
    by: By
    where: str
    """The domain, lane or setting that defines it."""
