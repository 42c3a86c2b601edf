"""Turns parameters into a stored job: validation, checks, the estimate of a dry run, a full queue, secrets.

Nothing is stored for a job that is refused.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, TypeVar, Unpack
from uuid import UUID, uuid4

import structlog
from pydantic import BaseModel, ValidationError

from forager.app.wiring import References
from forager.core.errors import Busy, FieldError, Refused, Rejected, Stopping
from forager.core.ids import no_such
from forager.core.invalid import field_errors
from forager.core.ledger import Ledger, NewJob, PartsReceived, Submitted
from forager.core.pipeline import Parts, Pipeline
from forager.core.schedules import Charge
from forager.core.secret import Secret
from forager.core.task import Plan
from forager.ledger.tables.job_secrets import JobSecretTable
from forager.sdk.service import JobOptions, Reports

if TYPE_CHECKING:
    from forager.app.application import App

# Running failed tasks again. The secrets of a job are deleted when it ends, so a retry after that must bring them.


@dataclass(frozen=True, slots=True)
class Retries:
    ledger: Ledger
    reports: Reports
    pipelines: Mapping[str, Pipeline]
    job_secrets: JobSecretTable

    async def job(self, job: UUID, secrets: Mapping[str, Secret]) -> int:
        """Requeue a job's failed tasks and store the secrets that it needs again. Returns how many were requeued.

        Raises `NotFound`, and `Rejected` if the job has ended and a secret that it needs is not among these.
        """
        await self._require(job, secrets)
        sealed = self.job_secrets.sealed(job, secrets)
        queued = await self.ledger.retry(job, secrets=sealed)
        await self.job_secrets.reseal_job(job, sealed)
        return queued

    async def task(self, task: UUID) -> int:
        """Requeue one failed task, and those that were skipped because of it. Raises as `job` does."""
        await self._require((await self.reports.task(task)).job, ())
        return await self.ledger.retry_tasks([task])

    async def is_possible(self, pipeline: str, job: UUID) -> bool:
        """Return whether tasks of this job can be retried without a secret."""
        known = self.pipelines.get(pipeline)
        if known is None or not known.secrets:
            return True
        report = await self.reports.job(job)
        return (report.finished_at is not None and not _needs(known, report.params)) or report.finished_at is None

    async def _require(self, job: UUID, given: Collection[str]) -> None:
        report = await self.reports.job(job)
        pipeline = self.pipelines.get(report.pipeline)
        if report.finished_at is not None and report.failed and pipeline and _needs(pipeline, report.params):
            require_secrets(pipeline, given, job)


def _needs(pipeline: Pipeline, params: Any) -> bool:
    """Return whether a stored job needs the secrets of its pipeline."""
    try:
        return pipeline.needs_secrets(pipeline.params.model_validate(params))
    except ValidationError:
        return True


def require_secrets(pipeline: Pipeline, given: Collection[str], job: UUID | None = None) -> None:
    """Raise `Rejected`, with the request that brings it, if a secret is missing that a new job, or the retry of this
    ended one, needs. Without it, its tasks could only fail."""
    for secret in pipeline.secrets:
        if secret.name not in given:
            what = f"A {pipeline.name} job" if job is None else f"Job {job} has ended, and its retry"
            where = secret.submit if job is None else secret.retry.format(job_id=job)
            raise Rejected(
                f"{what} needs a secret, {secret.name}. Send it: {where}",
                fields=[FieldError(secret.name, "is required")],
            )


T = TypeVar("T")

FEW = 200
"""Plans of at most this number of tasks are built at once, instead of while they are stored."""
PARKED_SHARE = 0.2
"""Share of a bounded queue that waiting tasks may fill (paused site, outside its hours, a later retry)."""


class Intake:
    """Validates and creates the jobs of an application."""

    def __init__(self, app: "App", references: References) -> None:
        self._app = app
        self._ledger = app.ledger
        self._pipelines = app.pipelines
        self._references = references
        self.refused: Counter[str] = Counter()
        """Jobs that this process has refused because the queue was full, by pipeline."""

    async def submit(self, pipeline: str, params: Mapping[str, Any], **options: Unpack[JobOptions]) -> Submitted:
        """Validate a job, estimate its cost if it is a dry run, and create it. Raises `Rejected` if it is invalid,
        `Busy` if the queue is full, and `Stopping` while the engine drains."""
        self._require_running()
        chosen, job, needs = await self._valid(pipeline, params)
        secrets = options.get("secrets") or {}
        if chosen.needs_secrets(job):
            require_secrets(chosen, secrets)
        self._check_callback(job)
        requested, job = job, await self._completed(pipeline, job)
        dry = chosen.dry_run(job)

        def planned() -> Iterable[Plan]:
            chosen.check(job, **needs)
            return [] if dry else _few_at_once(chosen.plan(job, **needs))

        plans = await _look_up(needs, planned)
        estimate = (await self.estimate(pipeline, job)).model_dump(mode="json") if dry else None
        new = NewJob(
            pipeline,
            job.model_dump(mode="json"),
            chosen.limits(job),
            idempotency_key=options.get("key"),
            until_end=options.get("until_end", False),
            estimate=estimate,
            schedule=options.get("schedule"),
            request_id=_request_id(),
            requested=None if job is requested else requested.model_dump(mode="json"),
        )
        try:
            return await self._create(new, plans, secrets)
        except Busy:
            self.refused[pipeline] += 1
            raise

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
        Raises `Rejected`, and stores nothing, if the job or its part is invalid.

        The first part is a transaction of its own: if the process dies before it, the same request adds it. If it is
        the only part (`more=False`), the same key with other tasks raises `Conflict`.
        """
        self._require_running()
        parts = self._parts_of(pipeline)
        job = _validated(pipeline, parts.params, params)
        self._check_callback(job)
        checked, stored = await self._checked_part(pipeline, part), job.model_dump(mode="json")
        opened = await self._ledger.open_job(
            NewJob(pipeline, stored, parts.limits(job), idempotency_key=key, until_end=True, request_id=_request_id())
        )
        if opened.total and (more or opened.is_open):
            return opened
        added = await self._ledger.add_part(opened.job, 0, parts.plan(checked, 0), more=more)
        return replace(added, created=opened.created)

    async def add_part(
        self, job: UUID, pipeline: str, part: Mapping[str, Any], first: int, *, more: bool
    ) -> PartsReceived:
        """Validate a part of a job and add its tasks. Raises `Rejected`, and stores nothing of it, if it is invalid."""
        self._require_running()
        parts = self._parts_of(pipeline)
        checked = await self._checked_part(pipeline, part)
        return await self._ledger.add_part(job, first, parts.plan(checked, first), more=more)

    async def checked(self, pipeline: str, params: Mapping[str, Any]) -> Any:
        """Return the validated job of a pipeline. Raises `Rejected` if it is invalid, `NotFound` for the pipeline."""
        chosen, job, needs = await self._valid(pipeline, params)
        await _look_up(needs, partial(chosen.check, job, **needs))
        return job

    async def _checked_part(self, pipeline: str, part: Mapping[str, Any]) -> Any:
        return await self._completed(pipeline, await self.checked(pipeline, part))

    async def estimate(self, pipeline: str, job: Any) -> BaseModel:
        """Return what a valid job would cost. Raises `Rejected` if its pipeline has no estimate."""
        hook = self._app.features[pipeline].estimate
        if hook is None:
            raise Rejected(f"The pipeline {pipeline!r} has no estimate of its jobs.")
        estimate: BaseModel = await hook.load()(self._app, job)
        return estimate

    async def charge(self, pipeline: str, job: Any) -> Charge | None:
        """Return what a valid job would cost in money, and whether it has a budget; None if it costs nothing."""
        feature = self._app.features.get(pipeline)
        charge: Charge | None = None
        if feature is not None and feature.charge is not None:
            charge = await feature.charge.load()(self._app, job)
        return charge

    async def _completed(self, pipeline: str, job: Any) -> Any:
        """Return the job with what it takes from the store."""
        feature = self._app.features.get(pipeline)
        return job if feature is None or feature.complete is None else await feature.complete.load()(self._app, job)

    def _require_running(self) -> None:
        if self._app.is_stopping:
            raise Stopping

    async def _valid(self, pipeline: str, params: Mapping[str, Any]) -> tuple[Pipeline, Any, dict[str, Any]]:
        """Return the pipeline, the validated job, and the reference data that its `check` and `plan` need."""
        chosen = self._pipelines.get(pipeline)
        if chosen is None:
            known = f"There are: {', '.join(sorted(self._pipelines))}."
            raise no_such("pipeline", pipeline, self._pipelines, known)
        needs = await self._references.load(chosen.needs)
        try:
            return chosen, _validated(pipeline, chosen.params, params), needs
        except Rejected as refused:
            further = await _look_up(needs, partial(_further_errors, chosen, params, refused.fields, needs))
            raise Rejected(refused.message, fields=[*refused.fields, *further]) from refused

    def _parts_of(self, pipeline: str) -> Parts:
        parts = self._pipelines[pipeline].parts
        if parts is None:
            raise Rejected(f"A {pipeline} job cannot be sent in parts.")
        return parts

    def _check_callback(self, job: Any) -> None:
        """Refuse a webhook URL that the egress guard would refuse. When the job ends it would be too late to report
        that."""
        url = getattr(job, "callback_url", None)
        if url is None:
            return
        try:
            self._app.check_url(str(url))
        except Refused as refused:
            problem = FieldError("callback_url", refused.message)
            raise Rejected(f"callback_url: {problem.message}", fields=[problem]) from refused

    async def _create(self, new: NewJob, plans: Iterable[Plan], secrets: Mapping[str, Secret] | None) -> Submitted:
        if secrets:
            return await self._create_with_secrets(new, plans, secrets)
        try:
            return await self._ledger.submit(new, plans)
        except Busy as full:
            if not isinstance(plans, list):
                raise
            return await self._ledger.submit(await self._beside_parked(new, plans, full), plans)

    async def _create_with_secrets(
        self, new: NewJob, plans: Iterable[Plan], secrets: Mapping[str, Secret]
    ) -> Submitted:
        job = uuid4()
        sealed = self._app.job_secrets.sealed(job, secrets)
        made = await self._ledger.submit(replace(new, id=job, secrets=sealed), plans)
        await self._app.job_secrets.reseal_job(
            made.job, sealed
        )  # a key rotation that ran meanwhile did not see this row
        return made

    async def _beside_parked(self, new: NewJob, plans: Sequence[Plan], full: Busy) -> NewJob:
        """Return the job with its queue limit raised by the number of waiting tasks beyond their share.

        A queue that is full of pages of paused sites must not keep other pages out. Raises `full` again if the waiting
        tasks are within their share, or if the job itself could only wait. Tasks that wait for the sites of this very
        job do not count: a site that answers 429 to every request would otherwise fill the queue without end.
        """
        most = new.limits.most_queued
        if most is None:
            raise full
        lanes = {self._app.rules.politeness.lane_name(plan.task.lane()) for plan in plans}
        if (waits := await self._app.waits.shut(sorted(lanes))) is not None:
            raise Busy(f"The queue is full, and {waits.message}. Nothing was stored; try again later.") from full
        beyond = await self._app.waits.parked(new.pipeline, but=lanes) - round(most * PARKED_SHARE)
        if beyond <= 0:
            raise full
        return replace(new, limits=replace(new.limits, most_queued=most + beyond))


