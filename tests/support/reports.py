"""Shared by tests of reports: a job with something of each kind, and all pages of a list."""

from collections.abc import Awaitable, Callable
from typing import TypeVar
from uuid import UUID

from forager.ledger.reports import QueryPage
from tests.support.places_rig import PlacesRig, found

T = TypeVar("T")


async def whole(ask: Callable[[str | None], Awaitable[QueryPage[T]]]) -> list[T]:
    """All pages of a list."""
    items: list[T] = []
    cursor: str | None = None
    for _ in range(1_000):
        page = await ask(cursor)
        items.extend(page.items)
        if page.next_cursor is None:
            return items
        cursor = page.next_cursor
    raise AssertionError("the pages have no end")


async def mixed_job(rig: PlacesRig) -> UUID:
    """One ZIP ended early, one failed on page 1, one is in flight."""
    job = await rig.submit(zips=("85001", "85003", "85004"), pages=3, max_credits=100)
    leases = await rig.lease()
    await rig.answer(leases["85001/1"], found(1, 7))
    await rig.refuse(leases["85003/1"])
    return job
