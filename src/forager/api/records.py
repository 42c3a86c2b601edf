"""Routes for records of any kind: one record, its history, a paged list, or all of them as a file.

They serve every record kind that a pipeline declares. The filters of a kind come from the indexes of its class.
"""

import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import islice
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import Path, Query
from pydantic import AwareDatetime, ConfigDict, Field
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse

from forager.app.application import App
from forager.core.errors import FieldError, Rejected
from forager.core.record import Record
from forager.ledger.reports import ChangeReport, RecordKind
from forager.ledger.reports.record_filters import filter_names
from forager.sdk.http.envelope import Envelope, ResultPage, answer, encoded, page
from forager.sdk.http.routes import PageQuery, Router, change_example, example, example_of, failures, record_example
from forager.sdk.table_files import TableForm, needed, write_table
from forager.sdk.tabular import CsvTable, Nested, json_lines

Format = Literal["jsonl", "csv", "parquet", "xlsx"]
Rows = Sequence[Mapping[str, Any]]
OfJob = Annotated[UUID | None, Query(description="Only records that this job found.")]
AS_OF = (
    "Records as they were at this moment (RFC 3339, with a time zone), from the change log. Quiet fields,"
    " `last_seen_at` and `times_seen` have no history and are null. 422 if retention has removed that state."
)
Key = Annotated[str, Path(max_length=2_000, description="The record's key, or another name under which it was seen.")]
KindParam = Callable[[], Any]
"""Makes the route parameter `kind`, whose description lists the existing kinds."""
KIND = {
    "kind": "place",
    "key": "place_uid",
    "per_job": False,
    "fields": ["place_uid", "title", "first_seen_at"],
    "nested": [],
    "filters": ["place_uid", "cid"],
}
MEDIA = {
    "jsonl": "application/x-ndjson",
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}
LOOKED_AT = 1_000
"""Records that one request with a search text reads. There is no index over all fields of all kinds, so a search goes
through the records in portions; a portion without a match has a next one."""
SEARCH = (
    "Only records in which a text or number contains these words, in upper or lower case."
    f" A request looks at {LOOKED_AT:,} records: a page may be short, even empty, and still have a next one."
)


class RecordsQuery(PageQuery):
    """Paging and format. Every other parameter is a filter; the ledger checks filters, because each kind has its
    own."""

    model_config = ConfigDict(extra="ignore")

    job: UUID | None = Field(default=None, description="Only records that this job found.")
    as_of: AwareDatetime | None = Field(default=None, description=AS_OF)
    search: str = Field(default="", max_length=200, description=SEARCH)
    order: Literal["oldest", "newest"] = Field(
        default="oldest",
        description="Order of the records: by the time at which they were found, oldest or newest first.",
    )


def records_router(app: App) -> Router:
    router = Router(prefix="/api/v1", tags=["records"])
    records = [record for pipeline in app.pipelines.values() for record in pipeline.records]
    shown = next((record for record in records if example_of(record)), None)
    in_path = partial(Path, max_length=100, description=_kinds(records), examples=[shown.kind] if shown else None)
    _add_kinds(router, app)
    _add_lists(router, app, in_path, record_example(shown) if shown else {}, _filters(records))
    _add_one(router, app, in_path, shown)
    return router


def _add_kinds(router: Router, app: App) -> None:
    @router.get(
        "/records",
        summary="List the kinds of records",
        response_model=Envelope[list[RecordKind]],
        responses={200: example([KIND]), **failures()},
    )
    async def list_kinds(request: Request) -> Response:
        """Sorted by name, each with its fields and the filters of its list."""
        return answer(request, app.reports.record_kinds())


def _add_lists(router: Router, app: App, in_path: KindParam, of_record: Mapping[str, Any], filters: str) -> None:
    @router.get(
        "/records/{kind}",
        summary="List records of a kind",
        description=f"Sorted by discovery. With a filter, rows may be sorted by key instead.\n\n{filters}",
        response_model=ResultPage[dict[str, Any]],
        responses={200: example([of_record], next_cursor=None), **failures(404)},
    )
    async def list_records(
        request: Request, asked: Annotated[RecordsQuery, Query()], kind: str = in_path()
    ) -> Response:
        words = asked.search.casefold().split()
        records = await app.reports.export_page(
            kind,
            job=asked.job,
            filters=_given(request, RecordsQuery.model_fields),
            as_of=await _past(app, asked.as_of),
            cursor=asked.cursor,
            limit=LOOKED_AT if words else asked.limit,
            newest=asked.order == "newest",
        )
        return page(request, _with_words(records.items, words), records.next_cursor)

    @router.get(
        "/export/{kind}",
        summary="Download records of a kind",
        description="In CSV, a nested object is one column per key (`result.job_title`), and text that a spreadsheet"
        " would run as a formula gets a leading apostrophe. Takes the same filters as the list.",
        response_class=Response,
        responses={200: _as_files(of_record), **failures(404)},
    )
    async def export_records(
        request: Request,
        kind: str = in_path(),
        form: Annotated[
            Format, Query(alias="format", description="JSON lines, CSV, Parquet, or a sheet of Excel.")
        ] = "jsonl",
        job: OfJob = None,
        as_of: Annotated[AwareDatetime | None, Query(description=AS_OF)] = None,
        search: Annotated[str, Query(max_length=200, description="As in the list.")] = "",
    ) -> Response:
        filters = _given(request, ("format", "job", "as_of", "search"))
        words = search.casefold().split()
        everything = partial(app.reports.export, kind, job=job, filters=filters, as_of=await _past(app, as_of))

        async def read() -> AsyncIterator[Rows]:
            async for rows in everything():
                yield _with_words(rows, words)

        if form in ("parquet", "xlsx"):
            return await _table_file(app.reports.record_kind(kind), read(), form)
        pages = aiter(read())
        # Start reading before the headers go out, so that an unknown kind still gives an error status. An empty tuple
        # as the default would be taken by Python 3.11 for the arguments of an exception, and end in a SystemError.
        first = await anext(pages, None) or ()
        file = _json_file(first, pages) if form == "jsonl" else _csv_file(app.reports.record_kind(kind), read)
        name = f"attachment; filename={kind}.{form}"
        return StreamingResponse(file, 200, {"Content-Disposition": name}, MEDIA[form])


