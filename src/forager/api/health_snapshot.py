"""The state of the store, which health and metrics share. It is read at most once a second, however often these routes
are called: they are open without a key, so they must stay cheap."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from forager.app import App
from forager.core.errors import StoreError, StoreFull
from forager.core.proxies import Proxy
from forager.core.sink import SinkStatus
from forager.core.watch import WatchStatus
from forager.kit.figures import Figure
from forager.ledger.reports import Health, QueueLoad

FRESH = 1.0
PATIENCE = 2.0


@dataclass(frozen=True, slots=True)
class Vital:
    store: str
    """`ok`, or what is wrong with it in one word."""
    figures: Health | None
    circuits: Mapping[str, str] = field(default_factory=dict)
    """Lanes whose breaker is not closed."""
    proxies: Sequence[Proxy] = ()
    sinks: Sequence[SinkStatus] = ()
    watches: Sequence[WatchStatus] = ()
    features: Sequence[Figure] = ()
    """What pipelines count themselves."""
    time: datetime | None = None
    """The moment of these figures, by the store's clock."""
    queues: Mapping[str, QueueLoad] = field(default_factory=dict)
    """Lanes that have work and no owner."""
    sessions: Mapping[str, int] = field(default_factory=dict)
    """Living sessions by the queue that they serve …"""
    shifts: Mapping[str, int] = field(default_factory=dict)
    """… and those of them that are Celery shifts."""


class VitalSigns:
    def __init__(self, app: App) -> None:
        self._app = app
        self._last = Vital("unknown", None)
        self._taken_at: float | None = None
        self._taking = asyncio.Lock()

    async def take(self) -> Vital:
        async with self._taking:
            now = self._app.clock.monotonic()
            if self._taken_at is None or now - self._taken_at >= FRESH:
                self._last = await self._ask()
                self._taken_at = now
            return self._last

    async def _ask(self) -> Vital:
        try:
            async with asyncio.timeout(PATIENCE):
                app = self._app
                figures = await app.reports.health()
                time = await app.ledger.now()
                now = round(time.timestamp() * 1000)
                sinks = await app.roster.statuses()
                watches = await app.watches.statuses()
                circuits, proxies = await app.reports.circuits(now), await app.proxies.list()
                features, queues = await _figures(app), await app.reports.waiting_by_queue(now)
                sessions, shifts = await app.reports.sessions_by_queue(now), await app.reports.shifts_by_queue(now)
                return Vital("ok", figures, circuits, proxies, sinks, watches, features, time, queues, sessions, shifts)
        except StoreFull:
            return Vital("full", None)
        except (StoreError, TimeoutError):
            return Vital("unavailable", None)


async def _figures(app: App) -> list[Figure]:
    counting = [each.figures.load() for each in app.features.values() if each.figures is not None]
    return [figure for count in counting for figure in await count(app)]
