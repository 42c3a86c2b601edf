"""Everything that was found, by kind: page by page in the envelope, or whole as a file."""

from collections.abc import AsyncIterator, Mapping, Sequence
from itertools import islice
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Path, Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from forager.api.tabular import csv_lines, json_lines
from forager.app import App
from forager.core.record import Record
from forager.kit.http.envelope import Page, page
from forager.kit.http.examples import example_of, record_example
from forager.kit.http.openapi import example, failures
from forager.kit.http.params import PageQuery

Format = Literal["jsonl", "csv"]
OfJob = Annotated[UUID | None, Query(description="Only what this job found.")]
MEDIA = {"jsonl": "application/x-ndjson", "csv": "text/csv; charset=utf-8"}


class RecordsQuery(PageQuery):
    job: UUID | None = Field(default=None, description="Only what this job found.")


def records_router(app: App) -> APIRouter:
    router = APIRouter(prefix="/api/v1", tags=["records"])
    records = [record for pipeline in app.pipelines.values() for record in pipeline.records]
    shown = next((record for record in records if example_of(record)), None)
    of_record = {} if shown is None else record_example(shown)
    Kind = Annotated[str, Path(max_length=100, description=_kinds(records), examples=[shown.kind] if shown else None)]  # noqa: N806

    @router.get(
        "/records/{kind}",
        summary="List records of a kind",
        response_model=Page[dict[str, Any]],
        responses={200: example([of_record], next_cursor=None), **failures(404)},
    )
    async def list_records(request: Request, kind: Kind, asked: Annotated[RecordsQuery, Query()]) -> Response:
        found = await app.reports.export_page(kind, job=asked.job, cursor=asked.cursor, limit=asked.limit)
        return page(request, found.items, found.next_cursor)

    @router.get(
        "/export/{kind}",
        summary="Download records of a kind",
        response_class=Response,
        responses={200: _as_files(of_record), **failures(404)},
    )
    async def export_records(
        kind: Kind,
        form: Annotated[Format, Query(alias="format", description="JSON lines, or CSV for spreadsheets.")] = "jsonl",
        job: OfJob = None,
    ) -> Response:
        """In CSV, text that a spreadsheet would run as a formula gets a leading apostrophe."""
        pages = aiter(app.reports.export(kind, job=job))
        # Before the headers go out, so that a wrong kind is still an error. An empty tuple as the default would be
        # taken by Python 3.11 for the arguments of an exception, and end in a SystemError.
        first = await anext(pages, None) or ()
        name = f"attachment; filename={kind}.{form}"
        return StreamingResponse(_file(first, pages, form), 200, {"Content-Disposition": name}, MEDIA[form])

    return router


def _kinds(records: Sequence[type[Record]]) -> str:
    names = [f"`{record.kind}`" for record in records]
    return f"{', '.join(names[:-1])} or {names[-1]}." if len(names) > 1 else f"{''.join(names)}."


def _as_files(record: Mapping[str, Any]) -> dict[str, Any]:
    """How OpenAPI describes a download; two fields of a record are enough for an example."""
    few = dict(islice(record.items(), 2))
    return {
        "description": "The file, as it is read.",
        "content": {
            "application/x-ndjson": {"schema": {"type": "string"}, "example": json_lines([few]).decode()},
            "text/csv": {"schema": {"type": "string"}, "example": csv_lines([few], header=True).decode()},
        },
    }


async def _file(
    first: Sequence[Mapping[str, Any]], rest: AsyncIterator[Sequence[Mapping[str, Any]]], form: Format
) -> AsyncIterator[bytes]:
    yield csv_lines(first, header=True) if form == "csv" else json_lines(first)
    async for rows in rest:
        yield csv_lines(rows, header=False) if form == "csv" else json_lines(rows)