def _add_one(router: Router, app: App, in_path: KindParam, shown: type[Record] | None) -> None:
    """Add the history's route first: a key may contain slashes, so the route of a record would also match the history's
    path."""

    @router.get(
        "/records/{kind}/{key:path}/history",
        summary="Show how a record changed",
        response_model=ResultPage[ChangeReport],
        responses={200: example([change_example(shown)] if shown else [], next_cursor=None), **failures(404)},
    )
    async def show_record_history(
        request: Request, key: Key, asked: Annotated[PageQuery, Query()], kind: str = in_path()
    ) -> Response:
        """Newest first. A job-scoped record never changes and has no history."""
        await app.reports.record(kind, key)
        changes = await app.reports.history(kind, key, cursor=asked.cursor, limit=asked.limit)
        return page(request, changes.items, changes.next_cursor)

    @router.get(
        "/records/{kind}/{key:path}",
        summary="Show a record",
        response_model=Envelope[dict[str, Any]],
        responses={200: example(record_example(shown) if shown else {}), **failures(404)},
    )
    async def show_record(
        request: Request,
        key: Key,
        kind: str = in_path(),
        job: Annotated[UUID | None, Query(description="The record's job, for kinds that are unique per job.")] = None,
    ) -> Response:
        return answer(request, await app.reports.record(kind, key, job=job))


def _with_words(rows: Rows, words: Sequence[str]) -> Rows:
    """Keep the records whose values contain all of these words. Without words, all."""
    if not words:
        return rows
    texts = (" ".join(str(value) for value in row.values() if value is not None).casefold() for row in rows)
    return [row for row, text in zip(rows, texts, strict=True) if all(word in text for word in words)]


async def _table_file(kind: RecordKind, pages: AsyncIterator[Rows], form: TableForm) -> Response:
    """Write the whole file first, since such files have their index at the end; removed once it is sent."""
    needed(form)
    folder = FilePath(tempfile.mkdtemp(prefix="forager-export-"))
    file = folder / f"{kind.kind}.{form}"
    try:
        await write_table(pages, form, file, name=kind.kind, columns=kind.fields)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    done = BackgroundTask(shutil.rmtree, folder, ignore_errors=True)
    return FileResponse(file, media_type=MEDIA[form], filename=file.name, background=done)


async def _past(app: App, moment: datetime | None) -> datetime | None:
    """Refuse a moment that is still to come: the same request would return something else then."""
    if moment is not None and moment > await app.ledger.now():
        problem = FieldError("as_of", "is still to come; use a moment that has passed")
        raise Rejected(f"as_of: {problem.message}.", fields=[problem])
    return moment


def _given(request: Request, known: Mapping[str, Any] | Sequence[str]) -> dict[str, str]:
    """Return the query parameters that are filters: all but those that the route itself declares."""
    given: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name in given:
            problem = FieldError(name, "is given more than once")
            raise Rejected(f"{name}: {problem.message}", fields=[problem])
        if name not in known:
            given[name] = value
    return given


def _kinds(records: Sequence[type[Record]]) -> str:
    names = [f"`{record.kind}`" for record in records]
    return f"{', '.join(names[:-1])} or {names[-1]}." if len(names) > 1 else f"{''.join(names)}."


def _filters(records: Sequence[type[Record]]) -> str:
    by_kind = "; ".join(f"`{each.kind}`: {', '.join(f'`{name}`' for name in filter_names(each))}" for each in records)
    return f"Each kind has filters of its own, as further parameters: {by_kind}."


def _as_files(record: Mapping[str, Any]) -> dict[str, Any]:
    """Describe a download in OpenAPI. Two fields of a record are enough for an example."""
    few = dict(islice(record.items(), 2))
    return {
        "description": "The file, streamed.",
        "content": {
            "application/x-ndjson": {"schema": {"type": "string"}, "example": json_lines([few], encoded).decode()},
            "text/csv": {"schema": {"type": "string"}, "example": _as_csv(few)},
        },
    }


def _as_csv(row: Mapping[str, Any]) -> str:
    table = CsvTable(list(row), encoded)
    return (table.header() + table.lines([row])).decode()


async def _json_file(
    first: Sequence[Mapping[str, Any]], rest: AsyncIterator[Sequence[Mapping[str, Any]]]
) -> AsyncIterator[bytes]:
    yield json_lines(first, encoded)
    async for rows in rest:
        yield json_lines(rows, encoded)


async def _csv_file(
    kind: RecordKind, read: Callable[[], AsyncIterator[Sequence[Mapping[str, Any]]]]
) -> AsyncIterator[bytes]:
    """Stream CSV. Records with nested objects are read twice, because the keys of these objects are columns of the
    header."""
    nested = Nested()
    if kind.nested:
        async for rows in read():
            nested.note(rows)
    table = CsvTable(nested.columns(kind.fields), encoded)
    yield table.header()
    async for rows in read():
        yield table.lines(rows)
