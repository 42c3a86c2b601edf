"""Parses stored pages again: reports what would change, and creates the tasks that write it. Needs no network."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from typing import Any, Literal
from uuid import UUID

from pydantic import Field

from forager.core.database import Database, Row
from forager.core.errors import BlobMissing, FieldError, NotFound, ParseFailed, Rejected
from forager.core.hosts import one_spelling
from forager.core.ids import unknown_choice
from forager.core.ledger import NewJob
from forager.core.task import Plan
from forager.extract.products.findings import FIELDS, ProductFindings
from forager.extract.products.parser import CURRENT, NEW, Parser, Parsers
from forager.extract.products.wrappers import PageWrapper
from forager.extract.text.urls import canonical_url, url_hash
from forager.pipelines.products.page_outcome import Seen, read_by
from forager.pipelines.products.parser_trial import HOW, FieldTrial, Trial, compare_findings, read_or_none, trial
from forager.pipelines.products.pipeline import NAME
from forager.pipelines.products.reports.catalogue import SCALE
from forager.pipelines.products.tasks import Parse
from forager.pipelines.products.wrappers import Wrapper, page_wrappers
from forager.sdk.queries import read_rows
from forager.sdk.reports import Report
from forager.sdk.service import Service

AT_ONCE = 500
MOST_EXAMPLES = 3
SCALED = frozenset({"price", "rating"})
LONGEST_EXAMPLE = 120


class FieldDifference(Report):
    """The changes of another parse to one field."""

    field: str
    same: int = 0
    changed: int = 0
    lost: int = Field(default=0, description="Stored, and not found now: the stored value is kept.")
    found: int = Field(default=0, description="Found now, and not stored.")
    examples: list[str] = Field(default_factory=list)


class ReparseReport(Report):
    """The changes of another parse of a shop's stored pages, or the job that writes them."""

    domain: str
    pages: int = Field(description="Stored pages that were compared or queued.")
    unreadable: int = Field(default=0, description="Pages that are lost, or whose parser broke.")
    more: bool = Field(default=False, description="True if the shop has more stored pages than were compared.")
    readers: list[str] = Field(default_factory=list, description="Parsers that read them, as `name/version`.")
    fields: list[FieldDifference] = Field(default_factory=list)
    job_id: UUID | None = Field(default=None, description="The job that parses and stores, with `apply`.")


async def compare(
    service: Service,
    parsers: Parsers,
    domain: str,
    *,
    version: int | None = None,
    url: str | None = None,
    sample: int = 1_000,
    wrappers: tuple[PageWrapper, ...] | None = None,
) -> ReparseReport:
    """Parse the newest stored pages and compare the result with the stored values; writes nothing. Raises `NotFound` if
    no page is stored.

    `version`: only products that this version of a parser has read. `url`: only this page. `wrappers`: these instead of
    the shop's adopted ones.
    """
    host = one_spelling(domain)
    if wrappers is None:
        where = "state = 'adopted' AND domain = :domain"
        wrappers = page_wrappers(await read_rows(service.database, Wrapper, where, {"domain": host}))
    counted = _Comparison()
    pages = 0
    async for rows in _stored(service.database, host, version, url, most=sample + 1):
        for row in rows[: sample - pages]:
            counted.add(row, await _parsed(service, parsers, row, wrappers))
        pages += len(rows)
    _refuse_none(pages, url or domain)
    return ReparseReport(
        domain=host,
        pages=min(pages, sample),
        unreadable=counted.unreadable,
        more=pages > sample,
        readers=sorted(counted.readers),
        fields=[counted.fields[name] for name in FIELDS],
    )


class FieldAgreement(Report):
    """Comparison of two parsers in one field."""

    field: str
    agree: int = Field(description="Pages on which both have the same value.")
    stronger: int = Field(description="Pages with different values, where the tried parser has the stronger evidence.")
    weaker: int = Field(description="The same, where the other parser has it.")
    even: int = Field(description="Pages with different values and equally strong evidence.")
    added: int = Field(description="Pages on which only the tried parser has a value.")
    missing: int = Field(description="Pages on which only the other parser has one.")
    agreement: float | None = Field(description="Share of the pages with a value on which both agree.")
    verdict: Literal["better", "same", "worse"] = Field(
        description="The tried parser is worse on more than 1 % of the pages."
    )
    examples: list[str] = Field(default_factory=list, description="Page: the other's value → the tried parser's.")


