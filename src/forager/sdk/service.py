"""The application's interface for edges: create jobs and estimate their cost, read reports, run queries.

`App` implements it. Routes, estimates and webhook results of a feature get a `Service`, never the `App`, so that a
pipeline depends only on this module.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Protocol, TypedDict, Unpack
from uuid import UUID

from pydantic import BaseModel

from forager.core.clock import Clock
from forager.core.database import Database
from forager.core.http import Response
from forager.core.ledger import Ledger, PartsReceived, Submitted
from forager.core.pipeline import Lane, Pipeline
from forager.core.reading import Offload
from forager.core.record import Record
from forager.core.schedules import Schedule, Schedules
from forager.core.secret import Secret, Vault
from forager.core.sink import SinkRow, SinkStatus
from forager.core.waiting import Waiting
from forager.sdk.delivery import Indexed, Mirror, Publication
from forager.sdk.overview import Expenses
from forager.sdk.queries import QueryPage
from forager.sdk.reports import ChangeReport, JobReport, TaskDetail, TaskReport
from forager.sdk.search import TextIndex
from forager.sdk.settings import SettingsTree


class Reports(Protocol):
    """The generic reports: jobs, tasks and records of any pipeline. Read only."""

    async def jobs(
        self, *, state: str | None = None, pipeline: str | None = None, cursor: str | None = None, limit: int = 100
    ) -> QueryPage[JobReport]:
        """Newest first."""
        ...

    async def job(self, job: UUID) -> JobReport:
        """Raises `NotFound` if there is no such job."""
        ...

    async def tasks(
        self, job: UUID, *, state: str | None = None, cursor: str | None = None, limit: int = 100
    ) -> QueryPage[TaskReport]:
        """Return a job's tasks, sorted by kind and key."""
        ...

    async def task(self, task: UUID) -> TaskDetail:
        """Raises `NotFound` if there is no such task."""
        ...

    async def param_of_jobs(self, jobs: Sequence[UUID], name: str) -> Mapping[UUID, tuple[str, Any]]:
        """Map each existing job, but for standing ones, to (pipeline, value of this parameter or None)."""
        ...

    async def last_moved(self, job: UUID) -> datetime | None:
        """Return the time of a job's newest change, or None if it has none."""
        ...

    async def history(
        self, kind: str, key: str, *, cursor: str | None = None, limit: int = 100
    ) -> QueryPage[ChangeReport]:
        """Return the changes of one record, newest first."""
        ...


class JobOptions(TypedDict, total=False):
    """Options of a new job in addition to its parameters."""

    key: str | None
    """Idempotency key: the same key and parameters within a day return the same job."""
    until_end: bool
    """True if the key names this job until it has ended, instead of for a day."""
    schedule: str | None
    """Name of the schedule that created the job."""
    secrets: Mapping[str, Secret] | None
    """Stored encrypted until the job ends. Its steps refer to one as `SecretRef(name, of_job=True)`."""


