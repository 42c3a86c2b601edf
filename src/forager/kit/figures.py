"""Figures that a feature adds to `/metrics`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """A gauge without labels. Its name begins with `forager_`."""

    name: str
    about: str
    """One sentence: what it counts."""
    value: float
