"""Where changes are delivered: a port of one verb. Whoever drives it keeps the cursor."""

from collections.abc import Sequence
from typing import Protocol

from forager.core.ledger import Change


class Sink(Protocol):
    @property
    def name(self) -> str:
        """Its cursor is kept under this name: a sink with a new name starts from the first change."""
        ...

    @property
    def kind(self) -> str | None:
        """The one kind of change that it wants; None: all."""
        ...

    async def write(self, batch: Sequence[Change]) -> bool:
        """All of them, or raise. The same change may come again: once in effect, by its id.

        False: none of them is anything to this sink, so that to look at them again would do nothing either.
        """
        ...
