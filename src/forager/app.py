"""The composition root: the only module that builds adapters and knows every pipeline.

Everything above it (API, CLI) uses an `App`; everything below it is passed what it needs and reads no setting.
"""

import asyncio
import gc
import os
import socket
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from typing import Any, TypeVar
from uuid import UUID, uuid4

import structlog
from pydantic import BaseModel, ValidationError

from forager.core.clock import Clock, SystemClock
from forager.core.errors import Busy, FieldError, NotFound, Refused, Rejected, Stopping
from forager.core.http import Fetch, Response
from forager.core.invalid import field_errors
from forager.core.ledger import Ledger, NewJob, Submitted
from forager.core.names import checked_name
from forager.core.pipeline import Lane, Pipeline
from forager.core.retention import Pruned
from forager.core.schedules import Schedule
from forager.core.secret import Secret
from forager.core.task import Plan
from forager.engine.deliver import Delivery
from forager.engine.prune import prune_forever
from forager.engine.schedule import Scheduler, next_firing
from forager.engine.stored_pages import StoredPages
from forager.engine.sweep import sweep_forever, sweep_interval
from forager.engine.watch import Watcher
from forager.engine.work import Worker
from forager.features import all_features
from forager.fetch import EgressGuard, HttpFetcher
from forager.fetch.blobs import LocalBlobs
from forager.fetch.browser.fetcher import BrowserFetcher
from forager.fetch.fetcher import Fetcher
from forager.fetch.proxies import ProxyPool
from forager.fetch.robots import RobotsTxt
from forager.kit.feature import Feature
from forager.lane_switch import switch_lane
from forager.ledger.catalog import Catalog
from forager.ledger.reports import JobReport, Reports
from forager.ledger.side_tables.blob_references import BlobReferences
from forager.ledger.side_tables.domains import Domains
from forager.ledger.side_tables.job_secrets import JobSecretTable
from forager.ledger.side_tables.proxies import ProxyTable
from forager.ledger.side_tables.robots import LedgerRobots
from forager.ledger.side_tables.schedules import ScheduleTable
from forager.ledger.side_tables.sinks import SinkTable
from forager.ledger.side_tables.watches import WatchTable
from forager.offload.pool import ProcessPool
from forager.politeness.rulebook import Rulebook
from forager.runners.embedded import EmbeddedRunner, Loop
from forager.secrets.sealing import Rotated, rotate_keys, sealer_for
from forager.settings import Settings
from forager.sinks.webhook import signing
from forager.waiting import Waits
from forager.wiring import (
    build_pipelines,
    build_sinks,
    keep_of,
    logins,
    open_browsers,
    open_ledger,
    open_proxies,
    open_rules,
    reference_loaders,
    secrets,
)

log = structlog.get_logger("forager.app")

T = TypeVar("T")

