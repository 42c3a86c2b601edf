"""The most common calls by subject: read pages, run and follow jobs, read records, follow changes. Coroutines.

Each is a few requests of `operations.py`; whatever is not here is there.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Iterator, KeysView, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal

from forager.client.connection import ApiConnection, part
from forager.client.errors import ApiError, JobNotCompleted, PageFailed
from forager.client.rows import AsyncRows, Row
from forager.client.types import JobReport, WebSearchReport

ENDED = frozenset({"completed", "partially_completed", "failed", "cancelled"})
LOOK_FIRST, LOOK_LAST = 0.1, 2.0
"""Seconds between two polls of a job: at first, and at most."""
WAIT = 25.0
"""Seconds that a request for changes waits for the next one."""
PART = 5_000
Render = Literal["http", "browser", "auto"]


@dataclass(frozen=True, slots=True)
class PageResult:
    """A page that was read: its fields by name, and where each was found."""

    url: str
    target_type: str
    fields: Mapping[str, Any]
    task_id: str
    job_id: str
    page_url: str | None = None
    """The address after redirects."""
    rendered: bool | None = None
    """True if a browser rendered it."""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    stored: bool = False
    """True if a stored page answered it, without a request (`max_age`)."""
    fetched_at: str | None = None

    @property
    def markdown(self) -> str | None:
        """The main text; None if it was not requested."""
        return self.fields.get("markdown")

    def __getitem__(self, name: str) -> Any:
        return self.fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.fields)

    def keys(self) -> KeysView[str]:
        """The names of the fields, so that `dict(page)` are the fields."""
        return self.fields.keys()


@dataclass(frozen=True, slots=True)
class ChangeSeen:
    """One change of a record, a job or a task. `id` is its number in the log, from which `follow` goes on."""

    id: int
    kind: str
    key: str
    op: str
    version: int
    at: datetime
    job: str | None
    body: Mapping[str, Any] | None


def target(url: str, target_type: str, **options: Any) -> dict[str, Any]:
    """Return the body for one page; options that are None are left to the server."""
    body = {"target_type": target_type, "target_url": url, "workspace_id": options.pop("workspace_id", "default")}
    return body | {name: value for name, value in options.items() if value is not None}


class AsyncPages:
    """Pages on demand."""

    def __init__(self, connection: ApiConnection) -> None:
        self._connection = connection

    async def read(
        self, url: str, target_type: str = "page", *, timeout: int | None = None, **options: Any
    ) -> PageResult:
        body = target(url, target_type, timeout_seconds=timeout, **options)
        got = await self._connection.request("POST", "/scrape/sync", body=body, has_key=True)
        return _page(got.data, got.meta)

    async def read_many(
        self, urls: Iterable[str], target_type: str = "page", **options: Any
    ) -> AsyncIterator[PageResult | PageFailed]:
        """Read pages as one job of any size, and yield each when the job has ended, in the order of `urls`. A page that
        could not be read is yielded as the error, with its reason."""
        targets = [target(url, target_type, **options) for url in urls]
        if not targets:
            return
        first, rest = targets[:PART], targets[PART:]
        made = await self._connection.data(
            "POST", "/scrape/jobs", body={"targets": first, "more": bool(rest)}, has_key=True
        )
        for at in range(0, len(rest), PART):
            await self._connection.data(
                "POST",
                f"/scrape/jobs/{made['job_id']}/targets",
                body={"targets": rest[at : at + PART], "first": PART + at, "more": at + PART < len(rest)},
            )
        await AsyncJobs(self._connection).wait(made["job_id"])
        async for pages in self._connection.pages(f"/scrape/jobs/{made['job_id']}/pages"):
            for each in pages:
                yield _page(each, each.get("meta") or {}) if each["status"] == "completed" else _failed(each)


def _page(task: Mapping[str, Any], meta: Mapping[str, Any]) -> PageResult:
    return PageResult(
        url=task["target_url"],
        target_type=task["target_type"],
        fields=task["result"] or {},
        task_id=task["task_id"],
        job_id=task["job_id"],
        page_url=meta.get("page_url"),
        rendered=meta.get("rendered"),
        provenance=meta.get("provenance") or {},
        stored=bool(meta.get("stored")),
        fetched_at=meta.get("fetched_at"),
    )


def _failed(task: Mapping[str, Any]) -> PageFailed:
    message = str(task["error"] or f"{task['target_url']}: {task['status']}")
    return PageFailed(message, code=str(task["status"]), reason=task.get("reason"), task_id=task["task_id"])


class AsyncJobs:
    """Jobs of every pipeline."""

    def __init__(self, connection: ApiConnection) -> None:
        self._connection = connection

    async def create(
        self, pipeline: str, params: Mapping[str, Any], *, idempotency_key: str | None = None
    ) -> JobReport:
        """Create a job of any pipeline, and return its report."""
        body = {"pipeline": pipeline, "params": params}
        made = await self._connection.data("POST", "/jobs", body=body, idempotency_key=idempotency_key, has_key=True)
        return await self.get(made["id"])

    async def estimate(self, pipeline: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a job would cost and how long it would take. Spends nothing."""
        priced: dict[str, Any] = await self._connection.data(
            "POST", "/jobs/plan", body={"pipeline": pipeline, "params": params}
        )
        return priced

    async def get(self, job: str) -> JobReport:
        report: JobReport = await self._connection.data("GET", f"/jobs/{part(job)}")
        return report

    def iter(self, /, **query: Any) -> AsyncRows:
        """Iterate over jobs, newest first. Filters: `state`, `pipeline`, `schedule`."""
        return AsyncRows(partial(self._connection.pages, "/jobs", query))

    async def wait(self, job: str, *, timeout: float | None = None, check: bool = False) -> JobReport:
        """Wait until a job has ended, and return its report.

        Raises `JobNotCompleted` if it is paused, or, with `check`, if it ends in another state than `completed`;
        `TimeoutError` after `timeout` seconds, while the job continues.
        """
        await self._connection.work()
        give_up = None if timeout is None else time.monotonic() + timeout
        pause = LOOK_FIRST
        while True:
            report = await self.get(job)
            if report["state"] == "paused" or (check and report["state"] in ENDED - {"completed"}):
                raise JobNotCompleted(report)
            if report["state"] in ENDED:
                return report
            if give_up is not None and time.monotonic() + pause > give_up:
                raise TimeoutError(f"Job {job} is still {report['state']} after {timeout} seconds; it continues.")
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, LOOK_LAST)

    async def cancel(self, job: str) -> JobReport:
        return await self._control(job, "cancel")

    async def pause(self, job: str) -> JobReport:
        return await self._control(job, "pause")

    async def resume(self, job: str) -> JobReport:
        return await self._control(job, "resume")

    async def retry(self, job: str) -> JobReport:
        """Run the failed tasks of a job again."""
        await self._connection.data("POST", f"/jobs/{part(job)}/retry")
        return await self.get(job)

    async def _control(self, job: str, verb: str) -> JobReport:
        await self._connection.data("POST", f"/jobs/{part(job)}/{verb}")
        return await self.get(job)


