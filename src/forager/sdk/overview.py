"""Contribution of a feature to the overview: its spending, and its problems."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal


@dataclass(frozen=True, slots=True)
class Expenses:
    """US dollars by UTC day and month. A cap is None where none is set."""

    today: Decimal
    month: Decimal
    cap_today: Decimal | None = None
    cap_month: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Concern:
    """Something of a feature that needs a look."""

    kind: Literal["parser", "key", "store"]
    title: str
    """The problem in a few words."""
    detail: str
    """Time of its beginning, and the next automatic action."""
    href: str
    """The page of the dashboard that shows it."""