class ParserComparison(Report):
    """Two parsers on the same pages: agreement by field, and the winner by rule."""

    source: Literal["stored", "shadow"] = Field(description="Stored pages, or pages of production in a shadow run.")
    domain: str | None = Field(description="The shop; null for all.")
    parsers: list[str] = Field(description="The tried parsers, as `name/version`.")
    against: list[str] = Field(description="The parsers that they were compared with.")
    pages: int
    unreadable: int = Field(default=0, description="Stored pages that are lost.")
    broken: int = Field(description="Pages on which the tried parser raised an error.")
    broken_before: int = Field(description="Pages on which the other parser did.")
    added_pages: int = Field(description="Pages on which only the tried parser found a supported product.")
    missing_pages: int = Field(description="Pages on which only the other parser found one, likewise.")
    fields: list[FieldAgreement]
    winner: Literal["candidate", "current", "undecided"] = Field(
        description="`candidate`: the tried parser. `current`: the other one. `undecided`: the other one stays."
    )
    reasons: list[str] = Field(description="Why.")


async def try_parser(
    service: Service, parsers: Parsers, tried: str, against: str, *, domain: str | None = None, sample: int = 500
) -> ParserComparison:
    """Read the newest stored pages with two parsers and compare what they find; writes nothing.

    `tried` and `against`: `current` (the parser in force), `new` (the candidate), a name, or `name/version`. Pages
    without such a parser are left out. Raises `Rejected` for an unknown name, and `NotFound` if no page is stored for
    it.
    """
    _refuse_unknown(parsers, "parser", tried)
    _refuse_unknown(parsers, "against", against)
    host = one_spelling(domain) if domain is not None else None
    compared, labels, unreadable = Trial(), (set[str](), set[str]()), 0
    async for page in _newest_pages(service.database, host):
        new, old = parsers.named(tried, page["url"]), parsers.named(against, page["url"])
        if new is None or old is None or new == old:
            continue
        try:
            response = await service.read_page(page["html"])
        except BlobMissing:
            unreadable += 1
            continue
        url = canonical_url(response.url)
        one, other = [await _findings(service, response.body, url, each) for each in (new, old)]
        compared.add(await _compared(service, response.body, one, other))
        compared.show(page["url"], one, other)
        labels[0].add(new.label)
        labels[1].add(old.label)
        if compared.pages["pages"] >= sample:
            break
    if not compared.pages["pages"]:
        of = f" of {domain}" if domain else ""
        raise NotFound(
            f"No stored page{of} is read by two different parsers {tried!r} and {against!r}. Known parsers:"
            f" {', '.join(parsers.labels())}. A candidate is a parser with `candidate=True`, or one that"
            " FORAGER_PRODUCT_PARSER_CANDIDATES names."
        )
    return _comparison("stored", host, *labels, compared, unreadable=unreadable)


async def shadow_report(
    service: Service, parsers: Parsers, tried: str, against: str, *, domain: str | None = None, days: int = 7
) -> ParserComparison:
    """Return what the shadow runs of the last days have counted. Raises `NotFound` if there were none."""
    first = (await service.ledger.now()).date() - timedelta(days=days - 1)
    only, values = "", {"first": first.isoformat()}
    if domain is not None:
        only, values = " AND domain = :domain", {**values, "domain": one_spelling(domain)}
    rows = await service.database.fetch(f"SELECT * FROM parser_trials WHERE day >= :first{only} ORDER BY day", values)
    candidates = {each.label for each in parsers.candidates}
    compared, labels = Trial(), (set[str](), set[str]())
    for row in rows:
        new, old = f"{row['parser']}/{row['parser_version']}", f"{row['against']}/{row['against_version']}"
        fits = new in candidates if tried == NEW else tried in (new, row["parser"])
        if fits and against in (CURRENT, old, row["against"]):
            compared.add(row)
            labels[0].add(new)
            labels[1].add(old)
    if not compared.pages["pages"]:
        raise NotFound(
            f"No shadow run of {tried!r} was counted in the last {days} days. A candidate runs beside the parser in"
            " force while Forager crawls, if FORAGER_PRODUCT_SHADOW_SHARE is above 0. Candidates:"
            f" {', '.join(sorted(candidates)) or 'none; set FORAGER_PRODUCT_PARSER_CANDIDATES'}."
        )
    return _comparison("shadow", values.get("domain"), *labels, compared)