class AsyncRecords:
    """Records of every kind."""

    def __init__(self, connection: ApiConnection) -> None:
        self._connection = connection

    def iter(
        self,
        /,
        kind: str,
        *,
        job: str | None = None,
        as_of: datetime | None = None,
        since: datetime | None = None,
        **filters: Any,
    ) -> AsyncRows:
        """Iterate over the records of a kind, such as `place`. `since`: new or changed since then; `as_of`: as they
        were then. Further arguments are the kind's own filters."""
        query = {**filters, "job": job, "as_of": as_of}

        async def pages() -> AsyncIterator[list[Row]]:
            async for page in self._connection.pages(f"/records/{part(kind)}", query):
                yield page if since is None else [row for row in page if _changed_at(row) >= since]

        return AsyncRows(pages)

    async def get(self, kind: str, key: str, *, job: str | None = None) -> Row:
        row: Row = await self._connection.data("GET", f"/records/{part(kind)}/{part(key)}", query={"job": job})
        return row

    def history(self, kind: str, key: str) -> AsyncRows:
        """Iterate over the changes of a record, newest first."""
        return AsyncRows(partial(self._connection.pages, f"/records/{part(kind)}/{part(key)}/history"))

    async def kinds(self) -> list[str]:
        return [each["kind"] for each in await self._connection.data("GET", "/records")]


def _changed_at(row: Row) -> datetime:
    return datetime.fromisoformat(row.get("changed_at") or row["first_seen_at"])


