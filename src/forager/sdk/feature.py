"""A feature is one pipeline with all of its edges: settings, wiring, queries, routes, commands, log lines.

The composition root holds one tuple of features; everything about a pipeline is in this value. The edges are references
(`"package.module:name"`) and imported only when they are needed: a command line that prints its help loads no web
framework, and a worker without an API loads no routes.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Literal

FindingState = Literal["ok", "note", "problem"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check of `forager doctor`; a feature's `checks(settings)` yields these. A problem keeps Forager
    from working; a note is only information."""

    check: str
    state: FindingState
    message: str
    remedy: str = ""
    """The remedy, if there is one."""


ENTRY_POINTS = "forager.features"
"""Entry point group under which another package offers its own feature."""


@dataclass(frozen=True, slots=True)
class Ref:
    """A name in a module that is imported on first use: `Ref("forager.pipelines.places.api:routes")`."""

    target: str

    def load(self) -> Any:
        module, _, name = self.target.partition(":")
        return getattr(import_module(module), name)


@dataclass(frozen=True, slots=True)
class Shortcut:
    """A command of a feature directly under `forager`, such as `forager crawl`."""

    name: str
    summary: str
    commands: Ref
    """A `typer.Typer`, as `Feature.commands`."""


@dataclass(frozen=True, slots=True)
class DashboardPage:
    """A page of a feature in the dashboard, under `/<name of the feature>`."""

    title: str
    package: str
    """The package whose files are served, such as `forager.pipelines.listings.page`."""
    module: str = "main.js"
    """Its ES module with `page(params, query)`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """One pipeline and its edges. All fields except the first three are optional."""

    name: str
    """The pipeline's name: in the ledger, in URLs and on the command line."""
    summary: str
    """One sentence: the description of its command group, and of its tag in /docs if it has routes."""
    build: Ref
    """`build(settings) -> Pipeline`: the pipeline with its settings (the pipeline's `wiring.py`)."""
    internal: bool = False
    """True if its pipeline is `internal`: lists of jobs leave its jobs out."""
    settings: Ref | None = None
    """Its own settings: a class whose fields are declared with `setting(...)`; merged into the one tree."""
    secrets: Ref | None = None
    """`secrets(settings) -> Mapping[str, SecretStr | None]`: secrets that its requests name."""
    tokens: Ref | None = None
    """`tokens(settings, vault, database, fetch, clock) -> JobSecrets`: makes the token of a job that brings none, such
    as an access token from a stored login."""
    references: Ref | None = None
    """`references(settings) -> Mapping[str, Callable[[], Any] | FromTable]`: loaders of the reference data in
    `Pipeline.needs`, or the tables in a warehouse that it is read from."""
    complete: Ref | None = None
    """`complete(service, job) -> Awaitable[job]`: the same valid job with what it takes from the store, such as a
    setting of its domain. Called for every new job, whichever way it comes; it must write nothing."""
    estimate: Ref | None = None
    """`estimate(service, job) -> Awaitable[BaseModel]`: the price of a job. It must send no request and spend
    nothing."""
    charge: Ref | None = None
    """`charge(service, job) -> Awaitable[Charge | None]`: the money that one job costs; None if it costs none. A
    schedule of such jobs needs a budget. It must send no request and spend nothing."""
    results: Ref | None = None
    """`results(service, job_id) -> Awaitable[Sequence[Mapping]]`: what a webhook reports about a job's tasks."""
    stored: Ref | None = None
    """`stored(service, task_id) -> Awaitable[Sequence[StoredFile]]`: files of a page that the result of a task holds,
    for `GET /api/v1/pages/{id}`; none if the task is not one of its own."""
    app_steps: Ref | None = None
    """`app_steps(service) -> Mapping[str, StepFunction]`: by kind of task, the functions of the steps that it
    declares with `app_step`: they read the application's tables or create jobs."""
    prepare: Ref | None = None
    """`prepare(service) -> Awaitable[None]`: called each time the store is opened; for rows that come with the install.
    It must be cheap and safe to repeat."""
    notices: Ref | None = None
    """`notices(service) -> Awaitable[Sequence[str]]`: what `forager up` prints once it has started."""
    publication: Ref | None = None
    """A `Publication`: what of its changes is published to a message broker, and in which form."""
    indexed: Ref | None = None
    """An `Indexed`: which of its records an external search index holds, and in which form."""
    mirror: Ref | None = None
    """A `Mirror`: the tables of its jobs and tasks in a warehouse. While settings configure a warehouse, every end of
    its tasks is in the change log."""
    log: Ref | None = None
    """`log(settlement) -> LogLine | None`: the pipeline's own log line about a task that has just been settled. Ids of
    the task, its job and its request are added to it."""
    logs_every_task: bool = False
    """True if `log` writes a line for every task that ends, so that a job of one task needs no lines of its own."""
    routes: Ref | None = None
    """`routes(service, waiter) -> APIRouter`: routes and bodies of its own; `waiter` waits for the end of a task."""
    commands: Ref | None = None
    """`commands`: a `typer.Typer`, added to the command line under `name`."""
    kind: str | None = None
    """Its main kind of record. Its command group then has list, search, show, history, changes and export for it,
    unless it has its own."""
    rows: str | None = None
    """Path of its own list in the API, such as `/places`, whose rows have more columns than the records of `kind`:
    exports read it, unless a filter is one that only `/records/{kind}` has."""
    shortcuts: tuple[Shortcut, ...] = ()
    """Frequently used commands that also get a name directly under `forager`."""
    words: Ref | None = None
    """Texts with which `forager jobs` describes a job's request, results and costs."""
    checks: Ref | None = None
    """`checks(settings) -> Iterable[Finding]`: what `forager doctor` reports about it."""
    loop: Ref | None = None
    """`loop(service) -> Awaitable[None]`: runs beside the worker until cancelled, in `forager up` and `forager worker`.
    A command that runs one job starts it when a task of this pipeline has been settled."""
    at_rest: Ref | None = None
    """`at_rest(service) -> Awaitable[None]`: called before a one-shot command ends, while its engine still runs,
    if a task of this pipeline was settled by it."""
    figures: Ref | None = None
    """`figures(service) -> Awaitable[Sequence[Figure]]`: gauges of its own for `/metrics`."""
    expenses: Ref | None = None
    """`expenses(service) -> Awaitable[Expenses | None]`: the money that it has spent today and this month, for the
    overview; None if unknown."""
    concerns: Ref | None = None
    """`concerns(service) -> Awaitable[Sequence[Concern]]`: what of it needs a look, for the overview."""
    page: DashboardPage | None = None
    """Its own page in the dashboard. Jobs, records and the start form need none."""
    demo: Ref | None = None
    """A `Demo` or an `OwnDemo`: a run without a key or a network, as `forager demo NAME`."""
    showcase: Ref | None = None
    """A `Showcase`: its part of `forager demo`, in which all pipelines run at once."""


