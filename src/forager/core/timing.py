"""Time-outs that do not count what is waited for others."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


@asynccontextmanager
async def standing_still(limit: asyncio.Timeout | None) -> AsyncIterator[None]:
    """While the block runs, the time-out's clock does not."""
    if limit is None or (ends := limit.when()) is None:
        yield
        return
    loop = asyncio.get_running_loop()
    left = ends - loop.time()
    limit.reschedule(None)
    try:
        yield
    finally:
        if not limit.expired():
            limit.reschedule(loop.time() + left)
