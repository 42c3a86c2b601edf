"""`App`: everything that the API, the command line and the pipelines' own edges may ask of one process."""

import asyncio
import dataclasses
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any
from uuid import UUID

from pydantic import BaseModel

from forager.app.archive import Archive
from forager.app.intake import Intake
from forager.app.references import References
from forager.app.retries import Retries, require_secrets
from forager.app.sink_roster import SinkRoster
from forager.core.archive import Archives
from forager.core.clock import Clock
from forager.core.errors import Conflict, FieldError, NotFound, Rejected, Stopping
from forager.core.http import Response
from forager.core.ledger import Ledger, Received, Submitted
from forager.core.names import checked_name, no_such
from forager.core.pipeline import DEFAULT_QUEUE, Lane, Pipeline
from forager.core.record import Record
from forager.core.retention import Pruned
from forager.core.schedules import Charge, Schedule
from forager.core.secret import Secret
from forager.engine.batch import BatchWork
from forager.engine.deliver import Delivery
from forager.engine.prune import prune_forever
from forager.engine.schedule import MonthlyCost, Scheduler, monthly_cost, next_firing
from forager.engine.stored_pages import StoredPages
from forager.engine.sweep import sweep_forever, sweep_interval
from forager.engine.watch import Watcher
from forager.engine.work import Worker
from forager.features import all_sinks
from forager.fetch import EgressGuard
from forager.fetch.browser.fetcher import BrowserFetcher
from forager.fetch.proxies import ProxyPool
from forager.kit.feature import Feature
from forager.kit.indexed import Indexed
from forager.kit.search import TextIndex, index_of
from forager.lane_switch import switch_lane
from forager.ledger.reports import JobReport, Reports
from forager.ledger.side_tables.domains import Domains
from forager.ledger.side_tables.job_secrets import JobSecretTable
from forager.ledger.side_tables.schedules import ScheduleTable
from forager.ledger.side_tables.sink_rows import SinkRows
from forager.ledger.side_tables.sinks import SinkTable
from forager.ledger.side_tables.watches import WatchTable
from forager.politeness.rulebook import Rulebook
from forager.runners.embedded import EmbeddedRunner, Loop
from forager.secrets.sealing import Rotated
from forager.settings import Settings
from forager.waiting import Waits
from forager.wiring import keep_of, reference_loaders

SCHEDULES, WATCHES, RULES, SINKS = "schedules", "watches", "rules", "sinks"
SWEEP, PROXIES = "sweep", "proxies"