# A type of sink with its edges: how a sink of this type is built from its row and the settings.
#
# The composition root holds one tuple of these values; another package offers its own by an entry point. Like a
# pipeline's `Feature`, it only names its parts, which are imported when needed: the driver of a sink that does not
# exist is never loaded.


SINK_ENTRY_POINTS = "forager.sinks"
"""Entry point group under which another package offers its own type of sink."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkFeature:
    """One type of sink and its edges."""

    name: str
    """The type's name: in the ledger, in the API and on the command line."""
    summary: str
    """One sentence: where a sink of this type delivers to."""
    build: Ref
    """`build(service, row) -> Sink`: builds the sink of a row. Raises `Rejected` if a setting is missing or an option
    is not possible."""
    options: Ref | None = None
    """The class (pydantic) of what a row may choose beyond kinds and pipelines; None: nothing. `build` gets a row whose
    options have been validated by it."""
    settings: Ref | None = None
    """Its own settings: a class whose fields are declared with `setting(...)`; merged into the one tree."""
    from_settings: Ref | None = None
    """`from_settings(service) -> SinkRow | None`: the sink that the settings alone configure, without a row in the
    ledger. It cannot be removed while they do."""
    search: Ref | None = None
    """`search(service, record) -> TextIndex | None`: the index of a record class that this type keeps outside the
    store, if the settings configure it. Searches then use it, and the store keeps none of its own."""
    mirrors: Ref | None = None
    """`mirrors(settings) -> bool`: whether these settings configure a warehouse for sinks of this type, which mirror
    jobs and tasks (`Feature.mirror`). Pipelines then write every end of a task to the change log."""
    restores: Ref | None = None
    """`restores(service) -> RestoreSource`: reads back the jobs that sinks of this type have mirrored, for
    `forager restore --from NAME`. Raises `Rejected` if a setting is missing."""
    tables: Ref | None = None
    """`tables(settings, table, columns) -> Iterable[Mapping[str, Any]]`: reads rows of any table in the warehouse of
    this type, for reference data (`FromTable`). Raises `Rejected` if a setting, the table or every column is
    missing."""
    outboxes: Ref | None = None
    """`outboxes(database, rows) -> Awaitable[Mapping[str, Outbox]]`: the state of messages that sinks of this type have
    handed on, by sink. None: a change is delivered when the sink has accepted it."""
    check: Ref | None = None
    """`check(service, row) -> Sequence[str]`: looks whether a new sink can work, in a thread. Raises `Rejected` with a
    remedy if it cannot (a folder that cannot be written, a missing file of credentials). Returns warnings about what
    may pass: a server that does not answer now."""
    addable: bool = True
    """True if rows of this type can be added. Other types exist only by their settings."""


# Figures that a feature adds to `/metrics`.


@dataclass(frozen=True, slots=True)
class Figure:
    """A gauge without labels. Its name begins with `forager_`."""

    name: str
    about: str
    """One sentence: what it counts."""
    value: float


# Features that other packages add to this installation, by entry points.


@cache
def installed(group: str) -> tuple[Any, ...]:
    """Load everything that is declared under a group. Searched once in a process: installed packages do not change."""
    return tuple(point.load() for point in entry_points(group=group))


# Reference data of a feature that comes from a table in a warehouse, not from a file.


@dataclass(frozen=True, slots=True)
class FromTable:
    """Stands in `Feature.references` for a loader: the application reads the table and makes the data from its rows."""

    source: str
    """`TYPE:TABLE`: the type of sink with this warehouse (`SinkFeature.tables`), and the table's name there."""
    columns: tuple[str, ...]
    """The columns that are read, as far as the table has them."""
    make: Callable[[Iterable[Mapping[str, Any]]], Any]
    """`make(rows)`: the reference data. Raises `Rejected` for rows that it cannot use."""