FEW = 200
PARKED_SHARE = 0.2
"""Share of a bounded queue that waiting tasks may fill (paused site, outside its hours, a later retry)."""
SCHEDULES, WATCHES = "schedules", "watches"


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
    ) -> None:
        self.guard = guard
        self.settings = settings
        self.features = {each.name: each for each in features}
        self.clock = clock
        self.pipelines = {p.name: p for p in pipelines}
        self.internal = tuple(p.name for p in pipelines if p.internal)
        """Pipelines whose jobs are left out of lists by default."""
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
        self.refused: Counter[str] = Counter()
        """Jobs that this process has refused because the queue was full, by pipeline."""
        self.publications = {each.name: each.publication.load() for each in features if each.publication is not None}
        self.results = {each.name: partial(each.results.load(), self) for each in features if each.results is not None}
        """Webhook results by pipeline, for pipelines that define their own."""
        self.keep = keep_of(settings)
        self.sinks = sinks
        self.deliveries = {
            sink.name: Delivery(ledger, sinks, sink, clock, lambda: worker.session) for sink in build_sinks(self)
        }
        self._runner = EmbeddedRunner(
            worker, list(self.deliveries.values()), self._loops(), clock=clock, grace=settings.shutdown_seconds
        )
        self._loaders = reference_loaders(settings, features)
        self._references: dict[str, Any] = {}
        self._loading = asyncio.Lock()

    # ── jobs ──

    async def submit(
        self,
        pipeline: str,
        params: Mapping[str, Any],
        *,
        key: str | None = None,
        schedule: str | None = None,
        secrets: Mapping[str, Secret] | None = None,
    ) -> Submitted:
        """Validate a job, price it if it is a dry run, and create it. Raises `Rejected` if it is invalid and `Busy` if
        the queue is full."""
        if self.is_stopping:
            raise Stopping
        chosen, job, needs = await self._valid(pipeline, params)
        self._check_callback(job)
        dry = chosen.dry_run(job)

        def planned() -> Iterable[Plan]:
            chosen.check(job, **needs)
            return [] if dry else _few_at_once(chosen.plan(job, **needs))

        plans = await _look_up(needs, planned)
        estimate = (await self.estimate(pipeline, params)).model_dump(mode="json") if dry else None
        new = NewJob(
            pipeline,
            job.model_dump(mode="json"),
            chosen.limits(job),
            idempotency_key=key,
            estimate=estimate,
            schedule=schedule,
        )
        try:
            return await self._create(new, plans, secrets)
        except Busy:
            self.refused[pipeline] += 1
            raise

    async def _create(self, new: NewJob, plans: Iterable[Plan], secrets: Mapping[str, Secret] | None) -> Submitted:
        if secrets:
            return await self._submit_with_secrets(new, plans, secrets)
        try:
            return await self.ledger.submit(new, plans)
        except Busy as full:
            if not isinstance(plans, list):
                raise
            return await self.ledger.submit(await self._beside_parked(new, plans, full), plans)

    def _check_callback(self, job: Any) -> None:
        """Refuse a webhook URL that the egress guard would refuse. When the job ends it would be too late to report
        that."""
        url = getattr(job, "callback_url", None)
        if url is None:
            return
        try:
            self.guard.check_url(str(url))
        except Refused as refused:
            problem = FieldError("callback_url", refused.message)
            raise Rejected(f"callback_url: {problem.message}", fields=[problem]) from refused

    async def _beside_parked(self, new: NewJob, plans: Sequence[Plan], full: Busy) -> NewJob:
        """Return the job with its queue limit raised by the number of waiting tasks beyond their share.

        A queue that is full of pages of paused sites must not keep other pages out. Raises `error` again if the waiting
        tasks are within their share, or if the job itself could only wait.
        """
        most = new.limits.most_queued
        if most is None:
            raise full
        lanes = {self.rules.politeness.lane_name(plan.task.lane()) for plan in plans}
        if (waits := await self.waits.shut(sorted(lanes))) is not None:
            raise Busy(f"The queue is full, and {waits.message}. Nothing was stored; try again later.") from full
        beyond = await self.waits.parked(new.pipeline) - round(most * PARKED_SHARE)
        if beyond <= 0:
            raise full
        return replace(new, limits=replace(new.limits, most_queued=most + beyond))

    async def retry(self, job: UUID, *, secrets: Mapping[str, Secret] | None = None) -> int:
        """Requeue a job's failed tasks, and store the secrets that it needs again. Returns the number of requeued
        tasks."""
        sealed = self.job_secrets.sealed(job, secrets or {})
        queued = await self.ledger.retry(job, secrets=sealed)
        await self.job_secrets.reseal_job(job, sealed)
        return queued

    def fingerprint(self, secret: Secret) -> str:
        """Return a keyed hash of a secret: equal secrets have equal hashes, and a hash is useless without our key."""
        return self.job_secrets.fingerprint(secret)

    async def _submit_with_secrets(
        self, new: NewJob, plans: Iterable[Plan], secrets: Mapping[str, Secret]
    ) -> Submitted:
        job = uuid4()
        sealed = self.job_secrets.sealed(job, secrets)
        made = await self.ledger.submit(replace(new, id=job, secrets=sealed), plans)
        await self.job_secrets.reseal_job(made.job, sealed)  # a key rotation that ran meanwhile did not see this row
        return made

    async def switch_lane(self, lane: str, *, active: bool) -> str:
        return await switch_lane(self, lane, active=active)

    async def estimate(self, pipeline: str, params: Mapping[str, Any]) -> BaseModel:
        """Return what a job would cost. Sends no request and spends nothing. Raises `Rejected` if it cannot be
        priced."""
        job = await self._checked(pipeline, params)
        price = self.features[pipeline].estimate
        if price is None:
            raise Rejected(f"The pipeline {pipeline!r} cannot be priced in advance.")
        estimate: BaseModel = await price.load()(self, job)
        return estimate

    # ── schedules ──

    async def put_schedule(self, schedule: Schedule) -> Schedule:
        """Validate a schedule and its job, and store it. Replaces an existing one of that name."""
        checked_name(schedule.name)
        if (schedule.cron is None) == (schedule.every is None):
            raise Rejected(
                "A schedule has either `cron` or `every`.", fields=[FieldError("cron", "give cron or every")]
            )
        await self._checked(schedule.pipeline, schedule.params)
        now = round((await self.ledger.now()).timestamp() * 1000)
        timed = replace(schedule, next_at=next_firing(schedule, now))
        await self.schedules.put(timed)
        return timed

    async def resume_schedule(self, name: str) -> None:
        now = round((await self.ledger.now()).timestamp() * 1000)
        await self.schedules.pause(name, paused=False, next_at=next_firing(await self.schedule(name), now))

    async def schedule(self, name: str) -> Schedule:
        for schedule in await self.schedules.all():
            if schedule.name == name:
                return schedule
        raise NotFound(f"There is no schedule {name!r}. `forager schedules list` shows those there are.")

    # ── the engine ──

    def engine(self, *, schedules: bool = True) -> AbstractAsyncContextManager[asyncio.Task[None]]:
        """Work, deliver, sweep, fire schedules and dispatch watches while the block runs; then drain, so that no
        in-flight task is lost. Without `schedules`, neither schedules nor watches create work."""
        return self._runner.running(without=() if schedules else (SCHEDULES, WATCHES))

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

        A sink that is paused, failing or delivered by another process does not count: its position in the log is
        stored.
        """
        if self.worker.session is None:
            return False
        for delivery in self.deliveries.values():
            await delivery.deliver_new()  # now, not at the next poll
        return not await self.ledger.has_work(self.internal, ready=True)

    # ── retention ──

    async def prune(self) -> Pruned:
        """Remove one page of data that is older than the settings keep it."""
        return await self.ledger.prune(self.keep, self.deliveries)

    async def prunable(self) -> Pruned:
        """Count what repeated calls of `prune` would remove."""
        return await self.ledger.prunable(self.keep, self.deliveries)

    # ── inside ──

    def _loops(self) -> dict[str, Loop]:
        """The background loops beside work and deliveries."""
        every = sweep_interval(self.settings.lease_seconds)
        return {
            "sweep": partial(sweep_forever, self.ledger, self.clock, every),
            "rules": partial(self.rules.follow, self.clock),
            "proxies": self.proxies.run,
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

    async def warm_up(self) -> None:
        """Load the reference data that the first job would otherwise wait for."""
        for name in {name for pipeline in self.pipelines.values() for name in pipeline.needs}:
            await self.reference(name)

    def lane_for(self, name: str) -> Lane:
        return self.rules.lane_for(self.rules.politeness.lane_name(name))

    async def read_page(self, blob: str) -> Response:
        return await self.stored_pages.blobs.read(blob)

    async def reference(self, name: str) -> Any:
        """Return reference data by name. It is loaded once, in a thread."""
        async with self._loading:
            if name not in self._references:
                self._references[name] = await asyncio.to_thread(self._loaders[name])
                gc.freeze()  # a big table that stays in memory, too
            return self._references[name]

    async def _checked(self, pipeline: str, params: Mapping[str, Any]) -> Any:
        chosen, job, needs = await self._valid(pipeline, params)
        await _look_up(needs, partial(chosen.check, job, **needs))
        return job

    async def _valid(self, pipeline: str, params: Mapping[str, Any]) -> tuple[Pipeline, Any, dict[str, Any]]:
        """Return the pipeline, the validated job, and the reference data that its `check` and `plan` need."""
        chosen = self.pipelines.get(pipeline)
        if chosen is None:
            raise NotFound(f"There is no pipeline {pipeline!r}. There are: {', '.join(sorted(self.pipelines))}.")
        try:
            job = chosen.params.model_validate(dict(params))
        except ValidationError as error:
            raise Rejected(f"The {pipeline} job is not valid.", fields=field_errors(error)) from error
        return chosen, job, {name: await self.reference(name) for name in chosen.needs}

    async def create_scheduled(self, schedule: Schedule, key: str) -> UUID:
        """Create the job of a schedule, once for each key."""
        return (await self.submit(schedule.pipeline, schedule.params, key=key, schedule=schedule.name)).job


async def _look_up(needs: Mapping[str, Any], ask: Callable[[], T]) -> T:
    """Call a function in a thread if it searches big tables; otherwise directly, which takes less time than starting a
    thread."""
    return await asyncio.to_thread(ask) if needs else ask()


def _few_at_once(plans: Iterable[Plan]) -> Iterable[Plan]:
    """Return a small plan as a list, so that the ledger needs no thread to build it. A big one stays an iterator."""
    rest = iter(plans)
    few = list(islice(rest, FEW))
    return few if len(few) < FEW else chain(few, rest)


def _spare_the_collector() -> None:
    """Exclude everything that exists now (classes, pipelines) from garbage collection. It stays alive anyway, and
    scanning it repeatedly would cost a tenth of the time of every task. Objects that a task creates are freed by
    reference counting. Once in a process: an application that is opened later must not keep the garbage of earlier
    ones."""
    if gc.get_freeze_count() == 0:
        gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@asynccontextmanager
async def open_app(
    settings: Settings,
    *,
    clock: Clock | None = None,
    may_create: bool = True,
    around: Callable[[Fetch], Fetch] = lambda fetch: fetch,
) -> AsyncIterator[App]:
    """Build an `App` from these settings, and close everything at the end of the block.

    `may_create`: whether an empty PostgreSQL database gets the tables. `around` wraps what sends the requests of steps:
    simulated time must stand still while one is under way.
    """
    clock = clock or SystemClock()
    features = all_features()
    pipelines = build_pipelines(settings, features)
    catalog = Catalog(pipelines, evidence_days=settings.evidence_days)
    async with AsyncExitStack() as stack:
        ledger = await open_ledger(settings, catalog, clock, may_create=may_create)
        stack.push_async_callback(ledger.close)
        guard = EgressGuard(settings.egress_allow)
        sealer = sealer_for(settings.home, settings.secret_key)
        table = ProxyTable(ledger.database, ledger.now_ms, sealer)
        job_secrets = JobSecretTable(ledger.database, sealer)
        # Set below: the fetcher asks the pool for proxies, and the pool checks proxies through the fetcher.
        fetcher: HttpFetcher
        proxies = await open_proxies(settings, table, guard, clock, lambda request: fetcher(request))
        stack.push_async_callback(proxies.close)
        fetcher = HttpFetcher(
            guard,
            clock,
            secrets(settings, features),
            user_agent=settings.user_agent,
            limit=settings.capacity,
            endpoint_of=proxies.endpoint,
            sign=signing.sign,
        )
        stack.push_async_callback(fetcher.close)
        browsers = await open_browsers(settings, guard, clock, proxies)
        stack.push_async_callback(browsers.close)
        blobs = LocalBlobs(settings.home / "blobs", clock, grace=settings.blob_grace_hours, days=settings.blob_days)
        stack.push_async_callback(blobs.close)
        offload = ProcessPool(settings.parse_processes, clock)
        stack.push_async_callback(offload.close)
        domains = Domains(ledger.database, ledger.now_ms)
        rules = await open_rules(settings, domains, pipelines)
        worker = Worker(
            ledger,
            pipelines,
            Fetcher(around(fetcher), browsers, logins(settings, fetcher, clock)),
            clock,
            name=f"{socket.gethostname()}:{os.getpid()}",
            capacity=settings.capacity,
            rules=rules,
            robots=RobotsTxt(LedgerRobots(ledger.database), clock, agent=settings.robots_agent),
            proxies=proxies,
            job_secrets=job_secrets,
            blobs=blobs,
            offload=offload,
            patience=settings.patience_hours * 3600,
        )
        for feature in features:
            if feature.log is not None:
                worker.when_settled(feature.log.load())
        rules.when_changed(worker.adopt_rules)
        rules.when_changed(lambda: catalog.name_lanes_by(rules.politeness.lane_name))
        _spare_the_collector()
        reports = Reports(ledger.database, catalog)
        rotate = partial(rotate_keys, sealer, [table, job_secrets])
        sinks = SinkTable(ledger.database, ledger.now_ms)
        app = App(
            settings,
            features,
            clock,
            pipelines,
            ledger,
            reports,
            worker,
            domains,
            sinks,
            rules,
            proxies,
            browsers,
            rotate,
            job_secrets,
            StoredPages(blobs, BlobReferences(ledger.database, catalog), clock),
            guard,
        )
        for feature in features:
            if feature.prepare is not None:
                await feature.prepare.load()(app)
        yield app
