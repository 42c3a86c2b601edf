"""Stored pages and pictures, read back: lists by kind of record, one page, its files.

Content from a site is hostile. No file is served in a way in which a browser would run it with our address: a page is a
download of plain text, in a sandbox without scripts, and a type is never guessed.
"""

import asyncio
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any
from urllib.parse import unquote
from uuid import UUID

from fastapi import Path, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from forager.api.dead import HARMLESS
from forager.api.examples import STORED_PAGE, STORED_PAGE_DETAIL
from forager.app.application import App
from forager.core.errors import BlobMissing, FieldError, NotFound, Rejected
from forager.core.ids import unknown_choice, unknown_filter
from forager.core.record import Record
from forager.core.storage import PAGES, SCHEME, FileName, StoredFile, blobs_in, is_blob, page_path
from forager.extract.text.urls import canonical_url, url_hash
from forager.sdk.http.envelope import Envelope, ResultPage, answer, page
from forager.sdk.http.routes import PageQuery, Router, example, failures
from forager.sdk.queries import job_number

FOR_EVER = {"Cache-Control": "private, max-age=31536000, immutable"}
NO_ADDRESS = "about:blank"
"""The URL of a stored file that several addresses may share."""
PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""Types that a browser may show: they hold no script. SVG does."""
_CHARSET = re.compile(r"charset=[\"']?([A-Za-z0-9_.:-]{1,40})")
ENDINGS = {
    "text/html": "html",
    "application/xhtml+xml": "html",
    "image/png": "png",
    "image/jpeg": "jpg",
    "image/gif": "gif",
    "image/webp": "webp",
    "application/json": "json",
    "application/xml": "xml",
    "text/xml": "xml",
    "text/plain": "txt",
    "application/pdf": "pdf",
}
"""Endings of file names by content type."""
PageId = Annotated[
    str,
    Path(
        max_length=2_048,
        description="Id of a stored page, as lists and `html_path` contain it, or the id of a task.",
        examples=[STORED_PAGE["id"]],
    ),
]


class StoredPageReport(BaseModel):
    """A stored page or picture, and the record that refers to it."""

    id: str
    kind: str = Field(description="Kind of the record: page or picture.")
    key: str = Field(description="Key of the record.")
    url: str | None = Field(description="Address of the fetch.")
    path: str = Field(description="Its address in this API.")


class StoredFileReport(BaseModel):
    """One file of a stored page."""

    name: FileName
    path: str = Field(description="Downloads it.")
    file_name: str
    content_type: str = Field(description="As the site sent it. The download may have another, harmless one.")
    size: int = Field(description="Bytes.")


class StoredPageDetail(BaseModel):
    """A stored page with its files: raw as the site sent it, rendered by a browser, or a screenshot."""

    id: str
    url: str | None = Field(description="Address of the fetch; null for a file that several addresses may share.")
    status: int | None = Field(description="Status of the answer.")
    fetched_at: datetime | None
    files: list[StoredFileReport]


class PagesQuery(PageQuery):
    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: str = Field(default="page", max_length=100, description="Kind of record: page or picture.")
    domain: str | None = Field(
        default=None, max_length=255, description="Only of this site.", examples=["shop.example"]
    )
    url: str | None = Field(default=None, max_length=2_048, description="Only the page with this URL.")
    task: UUID | None = Field(default=None, description="Only the page that this task stored, if it stored one.")


NEXT = "X-Next-Cursor"
_CURSOR = re.compile("[0-9]{1,9}-[0-9]{1,15}")


def recordings_router(app: App) -> Router:
    router = Router(prefix="/api/v1/jobs", tags=["stored pages"])

    @router.get(
        "/{job_id}/recording",
        summary="Download the recording of a job",
        response_class=Response,
        responses={200: _RECORDING, **failures(404)},
    )
    async def download_recording(
        job_id: UUID,
        cursor: Annotated[str | None, Query(max_length=100, description="X-Next-Cursor of the answer before.")] = None,
    ) -> Response:
        """Every answer that the job's steps got, as records of WARC 1.1, each a gzip member. Portions of about 8 MB:
        append them to one another until an answer has no X-Next-Cursor. Only for jobs of the pipelines in
        FORAGER_RECORD, and for FORAGER_RECORD_DAYS."""
        from forager.app.recording import read_portion, recordings_folder

        if cursor is not None and not _CURSOR.fullmatch(cursor):
            problem = FieldError("cursor", "is the X-Next-Cursor of the answer before; leave it out for the first one")
            raise Rejected(f"cursor: {problem.message}.", fields=[problem])
        number = await job_number(app.database, job_id, past=True)
        folder = recordings_folder(app.settings.home)
        content, following = await asyncio.to_thread(read_portion, folder, number, cursor)
        if cursor is None and not content and following is None:
            raise NotFound(
                f"Job {job_id} was not recorded here, or stored pages answered all of it. Set FORAGER_RECORD to its"
                " pipeline before it is created, and leave max_age out."
            )
        headers = {**HARMLESS, "Content-Disposition": f'attachment; filename="{job_id}.warc.gz"'}
        return Response(content, headers=headers | ({NEXT: following} if following else {}), media_type=WARC)

    return router


def pages_router(app: App) -> Router:
    router = Router(prefix="/api/v1/pages", tags=["stored pages"])

    @router.get(
        "",
        summary="List stored pages",
        response_model=ResultPage[StoredPageReport],
        responses={200: example([STORED_PAGE], next_cursor=None), **failures()},
    )
    async def list_pages(request: Request, asked: Annotated[PagesQuery, Query()]) -> Response:
        """The pages, or the pictures, that records refer to. A page may be short, even empty, and still have a next
        one. Pages of scrape tasks and of failed tasks are listed by their `task` only."""
        found, following = await _listed(app, asked)
        return page(request, found, following)

    @router.get(
        "/{page_id}",
        summary="Show a stored page",
        response_model=Envelope[StoredPageDetail],
        responses={200: example(STORED_PAGE_DETAIL), **failures(404)},
    )
    async def show_page(request: Request, page_id: PageId) -> Response:
        """Show a page by its id, or by the id of a task: then the page and the screenshot that a scrape returned, or
        those of a page that failed."""
        name, files = await _files(app, page_id)
        return answer(request, _detail(name, files))

    @router.get(
        "/{page_id}/{file}",
        summary="Download a file of a stored page",
        response_class=Response,
        responses={200: _FILE, **failures(404)},
    )
    async def download_file(page_id: PageId, file: FileName) -> Response:
        """Pictures are shown. Everything else is a download, and a page is plain text: it comes from a site and must
        not run in your browser with this address."""
        name, files = await _files(app, page_id)
        found = next((each for each in files if each.name == file), None)
        if found is None:
            there = ", ".join(each.name for each in files)
            raise NotFound(f"There is no {file} file of {name}. There is: {there}.")
        return _harmless(name, found)

    return router


async def _listed(app: App, asked: PagesQuery) -> tuple[list[StoredPageReport], str | None]:
    if asked.task is not None:
        return await _of_task(app, asked.task), None
    record = _record(app, asked.kind)
    if asked.url is not None:
        try:
            row = await app.reports.record(record.kind, _key(record, asked.url))
        except NotFound:
            return [], None
        return _reports(record, [row]), None
    filters = {"domain": asked.domain} if asked.domain is not None else {}
    found = await app.reports.export_page(
        record.kind, job=None, filters=filters, as_of=None, cursor=asked.cursor, limit=asked.limit
    )
    if asked.domain is not None and asked.cursor is None and not found.items and found.next_cursor is None:
        await _require_site(app, asked.domain)
    return _reports(record, found.items), found.next_cursor


async def _require_site(app: App, domain: str) -> None:
    """Raise `Rejected` for a site without stored pages whose name was never used: most likely a typing mistake."""
    name = {"name": domain}
    if not await app.database.fetch("SELECT 1 AS found FROM domains WHERE domain_name = :name", name):
        rows = await app.database.fetch("SELECT domain_name FROM domains ORDER BY id DESC LIMIT 2000")
        known = [row["domain_name"] for row in rows]
        raise unknown_filter("domain", "site", domain, known, "See `forager lanes list`.")


async def _of_task(app: App, task: UUID) -> list[StoredPageReport]:
    """Return the page that a task has stored as a list of one; an empty list if it has stored none."""
    try:
        name, files = await _files(app, str(task))
    except NotFound:
        return []
    return [StoredPageReport(id=name, kind="page", key=str(task), url=files[0].url, path=f"{PAGES}{name}")]


def _record(app: App, kind: str) -> type[Record]:
    known = {record.kind: record for each in app.pipelines.values() for record in each.records if record.blobs}
    if kind not in known:
        problem = FieldError("kind", unknown_choice("kind of stored pages", kind, known))
        raise Rejected(f"kind: {problem.message}.", fields=[problem])
    return known[kind]


def _key(record: type[Record], url: str) -> str:
    """Return the key of the record of a URL. Raises `Rejected` for a URL or a kind that has none."""
    if record.key_field != "url_hash":
        problem = FieldError("url", f"is no filter of {record.kind}; list them without it")
        raise Rejected(f"url: {problem.message}.", fields=[problem])
    try:
        return url_hash(canonical_url(url))
    except ValueError as error:
        raise Rejected(f"url: {error}", fields=[FieldError("url", str(error))]) from None


def _reports(record: type[Record], rows: Sequence[dict[str, Any]]) -> list[StoredPageReport]:
    address = next((name for name in ("url", "image_url", "page_url") if name in record.model_fields), None)
    return [
        StoredPageReport(
            id=blob.removeprefix(SCHEME),
            kind=record.kind,
            key=row[record.key_field],
            url=row[address] if address else None,
            path=page_path(blob) or "",
        )
        for row in rows
        if row.get("gone_at") is None
        for name in record.blobs
        for blob in blobs_in(row.get(name))
    ]


async def _files(app: App, page_id: str) -> tuple[str, list[StoredFile]]:
    """Return the id and the files of a page. Raises `NotFound`."""
    name = unquote(page_id).removeprefix(SCHEME).lower()
    if is_blob(SCHEME + name):
        try:
            stored = await app.read_page(SCHEME + name)
        except BlobMissing:
            raise NotFound(f"There is no stored page {name}: it was removed. See `forager pages list`.") from None
        kind = next((value for key, value in stored.headers.items() if key.lower() == "content-type"), "")
        url = None if stored.url == NO_ADDRESS else stored.url
        which: FileName = "rendered" if stored.rendered else "raw"
        return name, [StoredFile(which, kind, stored.body, url, stored.status, stored.at)]
    try:
        task = UUID(name)
    except ValueError:
        raise NotFound(f"{page_id[:80]!r} is not the id of a stored page or of a task.") from None
    of_features = [each.stored for each in app.features.values() if each.stored is not None]
    files: list[StoredFile] = [file for stored in of_features for file in await stored.load()(app, task)]
    files = files or await app.reports.evidence_files(task)
    if not files:
        raise NotFound(
            f"No page is stored for task {name}. A scrape stores the page with max_age, or if html or screenshot is"
            " among its formats; the page of a failure is kept for FORAGER_EVIDENCE_DAYS."
        )
    return name, files


def _detail(name: str, files: Sequence[StoredFile]) -> StoredPageDetail:
    return StoredPageDetail(
        id=name,
        url=files[0].url,
        status=files[0].status,
        fetched_at=files[0].at,
        files=[
            StoredFileReport(
                name=file.name,
                path=f"{PAGES}{name}/{file.name}",
                file_name=_file_name(name, file),
                content_type=file.content_type,
                size=len(file.body),
            )
            for file in files
        ],
    )


def _file_name(name: str, file: StoredFile) -> str:
    return f"{name}{'.screenshot' if file.name == 'screenshot' else ''}.{ENDINGS.get(_type(file), 'bin')}"


def _type(file: StoredFile) -> str:
    return file.content_type.partition(";")[0].strip().lower()


def _harmless(name: str, file: StoredFile) -> Response:
    """Return a file in a form that a browser does not run."""
    kind = _type(file)
    if kind in PICTURES:
        disposition, shown = "inline", kind
    else:
        charset = _CHARSET.search(file.content_type)
        disposition = "attachment"
        shown = (
            f"text/plain; charset={charset[1] if charset else 'utf-8'}"
            if _is_text(kind)
            else "application/octet-stream"
        )
    kept = FOR_EVER if is_blob(SCHEME + name) else {}  # named by its content, so that it never changes
    headers = {**HARMLESS, **kept, "Content-Disposition": f'{disposition}; filename="{_file_name(name, file)}"'}
    return Response(file.body, headers=headers, media_type=shown)


def _is_text(kind: str) -> bool:
    return kind.startswith("text/") or kind.endswith(("xml", "json"))


WARC = "application/warc"
_RECORDING: dict[str, Any] = {
    "description": "A portion of the recording.",
    "content": {WARC: {"schema": {"type": "string", "format": "binary"}, "example": "\x1f\x8b…"}},
}
_FILE: dict[str, Any] = {
    "description": "The file. A page is sent as plain text.",
    "content": {
        "text/plain": {"schema": {"type": "string"}, "example": "<!doctype html><title>Oak Table</title>"},
        "image/png": {"schema": {"type": "string", "format": "binary"}, "example": "\x89PNG…"},
        "application/octet-stream": {"schema": {"type": "string", "format": "binary"}, "example": "…"},
    },
}