class Service(Protocol):
    """The application's interface for edges."""

    @property
    def settings(self) -> SettingsTree: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def pipelines(self) -> Mapping[str, Pipeline]: ...

    @property
    def ledger(self) -> Ledger: ...

    @property
    def database(self) -> Database:
        """For the queries of a feature's own `reports.py`."""
        ...

    @property
    def reports(self) -> Reports: ...

    async def submit(self, pipeline: str, params: Mapping[str, Any], **options: Unpack[JobOptions]) -> Submitted:
        """Validate and create a job. Raises `Rejected`, `Conflict`, `Busy` or `Stopping`."""
        ...

    async def open_job(
        self,
        pipeline: str,
        params: Mapping[str, Any],
        part: Mapping[str, Any],
        *,
        key: str | None = None,
        more: bool = True,
    ) -> PartsReceived:
        """Create a job that is sent in parts, with its first part, or return the one of this key that has not ended.

        `more=False`: this part is the only one, and starts the job. Only for pipelines with `Pipeline.parts`; see
        `Ledger.open_job`. Raises `Rejected`, `Conflict` or `Stopping`.
        """
        ...

    async def add_part(
        self, job: UUID, pipeline: str, part: Mapping[str, Any], first: int, *, more: bool
    ) -> PartsReceived:
        """Validate a part and add its tasks to a job of `open_job`; the last one starts it. See `Ledger.add_part`."""
        ...

    async def retry(self, job: UUID, *, secrets: Mapping[str, Secret] | None = None) -> int:
        """Requeue a job's failed tasks, and store the secrets that it needs again. Returns the number of requeued
        tasks."""
        ...

    async def job_now(self, job: UUID) -> JobReport:
        """Return a job with why none of its tasks runs, if none does (`waiting`). Raises `NotFound`."""
        ...

    async def why_late(self, job: JobReport, task: UUID) -> Waiting | None:
        """Return why a task has not ended yet, if it does anything but work. Raises `NotFound`."""
        ...

    @property
    def schedules(self) -> Schedules:
        """The stored schedules. They are added with `put_schedule`, which checks them."""
        ...

    async def schedule(self, name: str) -> Schedule:
        """Return a schedule by name. Raises `NotFound`."""
        ...

    async def put_schedule(self, schedule: Schedule, *, no_budget: bool = False, replace: bool = True) -> Schedule:
        """Check a schedule and its job, and keep it. Raises `Rejected` if it is invalid, or if its jobs cost money and
        have no budget, unless `no_budget`; `Conflict` if there is one of this name, unless `replace`."""
        ...

    async def resume_schedule(self, name: str) -> None:
        """Let a paused schedule fire again, from its next time on. Raises `NotFound`."""
        ...

    @property
    def tokens(self) -> Mapping[str, Any]:
        """Return the sources of tokens for jobs that are submitted without one, by feature (`Feature.tokens`)."""
        ...

    @property
    def vault(self) -> Vault:
        """Secret texts that users hand over while Forager runs, sealed in the ledger."""
        ...

    async def sink_statuses(self) -> Sequence[SinkStatus]:
        """Return the status of every sink."""
        ...

    async def add_sink(self, row: SinkRow, *, after: int = 0) -> Sequence[str]:
        """Add a sink that a feature manages itself, such as a channel. Returns warnings. Raises `Rejected` or
        `Conflict`."""
        ...

    async def remove_sink(self, name: str) -> None:
        """Remove a sink, with its position in the log. Raises `Conflict` if settings configure it."""
        ...

    async def spent(self) -> Mapping[str, Expenses]:
        """Return what each pipeline that pays for requests has spent, by pipeline."""
        ...

    def check_url(self, url: str) -> None:
        """Raise `Refused` if the egress guard allows no request to this URL."""
        ...

    async def check_host(self, host: str, port: int) -> None:
        """Raise `Refused` if the egress guard allows no connection to this host, whose address is looked up."""
        ...

    @property
    def refused(self) -> Mapping[str, int]:
        """Jobs that this process has refused because the queue was full, by pipeline."""
        ...

    def fingerprint(self, secret: Secret) -> str:
        """Return a keyed hash of a secret: equal secrets have equal hashes, and a hash is useless without our key."""
        ...

    async def switch_lane(self, lane: str, *, active: bool) -> str:
        """Pause or resume a lane and return its name. Raises `Rejected` for a host that belongs to another lane."""
        ...

    async def set_rules(self, lane: str, changes: Mapping[str, Any]) -> None:
        """Set rules of a domain, as an operator does; None removes one. Raises `Rejected`, naming the fields."""
        ...

    async def estimate(self, pipeline: str, params: Mapping[str, Any]) -> BaseModel:
        """Return what a job would cost. Raises `Rejected` if the job is not valid or its pipeline has no estimate."""
        ...

    async def warnings(self, pipeline: str, params: Mapping[str, Any]) -> list[str]:
        """Return warnings about a valid job, for example that its budget is below the estimate."""
        ...

    async def reference(self, name: str) -> Any:
        """Return reference data of any feature; it is loaded once."""
        ...

    def lane_for(self, name: str) -> Lane:
        """Return the politeness in force for a host or a lane: rate, concurrency, pauses."""
        ...

    def via_cost(self, hosts: Iterable[str]) -> Decimal:
        """Return the price in USD of one request to each of these hosts: nothing, unless its lane goes through the
        unblocking service."""
        ...

    def search_index(self, record: type[Record]) -> TextIndex:
        """Return the full-text index of a record class that declares `search`: an external one if the settings name
        it, otherwise the one in the store."""
        ...

    async def keep_file(self, url: str, content_type: str, body: bytes) -> str:
        """Store a file that was made of a page, such as a picture, and return its `blob:` URL. It is kept as long as a
        row names it."""
        ...

    @property
    def offload(self) -> Offload:
        """The readers: runs a reading function over a page in a process with limits."""
        ...

    async def read_page(self, blob: str) -> Response:
        """Return a stored page by its `blob:` URL. Raises `BlobMissing` if it is gone or damaged."""
        ...


class SinkService(Service, Protocol):
    """The application's interface for the edges of a sink."""

    @property
    def results(self) -> Mapping[str, Callable[[UUID], Awaitable[Sequence[Mapping[str, Any]]]]]:
        """Webhook results by pipeline, for pipelines that define their own."""
        ...

    @property
    def indexed(self) -> Mapping[str, Indexed]:
        """Documents of external search indexes, by kind of record."""
        ...

    def at_close(self, close: Callable[[], Awaitable[None]]) -> None:
        """Call this function when the application closes, for connections that a sink keeps open."""
        ...

    @property
    def publications(self) -> Mapping[str, Publication]:
        """Publications to a message broker, by pipeline; only pipelines that publish."""
        ...

    @property
    def mirrors(self) -> Mapping[str, Mirror]:
        """Warehouse tables of jobs and tasks, by pipeline; only pipelines that have some."""
        ...