class AsyncChanges:
    """The numbered log of everything that was new, changed or gone."""

    def __init__(self, connection: ApiConnection) -> None:
        self._connection = connection

    async def follow(
        self,
        *,
        after: int = 0,
        kinds: Iterable[str] = (),
        cursor_file: str | Path | None = None,
        forever: bool = True,
    ) -> AsyncIterator[ChangeSeen]:
        """Yield changes in order, then wait for new ones; with `forever=False`, end at the newest.

        `after` is the number of the last change that was handled. `cursor_file` keeps it for you: it is written when
        the next change is requested: after a crash, the program handles its last change again and loses none.
        """
        file = None if cursor_file is None else Path(cursor_file)
        at = max(after, await asyncio.to_thread(_read_cursor, file))
        while True:
            query = {"after": at, "kinds": ",".join(kinds) or None, "limit": 500, "wait": WAIT if forever else None}
            got = await self._connection.request("GET", "/changes", query=query)
            for each in got.data:
                yield _change(each)
                at = each["id"]
                if file is not None:
                    await asyncio.to_thread(_write_cursor, file, at)
            at = max(at, int(got.meta["next_after"]))
            if not forever and at >= int(got.meta["last"]):
                return

    async def number_at(self, moment: datetime) -> int:
        """Return the number after which changes are newer than a moment: the `after` of `follow`."""
        low, high = 0, await self.last()
        while low < high:  # the log is in the order of commits, so half of it can be left out with each look
            middle = (low + high) // 2
            got = await self._connection.request("GET", "/changes", query={"after": middle, "limit": 1})
            if not got.data:
                high = middle
            elif datetime.fromisoformat(got.data[0]["at"]) < moment:
                low = got.data[0]["id"]
            else:
                high = middle
        return low

    async def last(self) -> int:
        """Return the number of the newest change."""
        got = await self._connection.request("GET", "/changes", query={"limit": 1})
        return int(got.meta["last"])


def _change(item: Mapping[str, Any]) -> ChangeSeen:
    names = ("id", "kind", "key", "op", "version", "job", "body")
    return ChangeSeen(**{name: item[name] for name in names}, at=datetime.fromisoformat(item["at"]))


def _read_cursor(file: Path | None) -> int:
    if file is None or not file.exists():
        return 0
    text = file.read_text("utf-8").strip()
    if not text.isdigit():
        raise ApiError(f"{file} should contain the number of a change, not {text[:40]!r}.", code="invalid")
    return int(text)


def _write_cursor(file: Path, number: int) -> None:
    """Replace the file in one step: a reader sees the old number or the new one."""
    beside = file.with_name(file.name + ".new")
    beside.write_text(str(number), "utf-8")
    beside.replace(file)


class AsyncWeb:
    """Web search, and the pages of its results."""

    def __init__(self, connection: ApiConnection) -> None:
        self._connection = connection
        self._jobs = AsyncJobs(connection)

    async def plan(self, /, query: str, **options: Any) -> dict[str, Any]:
        """Return what a search would cost. Spends nothing."""
        body = {"query": query, **_given(options)}
        priced: dict[str, Any] = await self._connection.data("POST", "/web/plan", body=body)
        return priced

    async def search(self, /, query: str, *, idempotency_key: str | None = None, **options: Any) -> WebSearchReport:
        """Search, read the first results, and return them: `read` (up to 10), `pages`, `country`, `language`,
        `max_age`, `max_tokens`, `max_credits`. Raises `JobNotCompleted` if the search is paused."""
        body = {"query": query, **_given(options)}
        made = await self._connection.data(
            "POST", "/web/searches", body=body, idempotency_key=idempotency_key, has_key=True
        )
        await self._jobs.wait(made["job_id"])
        found: WebSearchReport = await self.get(made["job_id"])
        if found["read_job"] is not None:
            await self._jobs.wait(found["read_job"])
            found = await self.get(made["job_id"])
        return found

    async def get(self, job: str) -> WebSearchReport:
        report: WebSearchReport = await self._connection.data("GET", f"/web/searches/{part(job)}")
        return report


class AsyncSites:
    """Whole sites: their addresses, and their pages as Markdown, text or fields."""

    def __init__(self, connection: ApiConnection) -> None:
        self._connection = connection
        self._jobs = AsyncJobs(connection)

    async def plan(self, /, url: str, **options: Any) -> dict[str, Any]:
        """Return pages and time of a crawl at the pace in force. Fetches nothing."""
        body = {"url": url, **_given(options)}
        planned: dict[str, Any] = await self._connection.data("POST", "/sites/plan", body=body)
        return planned

    async def crawl(
        self, /, url: str, *, wait: bool = True, idempotency_key: str | None = None, **options: Any
    ) -> JobReport:
        """Crawl a site and store its pages: `limit`, `depth`, `include`, `exclude`, `subdomains`, `form`, `markdown`,
        `fields`, `frequency`, `render`. `pages` reads them."""
        made = await self._start({"url": url, **_given(options)}, idempotency_key)
        return await (self._jobs.wait if wait else self._jobs.get)(made["job_id"])

    async def map(self, /, url: str, *, idempotency_key: str | None = None, **options: Any) -> list[str]:
        """Return the addresses of a site that robots.txt, sitemaps and links name: `limit` (pages whose links are
        read), `include`, `exclude`, `subdomains`. Raises `JobNotCompleted` if the site could not be read."""
        made = await self._start({"url": url, "mode": "map", **_given(options)}, idempotency_key)
        report = await self._jobs.wait(made["job_id"])
        found = [row["url"] async for row in self.addresses(made["site"])]
        if report["failed"] and not found:
            raise JobNotCompleted(report)
        return found

    def pages(self, /, site: str, **query: Any) -> AsyncRows:
        """Iterate over the stored pages of a site, such as `docs.example`: `content=True` for their text,
        `duplicates=False`, `changed_since`."""
        size = {"limit": 50} if query.get("content") else {}  # a page of rows would be large
        return AsyncRows(partial(self._connection.pages, f"/sites/{part(site)}/pages", {**size, **query}))

    def addresses(self, /, site: str) -> AsyncRows:
        """Iterate over the addresses that maps of a site have found."""
        return AsyncRows(partial(self._connection.pages, f"/sites/{part(site)}/map"))

    async def page(self, /, url: str) -> Row:
        """Return one stored page with its content."""
        row: Row = await self._connection.data("GET", "/sites/page", query={"url": url})
        return row

    async def _start(self, body: Mapping[str, Any], idempotency_key: str | None) -> Mapping[str, Any]:
        made: Mapping[str, Any] = await self._connection.data(
            "POST", "/sites/crawls", body=body, idempotency_key=idempotency_key, has_key=True
        )
        return made


