"""Replays a recorded job from its file: the same job on a store of its own, answered from the recording.

No request leaves the process: there is no other source of answers than the file. Time is simulated and passes only
while nothing is under way, so that waits between attempts take no time.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, BinaryIO
from urllib.parse import urlsplit
from uuid import UUID

import orjson

from forager.app.application import App
from forager.app.compose import open_app
from forager.app.recording import ANSWERED, FAILED
from forager.core import errors
from forager.core.errors import ForagerError, Permanent, Rejected, Transient
from forager.core.http import Request, Response
from forager.core.ledger import Submitted
from forager.core.recording import RecordedTask, request_digest
from forager.core.secret import Secret
from forager.core.states import ErrorType
from forager.ledger.reports import JobReport
from forager.sandbox.jumping_clock import JumpingClock
from forager.sdk.warc import WarcWriter
from forager.sdk.warc_read import read_at, read_records
from forager.settings import Settings

JOB = "application/x-forager-job+json"
RECORDS = "application/x-forager-records+json"
JOB_URL = "urn:forager:job"
STEP = 60.0
"""Simulated seconds between two checks of the job."""
MOST_DAYS = 400
AT_ONCE = 1_000
NOT_COMPARED = frozenset({"id", "job", "job_id", "version", "change", "run_id", "task_id"})
"""Columns that name a row of one store. Columns of times, `…_at`, are not compared either."""


@dataclass(slots=True)
class _Answer:
    claim: int
    told: Mapping[str, Any]
    offset: int
    screenshot: int | None


@dataclass(slots=True)
class Recording:
    """A recorded job. Answers stay in the file until they are requested."""

    file: BinaryIO
    pipeline: str
    params: Mapping[str, Any]
    created_at: datetime
    answers: dict[tuple[str, str], list[_Answer]] = field(default_factory=dict)
    """Answers of the last attempt that sent a request, in their order, by task and request."""
    other: dict[object, list[_Answer]] = field(default_factory=dict)
    """The same answers by task and request without its host, for an API that is somewhere else now; and by request
    alone, for tasks whose key is not the same in another store."""
    hosts: set[str] = field(default_factory=set)
    """Hosts of the recorded answers."""
    changes: list[dict[str, Any]] | None = None
    """The changes that the recorded job had made when it was exported; None if the file does not contain them."""


def read_recording(file: BinaryIO) -> Recording:
    """Read a file of `forager pages export --warc FILE --job JOB`. Raises `Rejected` for any other."""
    job: Mapping[str, Any] | None = None
    answers: defaultdict[tuple[str, str], list[_Answer]] = defaultdict(list)
    changes: list[dict[str, Any]] | None = None
    response, screenshot = 0, None
    hosts: set[str] = set()
    try:
        for each in read_records(file):
            hosts.add(urlsplit(each.url).netloc)
            kind = each.headers.get("content-type", "")
            if each.kind == "response":
                response, screenshot = each.offset, None
            elif each.kind == "resource" and kind == "image/png":
                screenshot = each.offset
            elif kind == JOB:
                job = orjson.loads(each.block)
            elif kind == RECORDS:
                changes = [] if changes is None else changes
                changes += orjson.loads(each.block)
            elif kind == FAILED:
                told = orjson.loads(each.block)
                answers[told["task"], told["request"]].append(_Answer(told["claim"], told, -1, None))
            elif each.kind == "metadata" and (text := _answer_of(each.block)) is not None:
                told = orjson.loads(text)
                answers[told["task"], told["request"]].append(_Answer(told["claim"], told, response, screenshot))
    except (ValueError, KeyError) as error:
        raise Rejected(f"The file cannot be replayed: {error}.") from error
    if job is None:
        raise Rejected(
            "The file has no recorded job. Record one with FORAGER_RECORD, then write its file with"
            " `forager pages export --warc FILE --job JOB`."
        )
    made = Recording(file, job["pipeline"], job["params"], datetime.fromisoformat(job["created_at"]))
    other: defaultdict[object, list[_Answer]] = defaultdict(list)
    made.hosts = hosts
    for (task, request), some in answers.items():
        last = max(answer.claim for answer in some)
        made.answers[task, request] = [answer for answer in some if answer.claim == last]
        for answer in made.answers[task, request]:
            other[request].append(answer)
            other[task, answer.told["anywhere"]].append(answer)
    made.other, made.changes = dict(other), changes
    return made


def write_job(writer: WarcWriter, job: Mapping[str, Any], at: datetime) -> None:
    """Write the record that makes a WARC file one of a job. `job`: pipeline, params and created_at."""
    writer.add_note("metadata", JOB_URL, at, JOB, orjson.dumps(dict(job)))


def write_records(writer: WarcWriter, changes: list[Any], at: datetime) -> None:
    """Write changes of records that the job caused, so that a replay can compare its own with them."""
    writer.add_note("resource", "urn:forager:records", at, RECORDS, orjson.dumps(changes))


def _answer_of(block: bytes) -> str | None:
    name, _, value = block.decode("utf-8", "replace").partition(": ")
    return value.strip() if name == ANSWERED else None


class FilePlayer:
    """Implements `core.recording.Player` over a recording."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._by_task = {key: iter(some) for key, some in recording.answers.items()}
        self._other = {key: iter(some) for key, some in recording.other.items()}
        self._last: dict[object, _Answer] = {}
        self.missing: list[str] = []
        """Requests that the recording does not have."""

    async def __call__(self, task: RecordedTask, request: Request) -> Response:
        digest = request_digest(request)
        answer = (
            self._next((task.name, digest), self._by_task)
            or self._next((task.name, request_digest(request, with_host=False)), self._other)
            or self._next(digest, self._other)
        )
        if answer is None:
            self.missing.append(f"{task.name}: {request.method} {request.url}")
            where = request.url.partition("?")[0]
            raise Permanent(f"{where} is not in the recording.", reason="not_recorded")
        if answer.offset < 0:
            raise _error(answer.told)
        told = answer.told
        status, headers, body = read_at(self._recording.file, answer.offset).http()
        headers.pop("Content-Length", None)
        if told["type"] is None:
            headers.pop("Content-Type", None)
        png = None if answer.screenshot is None else read_at(self._recording.file, answer.screenshot).block
        return Response(
            url=told["url"],
            status=status,
            headers=headers,
            body=body,
            at=datetime.fromisoformat(told["at"]),
            elapsed_ms=told["elapsed_ms"],
            looks=told["looks"],
            rendered=told["rendered"],
            console=tuple(told["console"]),
            screenshot=png,
        )

    def _next(self, key: Any, answers: Mapping[Any, Any]) -> _Answer | None:
        """Return the next answer of a request; the last one again when there are no more."""
        if key not in answers:
            return None
        found: _Answer | None = next(answers[key], None)
        if found is not None:
            self._last[key] = found
        return self._last[key]


