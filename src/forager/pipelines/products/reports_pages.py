"""Queries about pages: the list of crawl tasks, and what is stored of pages that are crawled again."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Literal

from pydantic import Field

from forager.core.hosts import one_spelling
from forager.extract.canonical import url_hash
from forager.kit.queries import Database, Page, Row
from forager.kit.queries.page import checked_limit, decode_cursor, encode_cursor
from forager.kit.reports import Report
from forager.pipelines.products.job import StoredPage

AT_ONCE = 1_000
"""Pages that are read by one query: a statement has a limited number of parameters."""
WINDOW = 5_000
"""Maximum URLs that are looked at for one page of the list of crawl tasks."""
Status = Literal["pending", "queued", "crawling", "downloaded", "parsing", "completed", "failed"]
_ORDER = ("part", "id")
_TOP = 1 << 62
_COLUMNS = ("priority", "frequency", "recrawl", "max_retries", "render", "misses", "product_url")


async def stored_pages(db: Database, urls: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Map each canonical URL to its `StoredPage` without the defaults; a page that was never crawled has only these."""
    pages: dict[str, dict[str, Any]] = {url: {} for url in urls}
    by_hash = {url_hash(url): url for url in pages}
    hashes = sorted(by_hash)
    for start in range(0, len(hashes), AT_ONCE):
        values = {f"hash{place}": each for place, each in enumerate(hashes[start : start + AT_ONCE])}
        marks = ", ".join(f":{mark}" for mark in values)
        rows = await db.fetch(f"SELECT url_hash, {', '.join(_COLUMNS)} FROM pages WHERE url_hash IN ({marks})", values)
        for row in rows:
            known = {name: row[name] for name in _COLUMNS if row[name] is not None}
            pages[by_hash[row["url_hash"]]] = StoredPage(**known).model_dump(exclude_defaults=True)
    return pages


class CrawlTaskReport(Report):
    """A URL that is crawled, and how its newest task stands: a row of the SQL view `crawl_tasks`."""

    id: int = Field(description="Negative until its first crawl, which gives it the id of its page.")
    domain_id: int | None = Field(description="The shop, as `GET /api/v1/admin/domains` lists it.")
    url: str
    url_hash: str = Field(description="SHA-256 of the canonical URL.")
    status: Status = Field(description="completed: crawled, and not due again yet.")
    priority: int = Field(description="1 is the highest, 10 the lowest.")
    scheduled_at: datetime | None = Field(description="When it was or will be due.")
    started_at: datetime | None
    completed_at: datetime | None
    retry_count: int
    max_retries: int
    error_message: str | None
    crawl_frequency: int = Field(description="Seconds between two crawls.")
    next_crawl_at: datetime | None
    html_path: str | None = Field(description="The stored page in this API; null if none is stored.")
    created_at: datetime | None
    updated_at: datetime | None


async def crawl_tasks(
    db: Database,
    *,
    status: str | None = None,
    domain: str | None = None,
    cursor: str | None = None,
    limit: int = 100,
) -> Page[CrawlTaskReport]:
    """Return the URLs, the one that was queued last first; those of one shop by page, newest first.

    There are two parts, because a URL that was never crawled has no page, and a page whose job was pruned has no task:
    all that have a task and then the other pages, or all pages of a shop and then its URLs without one. A status is not
    stored, so a filter reads a bounded number of URLs: a page may be short, even empty, and still have a next one.
    """
    wanted = checked_limit(limit)
    parts = ("task", "rest") if domain is None else ("page", "new")
    name_of_list = "crawl tasks" if domain is None else f"crawl tasks of {one_spelling(domain)}"
    part, start = decode_cursor(name_of_list, _ORDER, cursor) if cursor else (parts[0], _TOP)
    shop = None if domain is None else await _domain_id(db, domain)
    values: dict[str, Any] = {} if domain is None else {"domain": one_spelling(domain)}
    found: list[CrawlTaskReport] = []
    for name in parts[parts.index(part) if part in parts else 0 :]:
        looked_at, most = 0, AT_ONCE if status or name in ("rest", "new") else min(AT_ONCE, wanted + 1)
        while looked_at < WINDOW:
            rows = await db.fetch(_KEYS[name], {**(values if name == "page" else {}), "start": start, "most": most})
            keys = {row["key"]: row["id"] for row in rows if not row["other"]}
            tasks = await db.fetch_by_keys(_ROWS, {"keys": list(keys)}) if keys else ()
            shown = {row["url_hash"]: row for row in tasks}
            for key, number in keys.items():
                row = shown.get(key)
                if row is None or (status or row["status"]) != row["status"] or (domain and row["domain_id"] != shop):
                    continue
                if len(found) == wanted:
                    return Page(items=found, next_cursor=encode_cursor(name_of_list, _ORDER, [name, number + 1]))
                found.append(_crawl_task(row))
            if len(rows) < most:
                break
            start, looked_at = rows[-1]["id"], looked_at + len(rows)
        else:
            return Page(items=found, next_cursor=encode_cursor(name_of_list, _ORDER, [name, start]))
        start = _TOP
    return Page(items=found, next_cursor=None)


_HAS_PAGE = "EXISTS (SELECT 1 FROM pages p WHERE p.url_hash = o.key)"
_HAS_TASK = "EXISTS (SELECT 1 FROM open_keys o WHERE o.kind = 'products.crawl' AND o.key = p.url_hash)"
_OPEN = """
SELECT o.task_id AS id, o.key, {other} AS other FROM open_keys o
WHERE o.kind = 'products.crawl' AND o.task_id < :start ORDER BY o.task_id DESC LIMIT :most
"""
_PAGES = """
SELECT p.id, p.url_hash AS key, {other} AS other FROM pages p
WHERE {only}p.id < :start ORDER BY p.id DESC LIMIT :most
"""
_KEYS = {
    "task": _OPEN.format(other="1 = 0"),
    "rest": _PAGES.format(other=_HAS_TASK, only=""),
    "page": _PAGES.format(other="1 = 0", only="p.domain = :domain AND "),
    "new": _OPEN.format(other=_HAS_PAGE),
}
_ROWS = "SELECT * FROM crawl_tasks WHERE url_hash IN :keys"


async def _domain_id(db: Database, domain: str) -> int | None:
    rows = await db.fetch("SELECT id FROM domains WHERE domain_name = :name", {"name": one_spelling(domain)})
    return rows[0]["id"] if rows else None


def _crawl_task(row: Row) -> CrawlTaskReport:
    every = row["crawl_frequency"]
    seconds = int(every.total_seconds()) if isinstance(every, timedelta) else int(every.split()[0])
    return CrawlTaskReport(**{**row, "crawl_frequency": seconds})
