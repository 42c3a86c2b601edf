"""A shift: the engine works on the lanes of one queue until nothing is left, its time is over, or the worker stops."""

from collections.abc import Callable

from forager.app import App
from forager.engine.lane_ownership import QUANTUM

LOOK_EVERY = 0.1
SHARE_WITHIN = QUANTUM + 3.0
"""Seconds within which a session gets its share of lanes that others hold: their quantum, and a moment."""
_OWNED = "SELECT count(*) AS lanes FROM lanes WHERE owner IS NOT NULL AND queue = :queue"


async def work_shift(app: App, queue: str, is_stopping: Callable[[], bool]) -> None:
    """Work on the lanes of a queue, then drain: in-flight tasks finish, or return to the queue.

    Ends when nothing was left for `shift_idle_seconds`, or after `shift_seconds`, or when `is_stopping()`. A shift that
    has had no work yet stays longer while other sessions hold several lanes of the queue, because they make room for
    it. Raises what broke the engine.
    """
    settings, clock, worker = app.settings, app.clock, app.worker
    began = quiet_since = clock.monotonic()
    first = seen = worker.stats.started
    if is_stopping():
        return
    async with app.shift(queue) as engine:
        while not engine.done() and not is_stopping():
            await clock.sleep(LOOK_EVERY)
            now = clock.monotonic()
            if now - began >= settings.shift_seconds:
                break
            if worker.is_busy or worker.stats.started != seen:
                quiet_since, seen = now, worker.stats.started
            elif now - quiet_since >= settings.shift_idle_seconds:
                has_worked, has_waited = worker.stats.started > first, now - began > SHARE_WITHIN
                if has_worked or has_waited or not await _others_have_many(app, queue):
                    break
                quiet_since = now
        if engine.done():
            engine.result()


async def _others_have_many(app: App, queue: str) -> bool:
    rows = await app.database.fetch(_OWNED, {"queue": queue})
    return int(rows[0]["lanes"]) > 1
