"""`App`: the operations of one process for the API, the command line and the pipelines' own edges."""

import asyncio
import dataclasses
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

from pydantic import BaseModel

from forager.app.archive import Archive
from forager.app.features import all_sinks
from forager.app.intake import Intake, Retries, require_secrets
from forager.app.lanes import Waits, switch_lane
from forager.app.series import Series, store_size
from forager.app.sinks import SinkRoster
from forager.app.wiring import References, keep_of, reference_loaders, via_price
from forager.core.clock import Clock
from forager.core.errors import Conflict, FieldError, NotFound, Rejected
from forager.core.http import Response
from forager.core.ids import checked_name, no_such
from forager.core.ledger import Ledger
from forager.core.pipeline import Lane, Pipeline
from forager.core.reading import Offload
from forager.core.record import Record
from forager.core.regions import served_queues
from forager.core.schedules import Schedule
from forager.core.secret import Secret, Vault
from forager.core.sink import SinkRow, SinkStatus
from forager.core.upkeep import Archives, Pruned
from forager.core.waiting import Waiting
from forager.engine.deliver import SinkDelivery
from forager.engine.lanes.rules.rulebook import Rulebook
from forager.engine.recheck import Rechecker
from forager.engine.schedule import MonthlyCost, Scheduler, monthly_cost, next_firing
from forager.engine.upkeep import StoredPages, prune_forever, sweep_forever, sweep_interval
from forager.engine.work.batch import BatchWork
from forager.engine.work.worker import Worker
from forager.fetch.browser.fetcher import BrowserFetcher
from forager.fetch.guard import EgressGuard
from forager.fetch.http.fetcher import HttpFetcher
from forager.fetch.logins import SERVICE_KEY, Logins
from forager.fetch.proxies.pool import ProxyPool
from forager.ledger.catalog import DEFAULT_QUEUE
from forager.ledger.reports import JobReport, LedgerReports
from forager.ledger.tables.domains import Domains
from forager.ledger.tables.job_secrets import JobSecretTable
from forager.ledger.tables.page_sessions import PageSessionTable
from forager.ledger.tables.proxies import ProxyTable
from forager.ledger.tables.regions import Regions
from forager.ledger.tables.schedules import RecheckTable, ScheduleTable
from forager.ledger.tables.sinks import SinkRows, SinkTable
from forager.ledger.tables.via import ViaPurse
from forager.runners.embedded import EmbeddedRunner, Loop
from forager.sdk.delivery import Indexed
from forager.sdk.feature import Feature
from forager.sdk.overview import Expenses
from forager.sdk.search import TextIndex, index_of
from forager.secrets.sealing import Rotated
from forager.settings import Settings

if TYPE_CHECKING:
    from forager.app.telemetry import Telemetry

SCHEDULES, RECHECKS, RULES, SINKS = "schedules", "rechecks", "rules", "sinks"
SWEEP, PROXIES, REGIONS = "sweep", "proxies", "regions"