def _request_id() -> str | None:
    """Return the id of the HTTP request that is being answered, as the API has bound it for the log."""
    bound = structlog.contextvars.get_contextvars().get("request_id")
    return None if bound is None else str(bound)


def _validated(pipeline: str, shape: type[BaseModel], params: Mapping[str, Any]) -> Any:
    try:
        return shape.model_validate(dict(params))
    except ValidationError as error:
        raise Rejected(f"The {pipeline} job is not valid.", fields=field_errors(error)) from error


def _further_errors(
    chosen: Pipeline, params: Mapping[str, Any], known: Sequence[FieldError], needs: Mapping[str, Any]
) -> list[FieldError]:
    """Return what would still be refused if the invalid fields were right, so that the user corrects all in one round.

    Conditions between fields and the check against the reference data need a valid job. So every invalid field gets its
    first documented example, or is left out; without an example for a required field there is nothing to check. In a
    list of objects, such as the pages of a job, this is done to the fields of each entry.
    """
    schema = chosen.params.model_json_schema()
    examples = _examples(schema)
    completed, mended = _with_mended_entries(schema, params, known)
    wrong = {_top(error) for error in known if error.field not in mended}
    completed = {name: value for name, value in completed.items() if name not in wrong}
    completed |= {name: examples[name][0] for name in wrong if name in examples}
    try:
        chosen.check(_validated(chosen.name, chosen.params, completed), **needs)
    except Rejected as refused:
        # A condition between fields may only fail because an invalid one was left out.
        known_fields = (
            chosen.params.model_fields.keys() if wrong - examples.keys() else {_top(e) for e in refused.fields}
        )
        return [error for error in refused.fields if _top(error) in known_fields - wrong and error.field not in mended]
    return []