class App:
    """Forager in one process: a ledger, its reports, and the engine, which runs while `engine()` is entered."""

    def __init__(
        self,
        settings: Settings,
        features: Sequence[Feature],
        clock: Clock,
        pipelines: Sequence[Pipeline],
        ledger: Ledger,
        reports: Reports,
        worker: Worker,
        domains: Domains,
        sinks: SinkTable,
        rules: Rulebook,
        proxies: ProxyPool,
        browsers: BrowserFetcher,
        rotate: Callable[[], Awaitable[Rotated]],
        job_secrets: JobSecretTable,
        stored_pages: StoredPages,
        guard: EgressGuard,
        archives: Archives,
    ) -> None:
        self.is_api_only = False
        """Whether this process serves the API only, and other processes work."""
        self.runner_trouble: str | None = None
        """Why work that waits cannot be handed to the workers of another runner; None while it can."""
        self.refused_keys: Callable[[], Mapping[str, str]] = dict
        """Returns the keys that a service of ours refuses, by the name of their setting, with the reason."""
        self.guard = guard
        self.settings = settings
        self.features = {each.name: each for each in features}
        self.clock = clock
        self.pipelines = {p.name: p for p in pipelines}
        self.internal = tuple(p.name for p in pipelines if p.internal)
        """Pipelines whose jobs are left out of lists by default."""
        self.standing = tuple(watch.job_key for p in pipelines for watch in p.watches)
        """Idempotency keys of the standing jobs of watches. These jobs are left out, too, and so are those of one value
        (`job_key_of`)."""
        self.ledger = ledger
        self.database = ledger.database
        self.reports = reports
        self.domains = domains
        self.rules = rules
        self.proxies = proxies
        self.browsers = browsers
        self.rotate_keys = rotate
        self.job_secrets = job_secrets
        self.stored_pages = stored_pages
        self.worker = worker
        self.waits = Waits(reports, rules, worker, ledger.now)
        self.schedules = ScheduleTable(ledger.database)
        self.scheduler = Scheduler(self.schedules, self.create_scheduled, ledger.now, clock)
        self.watches = WatchTable(ledger.database, pipelines, ledger.now)
        self.watcher = Watcher(ledger, pipelines, clock)
        if self.watcher:
            worker.when_settled(self.watcher.tell)
        for each in features:
            if each.duties is not None:
                worker.perform(each.duties.load()(self))
        self.publications = {each.name: each.publication.load() for each in features if each.publication is not None}
        self.indexed: dict[str, Indexed] = {
            indexed.record.kind: indexed for each in features if each.indexed and (indexed := each.indexed.load())
        }
        self._search_indexes: dict[str, TextIndex] = {}
        self._to_close: list[Callable[[], Awaitable[None]]] = []
        self.mirrors = {each.name: each.mirror.load() for each in features if each.mirror is not None}
        self.results = {each.name: partial(each.results.load(), self) for each in features if each.results is not None}
        """Webhook results by pipeline, for pipelines that define their own."""
        self.keep = keep_of(settings)
        self.sinks = sinks
        self.roster = SinkRoster(
            self,
            all_sinks(),
            SinkRows(ledger.database, sinks, ledger.now_ms),
            lambda sink: Delivery(ledger, sinks, sink, clock, lambda: worker.session),
            clock,
        )
        self.deliveries = self.roster.deliveries
        records = {record.kind: record for pipeline in pipelines for record in pipeline.records}
        self.archive = Archive(settings, ledger, archives, records, clock, lambda: self.deliveries, self.search_index)
        self._runner = EmbeddedRunner(
            worker, self.deliveries, self._loops(), clock=clock, grace=settings.shutdown_seconds
        )
        self.retries = Retries(ledger, reports, self.pipelines, job_secrets)
        self._references = References(reference_loaders(settings, features))
        self._intake = Intake(
            ledger, self.pipelines, self._references, guard, rules, self.waits, job_secrets, self._priced
        )

    @property
    def refused(self) -> Counter[str]:
        """Jobs that this process has refused because the queue was full, by pipeline."""
        return self._intake.refused

    @property
    def queues(self) -> frozenset[str]:
        """The queues to which the lanes of the installed pipelines belong."""
        return frozenset({DEFAULT_QUEUE, *(lane.queue for p in self.pipelines.values() for lane in p.lanes)})

    # ── jobs ──

    async def submit(
        self,
        pipeline: str,
        params: Mapping[str, Any],
        *,
        key: str | None = None,
        until_end: bool = False,
        schedule: str | None = None,
        secrets: Mapping[str, Secret] | None = None,
    ) -> Submitted:
        """Validate a job, price it if it is a dry run, and create it. Raises `Rejected` if it is invalid and `Busy` if
        the queue is full."""
        if self.is_stopping:
            raise Stopping
        return await self._intake.submit(
            pipeline, params, key=key, until_end=until_end, schedule=schedule, secrets=secrets
        )

    async def open_job(
        self,
        pipeline: str,
        params: Mapping[str, Any],
        part: Mapping[str, Any],
        *,
        key: str | None = None,
        more: bool = True,
    ) -> Received:
        """Create a job that is sent in parts, with its first part, or return the one of this key that has not ended."""
        if self.is_stopping:
            raise Stopping
        return await self._intake.open_job(pipeline, params, part, key=key, more=more)

    async def add_part(self, job: UUID, pipeline: str, part: Mapping[str, Any], first: int, *, more: bool) -> Received:
        """Validate a part of such a job and add its tasks; the last part (`more=False`) starts the job."""
        if self.is_stopping:
            raise Stopping
        return await self._intake.add_part(job, pipeline, part, first, more=more)

    async def retry(self, job: UUID, *, secrets: Mapping[str, Secret] | None = None) -> int:
        """Requeue a job's failed tasks, and store the secrets that it needs again. Returns the number of requeued
        tasks."""
        return await self.retries.job(job, secrets or {})

    def fingerprint(self, secret: Secret) -> str:
        """Return a keyed hash of a secret: equal secrets have equal hashes, and a hash is useless without our key."""
        return self.job_secrets.fingerprint(secret)

    async def job_now(self, job: UUID) -> JobReport:
        """Return a job with why none of its tasks runs, if none does. Raises `NotFound`."""
        return await self.waits.job(await self.reports.job(job))

    async def switch_lane(self, lane: str, *, active: bool) -> str:
        """Pause or resume a lane and return its name. Raises `Rejected` for a host that belongs to another lane."""
        return await switch_lane(self, lane, active=active)

    async def set_rules(self, lane: str, changes: Mapping[str, Any]) -> None:
        """Set rules of a domain, and put them in force. Raises `Rejected`, naming the fields."""
        await self.domains.set(lane, changes)
        await self.rules.refresh()

    async def estimate(self, pipeline: str, params: Mapping[str, Any]) -> BaseModel:
        """Return what a job would cost. Sends no request and spends nothing. Raises `Rejected` if it cannot be
        priced."""
        return await self._priced(pipeline, await self._intake.checked(pipeline, params))

    # ── schedules ──

    async def put_schedule(self, schedule: Schedule, *, no_budget: bool = False, replace: bool = True) -> Schedule:
        """Validate a schedule and its job, and store it. Raises `Rejected` if its jobs cost money and have no budget,
        unless `no_budget`, and `Conflict` if there is one of this name, unless `replace`."""
        checked_name(schedule.name)
        if (schedule.cron is None) == (schedule.every is None):
            raise Rejected(
                "A schedule has either `cron` or `every`.", fields=[FieldError("cron", "give cron or every")]
            )
        if schedule.cron is None and schedule.timezone != "UTC":
            problem = "belongs to cron; an interval has no time zone"
            raise Rejected(f"timezone: {problem}.", fields=[FieldError("timezone", problem)])
        job = await self._intake.checked(schedule.pipeline, schedule.params)
        require_secrets(self.pipelines[schedule.pipeline], ())
        now = round((await self.ledger.now()).timestamp() * 1000)
        timed = dataclasses.replace(schedule, next_at=next_firing(schedule, now))
        if not no_budget:
            charge = await self._charge(schedule.pipeline, job)
            if charge is not None and not charge.has_budget:
                cost = monthly_cost(timed, charge, now).in_words()
                problem = f"give its jobs {charge.budget}, or confirm with `no_budget` that they have none"
                raise Rejected(
                    f"This schedule costs money and has no budget: {cost}. {problem[0].upper()}{problem[1:]}.",
                    fields=[FieldError("no_budget", problem)],
                )
        if not await self.schedules.put(timed, replace=replace):
            raise Conflict(
                f"There is a schedule {schedule.name!r} already, which was not changed. Replace it with `--replace` "
                "(`replace=true`), or choose another name."
            )
        return timed

    async def cost_of_schedule(self, schedule: Schedule) -> MonthlyCost | None:
        """Return what a schedule costs in a month; None if its jobs cost no money, or if they are not valid any more.
        Sends no request and spends nothing."""
        try:
            charge = await self._charge(
                schedule.pipeline, await self._intake.checked(schedule.pipeline, schedule.params)
            )
            now = round((await self.ledger.now()).timestamp() * 1000)
            return None if charge is None else monthly_cost(schedule, charge, now)
        except (Rejected, NotFound):
            return None

    async def warnings(self, pipeline: str, params: Mapping[str, Any]) -> list[str]:
        """Return what is doubtful about a valid job with a budget: that it is below the estimate, say. Sends no request
        and spends nothing."""
        job = await self._intake.checked(pipeline, params)
        if self.pipelines[pipeline].limits(job).max_cost is None:
            return []
        charge = await self._charge(pipeline, job)
        return [] if charge is None or charge.warning is None else [charge.warning]

    async def resume_schedule(self, name: str) -> None:
        """Let a paused schedule fire again, from its next time on."""
        now = round((await self.ledger.now()).timestamp() * 1000)
        await self.schedules.pause(name, paused=False, next_at=next_firing(await self.schedule(name), now))

    async def schedule(self, name: str) -> Schedule:
        """Return a schedule by name. Raises `NotFound` if there is none."""
        schedules = await self.schedules.all()
        for schedule in schedules:
            if schedule.name == name:
                return schedule
        raise no_such("schedule", name, [each.name for each in schedules], "See `forager schedules list`.")

    async def create_scheduled(self, schedule: Schedule, key: str) -> UUID:
        """Create the job of a schedule, once for each key."""
        return (await self.submit(schedule.pipeline, schedule.params, key=key, schedule=schedule.name)).job

    # ── the engine ──

    def engine(self, *, schedules: bool = True) -> AbstractAsyncContextManager[asyncio.Task[None]]:
        """Work, deliver, sweep, fire schedules and dispatch watches while the block runs; then drain, so that no
        in-flight task is lost. Without `schedules`, neither schedules nor watches create work."""
        return self._runner.running(without=() if schedules else (SCHEDULES, WATCHES))

    def shift(self, queue: str) -> AbstractAsyncContextManager[asyncio.Task[None]]:
        """Work on the lanes of one queue while the block runs; then drain. Deliveries, schedules, watches and the
        features' own loops are left to another process. It can be entered again and again."""
        self.worker.serve([queue], shift=True)
        return self._runner.running(only=(SWEEP, RULES, PROXIES), deliver=False)

    async def fire(self, name: str) -> bool:
        """Fire a schedule if it is due, and return whether it was. However often and by however many processes this is
        called, each of its times creates one job. Raises `NotFound` if there is no such schedule."""
        return await self.scheduler.fire(await self.schedule(name))

    @asynccontextmanager
    async def api_only(self) -> AsyncIterator[None]:
        """Only follow the rules that operators change while the block runs. Other processes work, deliver and fire
        schedules; on PostgreSQL these share the ledger."""
        self.is_api_only = True
        async with self._runner.beside([RULES, SINKS]):
            yield

    def batches(self) -> AbstractAsyncContextManager[BatchWork]:
        """Work in the batches that the block asks for, in place of `engine()`. Delivers and sweeps beside; neither
        schedules nor watches create work."""
        return self._runner.in_batches(without=(SCHEDULES, WATCHES))

    @property
    def is_stopping(self) -> bool:
        """Whether the engine is draining: in-flight tasks finish and no new ones are leased."""
        return self._runner.is_stopping

    async def left_over(self) -> Sequence[JobReport] | None:
        """Return the open jobs, each with the reason why it waits, if nothing can run now; None while something can.

        Webhooks that wait for a retry do not count: they are stored, and the next process sends them.
        """
        if self.worker.in_flight:
            return None
        left: Sequence[JobReport] | None = ()
        if await self.ledger.has_work(but=self.internal):
            left = await self.waits.stuck(self.internal)
        return left if left is not None and await self.has_delivered() else None

    async def has_delivered(self) -> bool:
        """Return whether every sink has received the newest changes, and every webhook has been tried.

        A sink that is paused, full, failing or delivered by another process does not count: its position in the log is
        stored. Features check first what they check when nothing is left to run (`Feature.at_rest`).
        """
        if self.worker.session is None:
            return False
        for each in self.features.values():
            if each.at_rest is not None:
                await each.at_rest.load()(self)
        looked_at = [*self.deliveries.values()]
        for delivery in looked_at:
            await delivery.deliver_new()  # now, not at the next poll
        if await self.ledger.has_work(self.internal, ready=True):
            return False
        # A sink that was full above may have room for more since the last of its webhooks was accepted.
        full = [delivery for delivery in looked_at if delivery.is_full]
        for delivery in full:
            await delivery.deliver_new()
        return not full or not await self.ledger.has_work(self.internal, ready=True)

    # ── retention ──

    async def prune(self) -> Pruned:
        """Remove one page of data that is older than the settings keep it."""
        return await self.ledger.prune(self.keep, self.deliveries)

    async def prunable(self) -> Pruned:
        """Count what repeated calls of `prune` would remove."""
        return await self.ledger.prunable(self.keep, self.deliveries)

    # ── reference data, lanes and pages ──

    async def warm_up(self) -> None:
        """Load the reference data that the first job would otherwise wait for."""
        await self._references.load({name for pipeline in self.pipelines.values() for name in pipeline.needs})

    def lane_for(self, name: str) -> Lane:
        """Return the lane that a host or API belongs to, with the rules in force."""
        return self.rules.lane_for(self.rules.politeness.lane_name(name))

    def check_url(self, url: str) -> None:
        """Raise `Refused` if the egress guard allows no request to this URL."""
        self.guard.check_url(url)

    def search_index(self, record: type[Record]) -> TextIndex:
        """Return the full-text index of a record class: that of a type of sink which keeps one outside the store, if
        the settings ask for it; otherwise the store's own."""
        index = self._search_indexes.get(record.kind)
        if index is None:
            outside = (each.search.load()(self, record) for each in all_sinks() if each.search is not None)
            index = next((each for each in outside if each is not None), None) or index_of(record, self.database)
            self._search_indexes[record.kind] = index
        return index

    def at_close(self, close: Callable[[], Awaitable[None]]) -> None:
        """Call this function when the application closes."""
        self._to_close.append(close)

    async def close(self) -> None:
        """Close the connections that sinks and search indexes keep open. The engine must have ended."""
        while self._to_close:
            await self._to_close.pop()()

    async def read_page(self, blob: str) -> Response:
        """Return a stored page. Raises `BlobMissing` if it was removed."""
        return await self.stored_pages.blobs.read(blob)

    async def reference(self, name: str) -> Any:
        """Return reference data by name. It is loaded once, in a thread."""
        return await self._references.get(name)

    # ── inside ──

    async def _priced(self, pipeline: str, job: Any) -> BaseModel:
        price = self.features[pipeline].estimate
        if price is None:
            raise Rejected(f"The pipeline {pipeline!r} cannot be priced in advance.")
        estimate: BaseModel = await price.load()(self, job)
        return estimate

    async def _charge(self, pipeline: str, job: Any) -> Charge | None:
        of = self.features[pipeline].charge if pipeline in self.features else None
        charge: Charge | None = None if of is None else await of.load()(self, job)
        return charge

    async def notices(self) -> Sequence[str]:
        """Return what the features want an operator to know when the service has started."""
        hooks = [each.notices.load() for each in self.features.values() if each.notices is not None]
        return [line for hook in hooks for line in await hook(self)]

    def _loops(self) -> dict[str, Loop]:
        """The background loops beside work and deliveries."""
        every = sweep_interval(self.settings.lease_seconds)
        return {
            SINKS: self.roster.run,
            SWEEP: partial(sweep_forever, self.ledger, self.clock, every),
            RULES: partial(self.rules.follow, self.clock),
            PROXIES: self.proxies.run,
            "stored pages": self.stored_pages.run,
            **self._loops_of_features(),
            SCHEDULES: self.scheduler.run,
            WATCHES: self.watcher.run,
            "prune": partial(
                prune_forever, self.ledger, self.keep, self.deliveries, self.clock, lambda: self.worker.session
            ),
        }

    def _loops_of_features(self) -> dict[str, Loop]:
        loops = [(each.name, each.loop) for each in self.features.values() if each.loop is not None]
        return {f"{name}: its own": partial(loop.load(), self) for name, loop in loops}
