"""What one check of `forager doctor` has found. A feature's `checks(settings)` yields these."""

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "note", "problem"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem keeps Forager from working; a note is what an operator may want to know."""

    check: str
    state: State
    message: str
    remedy: str = ""
    """What to do about it, if anything."""