def _with_mended_entries(
    schema: Mapping[str, Any], params: Mapping[str, Any], known: Sequence[FieldError]
) -> tuple[dict[str, Any], set[str]]:
    """Return the parameters in which wrong fields of entries, such as `targets.3.target_url`, have the first documented
    example and unknown ones are left out, and the names of these fields. An entry that is wrong in any other way is
    left as it is."""
    mended = {name: list(value) if isinstance(value, list) else value for name, value in params.items()}
    forms = {name: _entry_schema(schema, name) for name, value in mended.items() if isinstance(value, list)}
    examples = {name: _examples(form) for name, form in forms.items()}
    fields: set[str] = set()
    for error in known:
        name, _, rest = error.field.partition(".")
        number, _, field = rest.partition(".")
        if name not in forms or not number.isdecimal() or int(number) >= len(mended[name]):
            continue
        entry, of_field = mended[name][int(number)], examples[name].get(field)
        is_known = field in forms[name].get("properties", {})
        if isinstance(entry, Mapping) and field in entry and (of_field or not is_known):
            left = {each: value for each, value in entry.items() if each != field}
            mended[name][int(number)] = {**left, field: of_field[0]} if of_field else left
            fields.add(error.field)
    return mended, fields


def _entry_schema(schema: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the schema of the entries of a list."""
    items: Mapping[str, Any] = schema.get("properties", {}).get(name, {}).get("items", {})
    found: Mapping[str, Any] = schema.get("$defs", {}).get(items.get("$ref", "").rpartition("/")[2], items)
    return found


def _top(error: FieldError) -> str:
    """Return the parameter of a job that an error is about: `pages` for `pages[3].url`."""
    return error.field.partition(".")[0].partition("[")[0]


def _examples(schema: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the examples of each field in the JSON schema of an object."""
    properties = schema.get("properties", {})
    return {name: field["examples"] for name, field in properties.items() if field.get("examples")}


async def _look_up(needs: Mapping[str, Any], ask: Callable[[], T]) -> T:
    """Call a function in a thread if it searches big tables; otherwise directly, which takes less time than starting a
    thread."""
    return await asyncio.to_thread(ask) if needs else ask()


def _few_at_once(plans: Iterable[Plan]) -> Iterable[Plan]:
    """Return a small plan as a list, so that the ledger needs no thread to build it. A big one stays an iterator."""
    rest = iter(plans)
    few = list(islice(rest, FEW))
    return few if len(few) < FEW else chain(few, rest)
