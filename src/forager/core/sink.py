"""Where changes are delivered: a port of one verb. The engine keeps the cursor."""

from collections.abc import Sequence
from typing import Protocol

from forager.core.ledger import Change


class Sink(Protocol):
    @property
    def name(self) -> str:
        """Its cursor is kept under this name: a sink with a new name starts from the first change."""
        ...

    @property
    def kinds(self) -> frozenset[str] | None:
        """The kinds of changes that it wants; None means all."""
        ...

    async def write(self, batch: Sequence[Change]) -> bool:
        """Deliver the whole batch, or raise. The same change may come again: it must take effect once, by its id.

        Returns False if nothing in the batch concerned this sink, so that reading it again would do nothing either.
        """
        ...
