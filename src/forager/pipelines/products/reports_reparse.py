"""Stored pages, parsed once more: what would change, and the tasks that write it. Needs no network."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any
from uuid import UUID

from pydantic import Field

from forager.core.errors import BlobMissing, NotFound
from forager.core.hosts import one_spelling
from forager.core.ledger import NewJob
from forager.core.task import Plan
from forager.extract.canonical import canonical_url, url_hash
from forager.extract.products.findings import FIELDS
from forager.extract.products.parser import Parsers
from forager.kit.queries import Database, Row
from forager.kit.reports import Report
from forager.kit.service import Service
from forager.pipelines.products.page_outcome import Seen, read
from forager.pipelines.products.pipeline import NAME
from forager.pipelines.products.reports import SCALE
from forager.pipelines.products.tasks import Parse

AT_ONCE = 500
MOST_EXAMPLES = 3
SCALED = frozenset({"price", "rating"})
LONGEST_EXAMPLE = 120


class FieldDifference(Report):
    """What another parse would do to one field."""

    field: str
    same: int = 0
    changed: int = 0
    lost: int = Field(default=0, description="Stored, and not found now: the stored value is kept.")
    found: int = Field(default=0, description="Found now, and not stored.")
    examples: list[str] = Field(default_factory=list)


class ReparseReport(Report):
    """What another parse of a shop's stored pages would change, or the job that writes it."""

    domain: str
    pages: int = Field(description="Stored pages that were compared or queued.")
    unreadable: int = Field(default=0, description="Pages that are lost, or whose parser broke.")
    more: bool = Field(default=False, description="Whether the shop has more stored pages than were compared.")
    readers: list[str] = Field(default_factory=list, description="Parsers that read them, as `name/version`.")
    fields: list[FieldDifference] = Field(default_factory=list)
    job_id: UUID | None = Field(default=None, description="The job that parses and stores, with `apply`.")


async def compare(
    service: Service, parsers: Parsers, domain: str, *, version: int | None = None, sample: int = 1_000
) -> ReparseReport:
    """Parse the newest stored pages and compare with what is stored; writes nothing. Raises `NotFound` if there are
    none.

    `version`: only products that this version of a parser has read.
    """
    host = one_spelling(domain)
    counted = _Comparison()
    pages = 0
    async for rows in _stored(service.database, host, version, most=sample + 1):
        for row in rows[: sample - pages]:
            counted.add(row, await _parsed(service, parsers, row))
        pages += len(rows)
    _refuse_none(pages, domain)
    return ReparseReport(
        domain=host,
        pages=min(pages, sample),
        unreadable=counted.unreadable,
        more=pages > sample,
        readers=sorted(counted.readers),
        fields=[counted.fields[name] for name in FIELDS],
    )


async def apply(service: Service, domain: str, *, version: int | None = None) -> ReparseReport:
    """Queue another parse of every stored page of a shop. Raises `NotFound` if there are none."""
    host = one_spelling(domain)
    job = NewJob(NAME, {"reparse": host}, idempotency_key=f" products/reparse/{host}", standing=True)
    made, pages = None, 0
    async for rows in _stored(service.database, host, version):
        plans = [Plan(Parse(url=row["page_url"], html=row["html"])) for row in rows]
        made = await service.ledger.append(job, plans, again=True)
        pages += len(rows)
    _refuse_none(pages, domain)
    return ReparseReport(domain=host, pages=pages, job_id=made.job if made else None)


@dataclass(slots=True)
class _Comparison:
    fields: dict[str, FieldDifference] = field(
        default_factory=lambda: {name: FieldDifference(field=name) for name in FIELDS}
    )
    readers: set[str] = field(default_factory=set)
    unreadable: int = 0

    def add(self, row: Row, seen: Seen | None) -> None:
        if seen is None:
            self.unreadable += 1
            return
        self.readers.add(f"{seen.parser.name}/{seen.parser.version}")
        for name, difference in self.fields.items():
            before, now = _stored_value(row, name), seen.findings.get(name)
            kind = _kind(before, now)
            if kind is None:
                continue
            changes: dict[str, Any] = {kind: getattr(difference, kind) + 1}
            if kind != "same" and len(difference.examples) < MOST_EXAMPLES:
                shown = f"{row['page_url']}: {_short(before)} → {_short(now)}"
                changes["examples"] = [*difference.examples, shown]
            self.fields[name] = difference.model_copy(update=changes)


def _kind(before: Any, now: Any) -> str | None:
    if before is None and now is None:
        return None
    if before is None:
        return "found"
    if now is None:
        return "lost"
    return "same" if before == now else "changed"


def _stored_value(row: Row, name: str) -> Any:
    value = row[name]
    return Decimal(value) / SCALE if name in SCALED and value is not None else value


def _short(value: Any) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= LONGEST_EXAMPLE else f"{text[:LONGEST_EXAMPLE]}…"


async def _parsed(service: Service, parsers: Parsers, row: Row) -> Seen | None:
    try:
        response = await service.read_page(row["html"])
        url = canonical_url(response.url)
        return await asyncio.to_thread(read, response, url, parsers.for_url(url))
    except BlobMissing:
        return None
    except Exception:  # noqa: BLE001 - a parser is a plug-in; the report counts what it cannot read
        return None


async def _stored(
    db: Database, domain: str, version: int | None, most: int | None = None
) -> AsyncIterator[Sequence[Row]]:
    """Stored pages of a shop with the products that they show, newest first."""
    last, left = 1 << 62, most
    only = " AND i.parser_version = :version" if version is not None else ""
    fields = ", ".join(f"i.{name}" for name in FIELDS)
    while left is None or left > 0:
        pages = await db.fetch(
            "SELECT id, url, html, product_url FROM pages WHERE domain = :domain AND id < :last AND html IS NOT NULL"
            " ORDER BY id DESC LIMIT :most",
            {"domain": domain, "last": last, "most": min(AT_ONCE, left or AT_ONCE)},
        )
        if not pages:
            return
        last = pages[-1]["id"]
        values = {f"k{n}": url_hash(page["product_url"] or page["url"]) for n, page in enumerate(pages)}
        marks = ", ".join(f":{mark}" for mark in values)
        items = await db.fetch(
            f"SELECT i.url_hash, {fields} FROM items i WHERE i.url_hash IN ({marks}){only}",
            {**values, **({"version": version} if version is not None else {})},
        )
        known = {item["url_hash"]: item for item in items}
        matched = [
            {**known.get(key, {}), "page_url": page["url"], "html": page["html"]}
            for page, key in zip(pages, values.values(), strict=True)
            if key in known or (version is None and page["product_url"] is None)
        ]
        rows = [{**dict.fromkeys(FIELDS), **row} for row in matched]
        left = None if left is None else left - len(rows)
        if rows:
            yield rows


def _refuse_none(pages: int, domain: str) -> None:
    if not pages:
        raise NotFound(f"No page of {domain} is stored. `forager products list --domain {domain}` shows its products.")
