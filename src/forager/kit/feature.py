"""A feature is one pipeline with all of its edges: settings, wiring, queries, routes, commands, log lines.

The composition root holds one tuple of features; everything about a pipeline is in this value. The edges are references
(`"package.module:name"`) and imported only when they are needed: a command line that prints its help loads no web
framework, and a worker without an API loads no routes.
"""

from dataclasses import dataclass
from importlib import import_module
from typing import Any

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """One pipeline and its edges. All fields except the first three are optional."""

    name: str
    """The pipeline's name: in the ledger, in URLs and on the command line."""
    summary: str
    """One sentence: the description of its command group, and of its tag in /docs if it has routes."""
    build: Ref
    """`build(settings) -> Pipeline`: the pipeline with its settings in it (wiring.py)."""
    settings: Ref | None = None
    """Its own settings: a class whose fields are declared with `setting(...)`; merged into the one tree."""
    secrets: Ref | None = None
    """`secrets(settings) -> Mapping[str, SecretStr | None]`: secrets that its requests name."""
    references: Ref | None = None
    """`references(settings) -> Mapping[str, Callable[[], Any] | FromTable]`: loaders of the reference data in
    `Pipeline.needs`, or the tables in a warehouse that it is read from."""
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
    duties: Ref | None = None
    """`duties(service) -> Mapping[str, StepFunction]`: by kind of task, the functions of its steps made with `duty`."""
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
    """Whether `log` has a line for every task that ends, so that a job of one task needs no lines of its own."""
    routes: Ref | None = None
    """`routes(service, waiter) -> APIRouter`: routes and bodies of its own; `waiter` waits for the end of a task."""
    commands: Ref | None = None
    """`commands`: a `typer.Typer`, added to the command line under `name`."""
    shortcuts: tuple[Shortcut, ...] = ()
    """Frequently used commands that also get a name directly under `forager`."""
    words: Ref | None = None
    """Texts with which `forager jobs` describes a job's request, results and costs."""
    checks: Ref | None = None
    """`checks(settings) -> Iterable[Finding]`: what `forager doctor` reports about it."""
    loop: Ref | None = None
    """`loop(service) -> Awaitable[None]`: runs beside the worker, in every process with an engine, until cancelled."""
    at_rest: Ref | None = None
    """`at_rest(service) -> Awaitable[None]`: called before a one-shot command ends, while its engine still runs."""
    figures: Ref | None = None
    """`figures(service) -> Awaitable[Sequence[Figure]]`: gauges of its own for `/metrics`."""
    demo: Ref | None = None
    """`demo(invocation, *, crash, as_json) -> None`: a run without a key or a network, as `forager demo NAME`."""
