"""The store as the flows use it: its API and, where this process may lease tasks, the engine in batches.

On PostgreSQL, and on an embedded store that no other process has, a flow opens the store itself. Beside a running
`forager up` on the embedded store, it goes through that process's API: it creates and watches jobs, and `up` does the
work. A processor on the embedded store serves the API in the same way, so that jobs can be created while it runs.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from prefect.logging.handlers import PrefectConsoleHandler

from forager.api import create_api
from forager.api.serve import serve
from forager.app.application import App
from forager.app.compose import open_app
from forager.app.config import load_settings
from forager.client.connect import LOCAL_KEY, LocalTransport, find_running, has_up, over_http
from forager.core.errors import Rejected, StoreLocked
from forager.core.ledger import Settlement
from forager.engine.work.batch import BatchWork
from forager.logging import configure_logs
from forager.sdk.cli.client import Api
from forager.sdk.queries import job_number
from forager.secrets.service_key import service_key, service_key_for
from forager.settings import Settings

# One log for Prefect and Forager in a flow run: Prefect's lines in its own form, ours in ours, and each line once.


def share_log() -> None:
    """Give Prefect's console handler to Prefect's own loggers. Call it after `configure_logs`.

    Prefect puts that handler on the root logger, where it would write our lines a second time, without our removal of
    secrets. Lines that Prefect sends to its server are not affected.
    """
    root, own = logging.getLogger(), logging.getLogger("prefect")
    for handler in [each for each in root.handlers if isinstance(each, PrefectConsoleHandler)]:
        root.removeHandler(handler)
        own.addHandler(handler)
    own.propagate = not own.handlers


PIPELINE = "places"
LOOK_FOR_STORE_EVERY = 1.0
OPEN_STATES = ("queued", "running")
ENDED = ("completed", "failed", "skipped", "cancelled")
"""The final states of a query."""


@dataclass(frozen=True, slots=True)
class Lagging:
    """A sink that has not delivered every change up to a number of the log."""

    name: str
    behind: int
    state: str
    error: str | None

    def __str__(self) -> str:
        why = f"; its last error: {self.error}" if self.error and self.state == "failing" else ""
        return f"{self.name} ({self.state}, {self.behind:,} changes behind{why})"


class Desk:
    """The places jobs of one store."""

    def __init__(self, settings: Settings, api: Api, app: App | None = None) -> None:
        self.settings = settings
        self._api = api
        self._app = app
        self._batches: BatchWork | None = None
        self.leased = 0
        """Number of queries that were leased here."""

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Hold a session, and deliver changes to the sinks, while the block runs. Only watches if another process has
        the store."""
        if self._app is None or self._batches is not None:
            yield
            return
        async with self._app.batches() as self._batches:
            try:
                yield
            finally:
                self._batches = None

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Serve the API of an embedded store that this process owns while the block runs, so that other processes can
        create jobs in it. Its address is in the lock file of the store."""
        if self._app is None or self.settings.database_url is not None:
            yield
            return
        key, _ = service_key(self.settings.home, self.settings.service_key)
        async with serve(self._app, host="127.0.0.1", port=0, key=key):
            yield

    @property
    def is_worked_on(self) -> bool:
        """Return whether a running Forager works on every job of this store, so that no processor is needed."""
        settings = self.settings
        return settings.database_url is None and (settings.api_url is not None or has_up(settings.home))

    async def create(self, params: Mapping[str, Any], key: str) -> Mapping[str, Any]:
        """Create a job, once for each key. Raises `Rejected`, whose message names each invalid field."""
        given = {name: value for name, value in params.items() if value is not None}
        try:
            made: Mapping[str, Any] = (await self._api.create("/places/jobs", given, idempotency_key=key)).data
        except Rejected as error:  # Prefect shows only the message
            named = "; ".join(f"{each.field}: {each.message}" for each in error.fields)
            raise type(error)(f"{error.message} {named}".rstrip(), fields=error.fields) from None
        return made

    async def open_jobs(self) -> list[Mapping[str, Any]]:
        """Return the jobs that are queued or running, oldest first."""
        found: list[Mapping[str, Any]] = []
        for state in OPEN_STATES:
            async for page in self._api.pages("/jobs", state=state, pipeline=PIPELINE):
                found += page
        return sorted(found, key=lambda job: str(job["created_at"]))

    async def job(self, job: str) -> Mapping[str, Any]:
        """Return the report of one job, with its counters."""
        report: Mapping[str, Any] = await self._api.get(f"/jobs/{UUID(job)}")
        return report

    async def lease(self, job: str, most: int) -> Sequence[str]:
        """Lease up to `most` queries of a job. Returns their keys; none while another process has the lane."""
        if self._app is None or self._batches is None:
            return ()
        number = await job_number(self._app.database, UUID(job))
        lanes = [lane.name for lane in self._app.pipelines[PIPELINE].lanes]
        keys = [lease.key for lease in await self._batches.lease(number, lanes, most)]
        self.leased += len(keys)
        return keys

    async def log_end(self) -> int:
        """Return the number of the newest change that sinks are to deliver."""
        return max((int(sink["cursor"]) + int(sink["behind"]) for sink in await self._api.get("/sinks")), default=0)

    async def lagging(self, until: int) -> Sequence[Lagging]:
        """Deliver what this process can, and return the sinks of places that have not passed the change `until`.

        Sinks of other pipelines do not count, nor do sinks that are no longer configured.
        """
        if self._app is not None and self._batches is not None:
            for delivery in list(self._app.deliveries.values()):
                await delivery.deliver_new()
        return [
            Lagging(sink["name"], until - int(sink["cursor"]), sink["state"], sink["error"] or sink["problem"])
            for sink in await self._api.get("/sinks")
            if sink["origin"] is not None
            and (sink["pipelines"] is None or PIPELINE in sink["pipelines"])
            and int(sink["cursor"]) < until
        ]

    async def attempt(self) -> Mapping[str, int]:
        """Send the leased queries. Returns how many ended in which state."""
        return {} if self._batches is None else _counted(await self._batches.attempt())

    async def settle(self) -> Mapping[str, int]:
        """Store how the queries ended, with what they found. Returns how many were stored, by state."""
        return {} if self._batches is None else _counted(await self._batches.settle())

    async def work_arrived(self, timeout: float) -> None:
        """Wait until there may be something to lease, or for `timeout` seconds."""
        if self._app is None:
            await asyncio.sleep(timeout)
        else:
            await self._app.ledger.work_arrived(timeout)


_CURRENT: ContextVar[Desk | None] = ContextVar("desk", default=None)


@asynccontextmanager
async def at_desk() -> AsyncIterator[Desk]:
    """Yield the desk of the flow that called this one, or open one from the settings of this process."""
    current = _CURRENT.get()
    if current is not None:
        yield current
        return
    settings = load_settings()
    configure_logs(settings.log_level, settings.log_format, settings.secrets())
    share_log()
    async with AsyncExitStack() as stack:
        desk = await open_desk(settings, stack)
        token = _CURRENT.set(desk)
        try:
            yield desk
        finally:
            _CURRENT.reset(token)


def current_desk() -> Desk:
    """Return the desk of the flow that runs. Raises `RuntimeError` for a task that was called outside a flow."""
    current = _CURRENT.get()
    if current is None:
        raise RuntimeError(
            "This task needs a store to work on: call it in one of the flows of forager.runners.prefect."
        )
    return current


async def open_desk(settings: Settings, stack: AsyncExitStack) -> Desk:
    """Open the store until the stack is closed, or use the API of the process that has it.

    Waits while a process without an API has the store: it may be another run of these flows. Raises `StoreError` if
    this process does not have the keys and the folder of pages that the ledger needs.
    """
    while True:
        if settings.database_url is None and find_running(settings) is not None:
            return Desk(
                settings,
                over_http(lambda: find_running(settings), service_key_for(settings.home, settings.service_key)),
            )
        try:
            app = await stack.enter_async_context(open_app(settings, must_fit=True))
        except StoreLocked:
            await asyncio.sleep(LOOK_FOR_STORE_EVERY)
        else:
            return Desk(settings, Api(LocalTransport(create_api(app, key=LOCAL_KEY)), LOCAL_KEY), app)


def ended(counts: Mapping[str, Any]) -> int:
    """Return how many of the queries that are counted by state have ended. Those that wait for a retry have not."""
    return sum(int(counts.get(state, 0)) for state in ENDED)


def _counted(settled: Sequence[Settlement]) -> Mapping[str, int]:
    return dict(Counter(each.state.name.lower() for each in settled))