def _error(told: Mapping[str, Any]) -> ForagerError:
    kind = getattr(errors, told["error"], Permanent)
    if not (isinstance(kind, type) and issubclass(kind, Transient | Permanent | errors.Disallowed)):
        kind = Permanent
    if issubclass(kind, errors.RateLimited):
        return kind(told["message"])
    return kind(told["message"], reason=told["reason"], error_type=ErrorType(told["error_type"]))


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The result of a replay."""

    job: JobReport
    missing: list[str]
    """Requests that the recording does not have."""
    records: dict[str, int]
    """Records that the replay found, by kind."""
    differ: dict[str, int] | None
    """Recorded records that are missing or different, by kind; None if the file contains none to compare with."""
    more: dict[str, int]
    """Records that the recorded job did not change: its store may have had them already."""


async def replay(settings: Settings, recording: Recording) -> ReplayResult:
    """Run the job to its end on the store of `settings`, which should be an empty one."""
    allowed = (*settings.egress_allow, *sorted(host for host in recording.hosts if host))
    settings = settings.model_copy(update={"egress_allow": allowed})  # nothing is sent: intake checks addresses only
    clock = JumpingClock(recording.created_at)
    player = FilePlayer(recording)
    async with open_app(settings, clock=clock, player=player) as app:
        if recording.pipeline not in app.pipelines:
            raise Rejected(f"The recorded job is of the pipeline {recording.pipeline!r}, which is not installed.")
        made = await _while_time_passes(clock, _submit(app, recording))
        async with _working(app, clock):
            job = await _ended(app, clock, made.job)
        changes = await _while_time_passes(clock, _changes(app, made.job))
    found = _last_states(changes)
    recorded = _last_states(recording.changes or [])
    unlike = Counter(kind for (kind, key), state in recorded.items() if found.get((kind, key)) != state)
    more = Counter(kind for kind, key in found.keys() - recorded.keys())
    counts = Counter(kind for kind, _ in found)
    differ = None if recording.changes is None else dict(unlike)
    return ReplayResult(
        job, player.missing, dict(sorted(counts.items())), differ, dict(more) if differ is not None else {}
    )


async def _submit(app: App, recording: Recording) -> Submitted:
    secrets = {each.name: Secret("replayed") for each in app.pipelines[recording.pipeline].secrets}
    return await app.submit(recording.pipeline, recording.params, secrets=secrets)


async def _while_time_passes(clock: JumpingClock, work: Awaitable[Any]) -> Any:
    """Await something that may itself wait for the clock."""
    doing = asyncio.ensure_future(work)
    while not doing.done():
        await asyncio.wait([doing], timeout=0.05)
        if not doing.done():
            await clock.run_for(0.1)
    return doing.result()


@asynccontextmanager
async def _working(app: App, clock: JumpingClock) -> AsyncIterator[None]:
    is_busy: Callable[[], object] = lambda: getattr(app.database, "is_busy", False)  # noqa: E731
    clock.wait_for(is_busy)
    clock.wait_for(lambda: app.worker.in_flight)
    work = asyncio.create_task(app.worker.run())
    try:
        yield
    finally:
        app.worker.stop()
        while not work.done():
            await clock.run_for(STEP)
            await asyncio.sleep(0)
        await work


async def _ended(app: App, clock: JumpingClock, job: UUID) -> JobReport:
    """Let time pass until the job has ended or is paused."""
    for _ in range(round(MOST_DAYS * 86_400 / STEP)):
        await clock.run_for(STEP)
        report = await app.reports.job(job)
        if report.finished_at is not None or str(report.state) == "paused":
            return report
    raise Rejected(f"The job has not ended within {MOST_DAYS} simulated days.")


async def _changes(app: App, job: UUID) -> list[dict[str, Any]]:
    kinds = {record.kind for record in app.pipelines[(await app.reports.job(job)).pipeline].records}
    found: list[dict[str, Any]] = []
    after = 0
    while changes := await app.ledger.changes(after, AT_ONCE, job=job, kinds=kinds):
        found += [{"kind": each.kind, "key": each.key, "op": each.op, "body": each.body} for each in changes]
        after = changes[-1].id
    return found


def _last_states(changes: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], bytes]:
    """Return the last state of every record, by kind and key, in a form that has no times and no numbers of a store."""
    return {(each["kind"], each["key"]): _comparable(each) for each in changes}


def _comparable(change: Mapping[str, Any]) -> bytes:
    body = {
        name: value
        for name, value in (change["body"] or {}).items()
        if name not in NOT_COMPARED and not name.endswith(("_at", "_ms"))
    }
    gone = change["op"] == "gone"
    return orjson.dumps([gone, body], default=str, option=orjson.OPT_SORT_KEYS | orjson.OPT_UTC_Z)
