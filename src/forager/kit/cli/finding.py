"""The result of one check of `forager doctor`. A feature's `checks(settings)` yields these."""

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "note", "problem"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding. A problem keeps Forager from working; a note is only information."""

    check: str
    state: State
    message: str
    remedy: str = ""
    """What to do about it, if anything."""