class AsyncPlaces:
    """Business listings by keyword and ZIP code."""

    def __init__(self, connection: ApiConnection) -> None:
        self._connection = connection
        self._jobs = AsyncJobs(connection)

    async def plan(self, /, keyword: str, **params: Any) -> dict[str, Any]:
        """Return what a job would cost: `state` or `zips`, `pages`, `max_credits`. Spends nothing."""
        body = {"keyword": keyword, **_given(params)}
        priced: dict[str, Any] = await self._connection.data("POST", "/places/plan", body=body)
        return priced

    async def run(
        self, /, keyword: str, *, wait: bool = True, idempotency_key: str | None = None, **params: Any
    ) -> JobReport:
        """Create a job, wait until it has ended, and return its report: `state` or `zips`, `pages`, `max_credits`."""
        made = await self._connection.data(
            "POST",
            "/places/jobs",
            body={"keyword": keyword, **_given(params)},
            idempotency_key=idempotency_key,
            has_key=True,
        )
        return await (self._jobs.wait if wait else self._jobs.get)(made["job_id"])

    def iter(self, /, **query: Any) -> AsyncRows:
        """Iterate over places. Filters: `job`, `zip`, `keyword`, `state`, `category`, `min_rating`, `title`."""
        return AsyncRows(partial(self._connection.pages, "/places", query))


class AsyncProducts:
    """Products of crawled shops."""

    def __init__(self, connection: ApiConnection) -> None:
        self._connection = connection
        self._jobs = AsyncJobs(connection)

    async def crawl(
        self, /, *urls: str, wait: bool = True, idempotency_key: str | None = None, **options: Any
    ) -> JobReport:
        """Crawl pages: `follow` links up to `depth`, a `sitemap`, at most `max_pages`."""
        body = {"urls": list(urls), **_given(options)}
        made = await self._connection.data(
            "POST", "/admin/crawl-jobs", body=body, idempotency_key=idempotency_key, has_key=True
        )
        return await (self._jobs.wait if wait else self._jobs.get)(made["job_id"])

    def iter(self, /, **query: Any) -> AsyncRows:
        """Iterate over products. Filters: `domain`, `brand`, `category`, `availability`, `min_price`, `max_price`."""
        return AsyncRows(partial(self._connection.pages, "/products", query))

    async def search(self, /, words: str, **query: Any) -> dict[str, Any]:
        """Return the best matches of a full-text search, with counts by brand, category and domain."""
        found: dict[str, Any] = await self._connection.data("GET", "/products/search", query={"q": words, **query})
        return found


class AsyncListings:
    """Apartments for rent."""

    def __init__(self, connection: ApiConnection) -> None:
        self._connection = connection

    def iter(self, /, **query: Any) -> AsyncRows:
        """Iterate over listings. Filters: `market`, `max_rent`, `beds`, `baths`, `city`, `zip`, `min_confidence`."""
        return AsyncRows(partial(self._connection.pages, "/listings", query))


class AsyncReviews:
    """Google Business Profile reviews."""

    def __init__(self, connection: ApiConnection) -> None:
        self._connection = connection
        self._jobs = AsyncJobs(connection)

    async def run(self, access_token: str, *, wait: bool = True) -> JobReport:
        """Fetch every account, location and review that the token can see."""
        made = await self._connection.data("POST", "/review-fetch", body={"access_token": access_token})
        return await (self._jobs.wait if wait else self._jobs.get)(made["job_id"])

    def iter(self, /, **query: Any) -> AsyncRows:
        """Iterate over reviews, with the filters of `records.iter("review")`."""
        return AsyncRows(partial(self._connection.pages, "/records/review", query))


def _given(params: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if value is not None}
