"""The verbs that both databases do with the same SQL. Never on a hot path."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from forager.core.change import Change
from forager.core.database import Database
from forager.core.errors import Conflict
from forager.core.recheck import MOST_AT_ONCE, Dispatched, Recheck
from forager.core.upkeep import Keep, LastNumbers, Pruned, RestoredJob, resolved
from forager.ledger.catalog import Catalog
from forager.ledger.rules.changes import ChangeReader
from forager.ledger.rules.recheck import RecheckPage, Taken, is_paused, read_next_due, read_page
from forager.ledger.rules.upkeep import Retention, lanes_of

PAGES_AT_ONCE = 100
"""Pages of one recheck that are requested at once: more would keep other commands from the writer for too long."""


class SharedVerbs(ABC):
    """The part of `Ledger` that needs nothing of its database but `fetch` and `write`."""

    database: Database
    _catalog: Catalog
    _retention: Retention

    @abstractmethod
    async def now_ms(self) -> int: ...

    @abstractmethod
    async def dispatch_page(self, page: RecheckPage) -> Taken:
        """Take the records of a page and add their tasks, in one transaction."""

    @abstractmethod
    async def write_restored(self, job: RestoredJob, lanes_: Mapping[int, str], last: LastNumbers) -> bool:
        """Write a restored job, in one transaction. `lanes_`: the names of its tasks' lanes."""

    async def restore(self, job: RestoredJob, last: LastNumbers) -> bool:
        resumed = resolved(job)
        lanes = await asyncio.to_thread(lanes_of, self._catalog, resumed.tasks)
        return await self.write_restored(resumed, lanes, last)

    async def dispatch_pages(self, pages: Sequence[RecheckPage]) -> Sequence[Taken | Conflict]:
        """Dispatch the pages of several standing jobs. Returns what each has done, or why its job takes no tasks.

        Many are requested at once, so that a store with one writer commits them together; one that fails is rolled back
        alone. Raises another error than `Conflict` when those that were requested with it are done.
        """
        done: list[Taken | Conflict] = []
        for first in range(0, len(pages), PAGES_AT_ONCE):
            few = (self.try_page(page) for page in pages[first : first + PAGES_AT_ONCE])
            for each in await asyncio.gather(*few, return_exceptions=True):
                if isinstance(each, BaseException) and not isinstance(each, Conflict):
                    raise each
                done.append(each)
        return done

    async def try_page(self, page: RecheckPage) -> Taken | Conflict:
        """Dispatch a page. Returns the `Conflict` if its standing job is being cancelled."""
        try:
            return await self.dispatch_page(page)
        except Conflict as refusal:
            return refusal

    async def dispatch(self, pipeline: str, recheck: Recheck, most: int = MOST_AT_ONCE) -> Dispatched:
        if await is_paused(self.database, recheck):
            return Dispatched()
        now = await self.now_ms()
        page = await read_page(self.database, self._catalog, pipeline, recheck, now, most)
        taken = await self._dispatch_all(page) if page.rows or page.postponed else Taken()
        done = Dispatched(*taken[:3])
        if page.full:
            return replace(done, more=bool(taken.records or taken.postponed))
        return replace(done, next_due=now if taken.contested else await read_next_due(self.database, recheck, now))

    async def _dispatch_all(self, page: RecheckPage) -> Taken:
        """A standing job that is being cancelled leaves its records due and stops no other. Raises `Conflict` if
        nothing could be taken because of such jobs."""
        taken, refusal = Taken(), None
        for done in await self.dispatch_pages(page.by_job()):
            if isinstance(done, Conflict):
                refusal = done
            else:
                taken = taken.plus(done)
        if refusal is not None and not taken.records:
            raise refusal
        return taken

    def announce(self, url: str | None) -> None:  # noqa: B027 - the embedded store alone overrides it
        """Do nothing: a database that many processes share keeps no address."""

    async def changes(
        self,
        after: int,
        limit: int,
        *,
        job: UUID | None = None,
        kinds: Collection[str] | None = None,
        until: int | None = None,
        bodies: bool = True,
    ) -> Sequence[Change]:
        reader = ChangeReader(self.database, self._catalog)
        return await reader.page(after, limit, job=job, kinds=kinds, until=until, bodies=bodies)

    async def has_work(
        self, of: Collection[str] | None = None, *, but: Collection[str] = (), ready: bool = False
    ) -> bool:
        if of is not None and not of:
            return False
        values = {f"name{number}": name for number, name in enumerate((*(of or ()), *but))}
        names = [f":{name}" for name in values]
        inside, outside = ", ".join(names[: len(of or ())]), ", ".join(names[len(of or ()) :])
        where = [f"j.pipeline IN ({inside})"] if inside else []
        where += [f"j.pipeline NOT IN ({outside})"] if outside else []
        where += [_READY] if ready else []
        return bool(await self.database.fetch(" AND ".join([_OPEN, *where]) + " LIMIT 1", values))

    async def wake_lanes(self) -> None:
        await self.database.write(
            "UPDATE lanes SET wake_at = CAST(:now AS BIGINT) WHERE owner IS NULL AND wake_at > CAST(:now AS BIGINT)",
            {"now": await self.now_ms()},
        )

    async def prune(self, keep: Keep, sinks: Collection[str]) -> Pruned:
        return await self._retention.page(keep, sinks, await self.now_ms())

    async def undelivered_since(self, sinks: Collection[str]) -> int:
        return (await self._retention.undelivered_since(sinks, await self.now_ms()))[1]

    async def prunable(self, keep: Keep, sinks: Collection[str]) -> Pruned:
        return await self._retention.prunable(keep, sinks, await self.now_ms())


_OPEN = "SELECT 1 AS one FROM jobs j WHERE j.finished_at IS NULL AND j.state <> 'paused'"
# Ready, running, or a suspect of a crash.
_READY = "EXISTS (SELECT 1 FROM tasks_now t WHERE t.job_id = j.id AND t.state IN (0, 3, 8))"