def _comparison(
    source: Literal["stored", "shadow"],
    domain: str | None,
    tried: set[str],
    against: set[str],
    compared: Trial,
    unreadable: int = 0,
) -> ParserComparison:
    winner, reasons = compared.decide()
    pages = compared.pages
    return ParserComparison(
        source=source,
        domain=domain,
        parsers=sorted(tried),
        against=sorted(against),
        pages=pages["pages"],
        unreadable=unreadable,
        **{name: pages[name] for name in ("broken", "broken_before", "added_pages", "missing_pages")},
        fields=[_agreement(name, each, pages["pages"]) for name, each in compared.fields.items()],
        winner=winner,
        reasons=reasons,
    )


def _agreement(name: str, compared: FieldTrial, pages: int) -> FieldAgreement:
    with_value = sum(compared.counts.values())
    return FieldAgreement(
        field=name,
        **{how: compared.counts[how] for how in HOW},
        agreement=round(compared.counts["agree"] / with_value, 4) if with_value else None,
        verdict=compared.verdict(pages),
        examples=compared.examples,
    )


async def _findings(service: Service, body: bytes, url: str, parser: Parser) -> ProductFindings | None:
    """Return what a parser finds on a stored page; None if it breaks or takes too long."""
    try:
        found = await service.offload(read_or_none, body, url, parser.read)
    except ParseFailed:
        return None
    return None if found is None else found.restored()


async def _compared(
    service: Service, body: bytes, one: ProductFindings | None, other: ProductFindings | None
) -> Mapping[str, int]:
    """Return the counts of one page. A page that no reader can parse supports no product."""
    try:
        return await service.offload(compare_findings, body, one, other)
    except ParseFailed:
        return trial(one, other, b"")


def _refuse_unknown(parsers: Parsers, field_name: str, name: str) -> None:
    known = [CURRENT, NEW, *parsers.labels()]
    if name not in known and name not in {each.partition("/")[0] for each in known}:
        message = unknown_choice("parser", name, known)
        raise Rejected(f"{field_name}: {message}.", fields=[FieldError(field_name, message)])


async def _newest_pages(db: Database, domain: str | None) -> AsyncIterator[Row]:
    """Yield the stored pages of a shop, or of all shops, newest first."""
    only, values = (" AND domain = :domain", {"domain": domain}) if domain is not None else ("", {})
    last = 1 << 62
    while True:
        pages = await db.fetch(
            f"SELECT id, url, html FROM pages WHERE id < :last AND html IS NOT NULL{only} ORDER BY id DESC LIMIT :most",
            {**values, "last": last, "most": AT_ONCE},
        )
        for page in pages:
            yield page
        if not pages:
            return
        last = pages[-1]["id"]


def reparse_key(host: str) -> str:
    """Return the idempotency key of the standing job that parses a shop's stored pages again."""
    return f" products/reparse/{host}"


async def apply(service: Service, domain: str, *, version: int | None = None, url: str | None = None) -> ReparseReport:
    """Queue another parse of every stored page of a shop, or of one page. Raises `NotFound` if none is stored."""
    host = one_spelling(domain)
    job = NewJob(NAME, {"reparse": host}, idempotency_key=reparse_key(host), standing=True)
    made, pages = None, 0
    async for rows in _stored(service.database, host, version, url):
        plans = [Plan(Parse(url=row["page_url"], html=row["html"])) for row in rows]
        made = await service.ledger.append(job, plans, again=True)
        pages += len(rows)
    _refuse_none(pages, url or domain)
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


async def _parsed(service: Service, parsers: Parsers, row: Row, wrappers: tuple[PageWrapper, ...]) -> Seen | None:
    try:
        response = await service.read_page(row["html"])
        url = canonical_url(response.url)
        return await read_by(service.offload, response.body, url, parsers.for_url(url), wrappers=wrappers)
    except BlobMissing:
        return None
    except Exception:  # noqa: BLE001 - a parser is a plug-in; the report counts what it cannot read
        return None


async def _stored(
    db: Database, domain: str, version: int | None, url: str | None = None, most: int | None = None
) -> AsyncIterator[Sequence[Row]]:
    """Stored pages of a shop with the products that they show, newest first; with `url`, only the page with this
    address."""
    last, left = 1 << 62, most
    one = " AND url_hash = :one" if url is not None else ""
    only = " AND i.parser_version = :version" if version is not None else ""
    fields = ", ".join(f"i.{name}" for name in FIELDS)
    while left is None or left > 0:
        pages = await db.fetch(
            "SELECT id, url, html, product_url FROM pages WHERE domain = :domain AND id < :last AND html IS NOT NULL"
            f"{one} ORDER BY id DESC LIMIT :most",
            {"domain": domain, "last": last, "most": min(AT_ONCE, left or AT_ONCE)}
            | ({"one": url_hash(canonical_url(url))} if url is not None else {}),
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