VIA = "via"
"""The name under which the costs of the unblocking service are listed, in addition to those of pipelines."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """The stores of this process: the ledger, its side tables, and the pages."""

    ledger: Ledger
    reports: LedgerReports
    domains: Domains
    proxies: ProxyTable
    sinks: SinkTable
    job_secrets: JobSecretTable
    vault: Vault
    page_sessions: PageSessionTable
    archives: Archives
    pages: StoredPages
    rotate_keys: Callable[[], Awaitable[Rotated]]
    """Seal every stored secret with the newest key."""


@dataclasses.dataclass(frozen=True, slots=True)
class Network:
    """The components through which requests of this process pass."""

    guard: EgressGuard
    rules: Rulebook
    proxies: ProxyPool
    fetcher: HttpFetcher
    browsers: BrowserFetcher
    logins: Logins | None
    """The workspaces' logins; None without a credential backend."""
    tokens: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Creates the tokens of jobs that are submitted without one, by feature (`Feature.tokens`)."""
    via: ViaPurse | None = None
    """Counts the cost of the unblocking service; None if none is configured."""


class App:
    """Forager in one process: a ledger, its reports, and the engine, which runs while `engine()` is entered."""

    def __init__(
        self,
        settings: Settings,
        features: Sequence[Feature],
        pipelines: Sequence[Pipeline],
        clock: Clock,
        stores: Stores,
        network: Network,
        worker: Worker,
        telemetry: "Telemetry | None" = None,
    ) -> None:
        ledger, reports = stores.ledger, stores.reports
        self.is_api_only = False
        """True if this process serves the API only, and other processes work."""
        self.runner_trouble: str | None = None
        """Why work that waits cannot be handed to the workers of another runner; None while it can."""
        self.telemetry = telemetry
        self.guard = network.guard
        self._logins = network.logins
        self.settings = settings
        self.features = {each.name: each for each in features}
        self.clock = clock
        self.pipelines = {p.name: p for p in pipelines}
        self.internal = tuple(p.name for p in pipelines if p.internal)
        """Pipelines whose jobs are left out of lists by default."""
        self.standing = tuple(recheck.job_key for p in pipelines for recheck in p.rechecks)
        """Idempotency keys of the standing jobs of rechecks. These jobs are left out of lists by default, with those of
        one value (`job_key_of`)."""
        self.ledger = ledger
        self.database = ledger.database
        self.reports = reports
        self.domains = stores.domains
        self.regions = Regions(self.database, self.ledger.now_ms)
        self.rules = network.rules
        self.proxies = network.proxies
        self.browsers = network.browsers
        self.tokens = network.tokens
        self.rotate_keys = stores.rotate_keys
        self.job_secrets = stores.job_secrets
        self.vault = stores.vault
        self.page_sessions = stores.page_sessions
        self.via = network.via
        self.stored_pages = stores.pages
        self.worker = worker
        self.serve(())
        self.waits = Waits(reports, self.rules, worker, ledger.now)
        self._references = References(reference_loaders(settings, features))
        self._intake = Intake(self, self._references)
        # Jobs are created by the intake alone; these three are part of `Service`.
        self.submit = self._intake.submit
        self.open_job = self._intake.open_job
        self.add_part = self._intake.add_part
        self.schedules = ScheduleTable(ledger.database)
        self.scheduler = Scheduler(self.schedules, self.create_scheduled, ledger.now, clock)
        self.rechecks = RecheckTable(ledger.database, pipelines, ledger.now)
        self.rechecker = Rechecker(ledger, pipelines, clock)
        if self.rechecker:
            worker.when_settled(self.rechecker.note_settled)
        for each in features:
            if each.app_steps is not None:
                worker.bind(each.app_steps.load()(self))
        self._has_worked = {name: asyncio.Event() for name in self.features}
        """Set once this process has settled a task of the pipeline."""
        for name, event in self._has_worked.items():
            worker.when_settled(partial(_set, event), pipeline=name)
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
        pipeline_of = {step.task.kind: pipeline.name for pipeline in pipelines for step in pipeline.steps}
        size = partial(store_size, self.database, settings.home)
        self.series = Series(self.database, clock, worker.stats, pipeline_of, self.reports.last_change, size)
        self.sinks = stores.sinks
        self.roster = SinkRoster(
            self,
            all_sinks(),
            SinkRows(ledger.database, stores.sinks, ledger.now_ms),
            lambda sink: SinkDelivery(ledger, stores.sinks, sink, clock, lambda: worker.session, tracer=telemetry),
            clock,
        )
        self.deliveries = self.roster.deliveries
        records = {record.kind: record for pipeline in pipelines for record in pipeline.records}
        self.archive = Archive(
            settings, ledger, stores.archives, records, clock, lambda: self.deliveries, self.search_index
        )
        self._runner = EmbeddedRunner(
            worker, self.deliveries, self._loops(), clock=clock, grace=settings.shutdown_seconds
        )
        self.retries = Retries(ledger, reports, self.pipelines, self.job_secrets)

    @property
    def refused(self) -> Counter[str]:
        """Jobs that this process has refused because the queue was full, by pipeline."""
        return self._intake.refused

    def refused_keys(self) -> Mapping[str, str]:
        """Return the keys that a service of ours refuses, by the name of their setting, with the reason."""
        refusal = None if self._logins is None else self._logins.refusal
        return {} if refusal is None else {SERVICE_KEY: refusal}

    def serve(self, queues: Collection[str]) -> None:
        """Take only lanes of these queues, from the next session on, and of the same queues of this process's region;
        empty: of all."""
        self.worker.serve(served_queues(queues, self.queues, self.settings.region))

    @property
    def queues(self) -> frozenset[str]:
        """The queues to which the lanes of the installed pipelines belong."""
        declared = (lane.queue for p in self.pipelines.values() for lane in p.lanes)
        return frozenset({DEFAULT_QUEUE, *(name for name in declared if name is not None)})

    # ── jobs ──

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

    async def why_late(self, job: JobReport, task: UUID) -> Waiting | None:
        """Return why a task has not ended yet, if it does anything but work. Raises `NotFound`."""
        return job.waiting or await self.waits.running_task(await self.reports.task(task))

    async def switch_lane(self, lane: str, *, active: bool) -> str:
        """Pause or resume a lane and return its name. Raises `Rejected` for a host that belongs to another lane."""
        return await switch_lane(self, lane, active=active)

    async def set_rules(self, lane: str, changes: Mapping[str, Any]) -> None:
        """Set rules of a domain, and put them in force. Raises `Rejected`, naming the fields."""
        self.check_via(changes)
        await self.domains.set(lane, changes)
        await self.rules.refresh()

    def check_via(self, rules: Mapping[str, Any]) -> None:
        """Raise `Rejected` for a rule `via` while no unblocking service is configured."""
        if rules.get("via") and self.via is None:
            problem = (
                "no unblocking service is configured; set FORAGER_VIA_URL, FORAGER_VIA_PRICE, and"
                " FORAGER_VIA_MAX_USD_DAY or FORAGER_VIA_MAX_USD_MONTH, and restart Forager"
            )
            raise Rejected(f"via: {problem}.", fields=[FieldError("via", problem)])

    async def estimate(self, pipeline: str, params: Mapping[str, Any]) -> BaseModel:
        """Return what a job would cost. Sends no request and spends nothing. Raises `Rejected` if its pipeline has no
        estimate."""
        return await self._intake.estimate(pipeline, await self._intake.checked(pipeline, params))

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
        now = round((await self.ledger.now()).timestamp() * 1000)
        try:
            job = await self._intake.checked(schedule.pipeline, schedule.params)
        except Rejected as wrong:  # all mistakes are reported at once, those of the time as well
            try:
                next_firing(schedule, now)
            except Rejected as also:
                fields = [*wrong.fields, *also.fields]
                raise Rejected(f"{wrong.message} {also.message}", fields=fields) from wrong
            raise
        if self.pipelines[schedule.pipeline].needs_secrets(job):
            require_secrets(self.pipelines[schedule.pipeline], ())
        timed = dataclasses.replace(schedule, next_at=next_firing(schedule, now))
        if not no_budget:
            charge = await self._intake.charge(schedule.pipeline, job)
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
        """Return what a schedule costs in a month; None if its jobs cost no money, or if they are no longer valid.
        Sends no request and spends nothing."""
        try:
            charge = await self._intake.charge(
                schedule.pipeline, await self._intake.checked(schedule.pipeline, schedule.params)
            )
            now = round((await self.ledger.now()).timestamp() * 1000)
            return None if charge is None else monthly_cost(schedule, charge, now)
        except (Rejected, NotFound):
            return None

    async def warnings(self, pipeline: str, params: Mapping[str, Any]) -> list[str]:
        """Return warnings about a valid job, for example that its budget is below the estimate. Sends no request and
        spends nothing."""
        job = await self._intake.checked(pipeline, params)
        if self.pipelines[pipeline].limits(job).max_cost is None:
            return []
        charge = await self._intake.charge(pipeline, job)
        return [] if charge is None or charge.warning is None else [charge.warning]

    async def resume_schedule(self, name: str) -> None:
        """Let a paused schedule fire again, from its next time on."""
        now = round((await self.ledger.now()).timestamp() * 1000)
        await self.schedules.pause(name, paused=False, next_at=next_firing(await self.schedule(name), now))

    async def schedule(self, name: str) -> Schedule:
        """Return a schedule by name. Raises `NotFound`."""
        schedules = await self.schedules.all()
        for schedule in schedules:
            if schedule.name == name:
                return schedule
        raise no_such("schedule", name, [each.name for each in schedules], "See `forager schedules list`.")

    async def create_scheduled(self, schedule: Schedule, key: str) -> UUID:
        """Create the job of a schedule, once for each key."""
        return (await self.submit(schedule.pipeline, schedule.params, key=key, schedule=schedule.name)).job

    # ── the engine ──

    def engine(
        self, *, schedules: bool = True, service: bool = True
    ) -> AbstractAsyncContextManager[asyncio.Task[None]]:
        """Work, deliver, sweep, fire schedules and dispatch rechecks while the block runs; then drain, so that no
        in-flight task is lost. Without `schedules`, neither schedules nor rechecks create work. Without `service`, as
        in a command that runs one job, the loop of a feature starts when a task of its pipeline has been settled."""
        return self._runner.running(without=self._left_out(schedules=schedules, service=service))

    def shift(self, queue: str) -> AbstractAsyncContextManager[asyncio.Task[None]]:
        """Work on the lanes of one queue while the block runs; then drain. Deliveries, schedules, rechecks and the
        features' own loops are left to another process. It can be entered again and again."""
        self.worker.serve(served_queues([queue], self.queues, self.settings.region), shift=True)
        return self._runner.running(only=(SWEEP, RULES, PROXIES, REGIONS), deliver=False)

    async def fire(self, name: str) -> bool:
        """Fire a schedule if it is due, and return whether it was. However often and by however many processes this is
        called, each of its times creates one job. Raises `NotFound` if there is no such schedule."""
        return await self.scheduler.fire(await self.schedule(name))

    @asynccontextmanager
    async def api_only(self) -> AsyncIterator[None]:
        """Only follow the rules that operators change while the block runs. Other processes work, deliver and fire
        schedules; on PostgreSQL these share the ledger."""
        self.is_api_only = True
        async with self._runner.beside([RULES, SINKS, REGIONS]):
            yield

    def batches(self) -> AbstractAsyncContextManager[BatchWork]:
        """Work in the batches that the block requests, in place of `engine()`. Delivers and sweeps as an engine without
        schedules that is no service."""
        return self._runner.in_batches(without=self._left_out(schedules=False, service=False))

    @property
    def is_stopping(self) -> bool:
        """Return whether the engine is draining: in-flight tasks finish and no new ones are leased."""
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
        stored. Before, features whose tasks have run here do their last checks (`Feature.at_rest`).
        """
        if self.worker.session is None:
            return False
        for each in self.features.values():
            if each.at_rest is not None and self._has_worked[each.name].is_set():
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

    # ── sinks and money ──

    async def sink_statuses(self) -> Sequence[SinkStatus]:
        """Return the status of every sink."""
        return await self.roster.statuses()

    async def add_sink(self, row: SinkRow, *, after: int = 0) -> Sequence[str]:
        """Add a sink that a feature manages itself. Raises `Rejected` or `Conflict`."""
        return await self.roster.add(row, after=after, managed=True)

    async def remove_sink(self, name: str) -> None:
        """Remove a sink, with its position in the log."""
        await self.roster.remove(name)

    async def via_expenses(self) -> Expenses:
        """Return what the unblocking service has cost."""
        if self.via is None:
            return Expenses(Decimal(0), Decimal(0))
        spent = await self.via.spent()
        return Expenses(spent.today, spent.month, self.settings.via_max_usd_day, self.settings.via_max_usd_month)

    async def spent(self) -> Mapping[str, Expenses]:
        """Return what each pipeline that pays for requests has spent, by pipeline, and the unblocking service."""
        hooks = {each.name: each.expenses.load() for each in self.features.values() if each.expenses is not None}
        found = {name: await hook(self) for name, hook in hooks.items()}
        if self.via is not None:
            found[VIA] = await self.via_expenses()
        return {name: each for name, each in found.items() if each is not None}

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

    def via_cost(self, hosts: Iterable[str]) -> Decimal:
        """Return the price in USD of one request to each of these hosts: nothing, unless its lane goes through the
        unblocking service."""
        price = via_price(self.settings)
        return sum((price for host in hosts if price is not None and self.lane_for(host).via), Decimal(0))

    def lane_for(self, name: str) -> Lane:
        """Return the lane that a host or API belongs to, with the rules in force."""
        return self.rules.lane_for(self.rules.politeness.lane_name(name))

    async def check_host(self, host: str, port: int) -> None:
        """Raise `Refused` if the egress guard allows no connection to this host, whose address is looked up."""
        await self.guard.resolve(host, port)

    def check_url(self, url: str) -> None:
        """Raise `Refused` if the egress guard allows no request to this URL."""
        self.guard.check_url(url)

    def search_index(self, record: type[Record]) -> TextIndex:
        """Return the full-text index of a record class: the external one of a sink if the settings configure it,
        otherwise the store's own."""
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

    async def keep_file(self, url: str, content_type: str, body: bytes) -> str:
        """Store a file that was made of a page, and return its `blob:` URL."""
        answer = Response(url, 200, {"Content-Type": content_type}, body, self.clock.now(), 0)
        return await self.stored_pages.blobs.keep(answer)

    @property
    def offload(self) -> Offload:
        """The readers, shared with the worker."""
        return self.worker.offload

    async def read_page(self, blob: str) -> Response:
        """Return a stored page. Raises `BlobMissing` if it was removed."""
        return await self.stored_pages.blobs.read(blob)

    async def reference(self, name: str) -> Any:
        """Return reference data by name. It is loaded once, in a thread."""
        return await self._references.get(name)

    # ── inside ──

    async def notices(self) -> Sequence[str]:
        """Return the notices of the features for an operator when the service has started."""
        hooks = [each.notices.load() for each in self.features.values() if each.notices is not None]
        return [line for hook in hooks for line in await hook(self)]

    def _loops(self) -> dict[str, Loop]:
        """Return the background loops other than work and deliveries."""
        every = sweep_interval(self.settings.lease_seconds)
        return {
            SINKS: self.roster.run,
            SWEEP: partial(sweep_forever, self.ledger, self.clock, every),
            RULES: partial(self.rules.follow, self.clock),
            REGIONS: partial(self.regions.follow_forever, self.clock),
            PROXIES: self.proxies.run,
            "stored pages": self.stored_pages.run,
            "series": self.series.run,
            **self._loops_of_features(),
            SCHEDULES: self.scheduler.run,
            RECHECKS: self.rechecker.run,
            "prune": partial(
                prune_forever, self.ledger, self.keep, self.deliveries, self.clock, lambda: self.worker.session
            ),
        }

    def _loops_of_features(self) -> dict[str, Loop]:
        loops: dict[str, Loop] = {}
        for each in self.features.values():
            if each.loop is not None:
                loop = partial(each.loop.load(), self)
                loops[_own_loop(each.name, service=True)] = loop
                loops[_own_loop(each.name, service=False)] = partial(self._once_it_has_worked, each.name, loop)
        return loops

    async def _once_it_has_worked(self, pipeline: str, loop: Loop) -> None:
        await self._has_worked[pipeline].wait()
        await loop()

    def _left_out(self, *, schedules: bool, service: bool) -> list[str]:
        """Return the names of the loops that such an engine does not run."""
        creating = [] if schedules else [SCHEDULES, RECHECKS]
        return [*creating, *(_own_loop(name, service=not service) for name in self.features)]


def _own_loop(feature: str, *, service: bool) -> str:
    return f"{feature}: {'service' if service else 'command'}"


def _set(event: asyncio.Event, _: object) -> None:
    event.set()
