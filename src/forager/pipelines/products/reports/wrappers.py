"""Learnt wrappers as they are stored: when a shop's pages are learnt from, what is proposed, and what is decided.

Learning happens in upkeep, one shop at a time, in a reader with limits. A proposal is one statement, and so is a
decision: a process that dies between the two leaves a proposal, which the next upkeep decides about by the same rule.
An adopted wrapper whose pages were not yet queued to be read again has no `applied_at`, and is taken up as well.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Literal
from urllib.parse import urlsplit

import orjson
import structlog
from pydantic import Field

from forager.core.database import Database, Row
from forager.core.errors import BlobMissing, Conflict, NotFound, ParseFailed
from forager.core.hosts import one_spelling
from forager.core.ids import no_such
from forager.core.reading import ReadError
from forager.extract.html.document import decoded
from forager.extract.products.findings import DECIMALS, FIELDS
from forager.extract.products.learning import LEAST_TEACHERS, MARKUP, LearntTemplate, learn_site, least_sure
from forager.extract.products.parser import Parsers
from forager.extract.products.wrappers import Mode
from forager.extract.text.urls import canonical_url, url_hash
from forager.pipelines.products.reports import reparse
from forager.pipelines.products.reports.catalogue import SCALE
from forager.pipelines.products.reports.health import decide, quarantines
from forager.pipelines.products.reports.reparse import FieldDifference
from forager.pipelines.products.wrappers import SiteLook, Wrapper, WrapperState, is_adoptable, page_wrappers
from forager.sdk.queries import columns_of, loads, one_row, read_rows
from forager.sdk.reports import Report
from forager.sdk.service import Service

log = structlog.get_logger("forager.products")

LEAST_PAGES = 10
"""Pages of a shop below which there is nothing to learn."""
AGAIN_AFTER = timedelta(days=1)
"""A shop is examined again after a day, or when it has four times the pages and some minutes have passed."""
SOON, MORE = timedelta(minutes=10), 4
HEAL_AGAIN = timedelta(hours=1)
NEWEST = 300
"""Stored pages of a shop among which the pages to learn from are chosen."""
MOST_TEACHERS, MOST_OTHERS = 16, 8
MOST_BYTES = 6 * 1024 * 1024
CPU_SECONDS = 30.0
SAMPLE = 100
"""Stored pages over which the field diff of a proposal is made."""
KEPT_VERSIONS = 10
_GUESSES = frozenset(("heuristic", "sign"))


class WrapperField(Report):
    """The path of one field."""

    field: str
    path: str = Field(description="Location of the value: a selector, a path into the page's JSON, or a constant.")
    state: WrapperState
    score: float = Field(description="Leave-one-page-out: share of known values that the other pages' path finds.")
    support: int = Field(description="Pages on which it finds the known value …")
    pages: int = Field(description="… of this number.")
    wrong: int = Field(description="Pages on which it finds another value.")
    same: int = Field(description="Stored pages whose value stays …")
    changed: int = Field(description="… changes …")
    lost: int = Field(description="… is not found any more …")
    found: int = Field(description="… and is found where there was none.")
    examples: list[str] = Field(default_factory=list, description="Page: the stored value → the value that is read.")


class WrapperReport(Report):
    """One version of a shop's wrapper for one template."""

    name: str = Field(description="`domain/version`: for adopt and reject.")
    domain: str
    version: int
    template: str = Field(description="Short name of the template, the same for the same anchors.")
    state: WrapperState = Field(description="`adopted` if any of its paths is in use.")
    mode: Mode = Field(description="`teach`: by markup. `heal`: by last good values, after a change of layout.")
    learnt_at: datetime
    decided_at: datetime | None
    fields: list[WrapperField]


async def wrappers(
    db: Database, *, domain: str | None = None, state: str | None = None, version: int | None = None
) -> list[WrapperReport]:
    """Return the wrappers of a shop, or of all shops; the newest version first."""
    where, values = ["TRUE"], dict[str, Any]()
    for name, value in (("domain", domain), ("version", version)):
        if value is not None:
            where.append(f"{name} = :{name}")
            values[name] = value
    rows = await read_rows(db, Wrapper, " AND ".join(where), values, order="domain, version DESC, field LIMIT 5000")
    groups: dict[tuple[str, int], list[Wrapper]] = {}
    for row in rows:
        groups.setdefault((row.domain, row.version), []).append(row)
    told = [_report(group) for group in groups.values()]
    return [each for each in told if state is None or each.state == state]


async def wrapper(db: Database, name: str) -> WrapperReport:
    """Return one wrapper by its name. Raises `NotFound`."""
    domain, version = await _named(db, name)
    return (await wrappers(db, domain=domain, version=version))[0]


async def propose(service: Service, parsers: Parsers, domain: str, mode: Mode | None = None) -> list[WrapperReport]:
    """Learn from a shop's stored pages now, and store what is new as proposals. Returns them.

    Without a mode: `heal` if values of the shop are held back, else `teach`. Raises `NotFound` if nothing is stored.
    """
    host = one_spelling(domain)
    if mode is None:
        held = await quarantines(service.database, state="open")
        mode = "heal" if any(each.domain == host for each in held) else "teach"
    if not await service.database.fetch(
        "SELECT 1 FROM pages WHERE domain = :d AND html IS NOT NULL LIMIT 1", {"d": host}
    ):
        raise NotFound(f"No page of {domain} is stored. `forager products list --domain {domain}` shows its products.")
    versions = await _learn(service, parsers, host, mode)
    return [each for each in await wrappers(service.database, domain=host) if each.version in versions]


async def adopt(service: Service, name: str, fields: Sequence[str] | None = None) -> WrapperReport:
    """Let the paths of a wrapper be used, all or those of these fields, and queue the shop's stored pages to be read by
    them. Raises `NotFound`, and `Conflict` if there is nothing left to adopt."""
    domain, version = await _named(service.database, name)
    rows = await read_rows(service.database, Wrapper, "domain = :d AND version = :v", {"d": domain, "v": version})
    open_fields = [row.field for row in rows if row.state != "adopted" and (fields is None or row.field in fields)]
    if not open_fields:
        raise Conflict(f"{name} has nothing left to adopt.")
    await _decide_fields(service, domain, version, open_fields, "adopted")
    await _apply(service, domain)
    return await wrapper(service.database, name)


async def reject(service: Service, name: str) -> WrapperReport:
    """Keep the paths of a wrapper out; one that was adopted is used no more, and the stored pages are read again
    without it. Raises `NotFound`, and `Conflict` if it was rejected before."""
    domain, version = await _named(service.database, name)
    rows = await read_rows(service.database, Wrapper, "domain = :d AND version = :v", {"d": domain, "v": version})
    fields = [row.field for row in rows if row.state != "rejected"]
    if not fields:
        raise Conflict(f"{name} has been rejected already.")
    was_used = any(row.state == "adopted" for row in rows)
    await _decide_fields(service, domain, version, fields, "rejected")
    if was_used:
        await reparse.apply(service, domain)
    return await wrapper(service.database, name)


# ── upkeep ──


async def learn_if_due(service: Service, parsers: Parsers, *, adopts: bool = True) -> str | None:
    """Finish what was decided but not applied; then learn from one shop, if one is due. Returns the shop, or None."""
    if adopts:
        await _adopt_by_rule(service, None)
    await _apply_adopted(service)
    now = await service.ledger.now()
    due = await _to_heal(service, now) or await _to_teach(service, now)
    if due is None or not await _claim(service, *due, now):
        return None
    domain, mode, _ = due
    if await _learn(service, parsers, domain, mode) and adopts:
        await _adopt_by_rule(service, domain)
        await _apply_adopted(service)
    return domain


async def _to_heal(service: Service, now: datetime) -> tuple[str, Mode, int] | None:
    """Find a shop with held back values, whose newest pages were not yet compared with its last good values."""
    rows = await service.database.fetch(
        "SELECT q.domain FROM quarantines q LEFT JOIN site_looks l ON l.domain = q.domain WHERE q.state = 'open'"
        " AND (l.healed_at IS NULL OR l.healed_at < q.since OR l.healed_at < :before) ORDER BY q.since LIMIT 1",
        {"before": _ms(now - HEAL_AGAIN)},
    )
    return (rows[0]["domain"], "heal", 0) if rows else None


async def _to_teach(service: Service, now: datetime) -> tuple[str, Mode, int] | None:
    """Find a shop that was crawled since yesterday, and not looked at lately."""
    rows = await service.database.fetch(
        "SELECT h.domain, h.pages FROM (SELECT domain, sum(pages) AS pages FROM parser_health WHERE day >= :first"
        " GROUP BY domain) h LEFT JOIN site_looks l ON l.domain = h.domain WHERE h.pages >= :least AND"
        " (l.looked_at IS NULL OR l.looked_at < :before OR (l.looked_at < :soon AND h.pages >= :more * l.pages))"
        " ORDER BY l.looked_at LIMIT 1",
        {
            "first": (now.date() - timedelta(days=1)).isoformat(),
            "least": LEAST_PAGES,
            "before": _ms(now - AGAIN_AFTER),
            "soon": _ms(now - SOON),
            "more": MORE,
        },
    )
    return (rows[0]["domain"], "teach", int(rows[0]["pages"])) if rows else None


async def _claim(service: Service, domain: str, mode: Mode, pages: int, now: datetime) -> bool:
    """Record that a shop is being examined now. Returns False if another process has recorded it since."""
    column = "healed_at" if mode == "heal" else "looked_at"
    row = await one_row(service.database, SiteLook, domain=domain)
    before = None if row is None else getattr(row, column)
    same = f"site_looks.{column} IS NULL" if before is None else f"site_looks.{column} = :before"
    set_pages = ", pages = :pages" if mode == "teach" else ""
    values = {"domain": domain, "now": _ms(now), "pages": pages}
    written = await service.database.write(
        f"INSERT INTO site_looks (domain, {column}, pages) VALUES (:domain, :now, :pages) ON CONFLICT (domain)"
        f" DO UPDATE SET {column} = :now{set_pages} WHERE {same} RETURNING 1 AS one",
        values if before is None else {**values, "before": _ms(before)},
    )
    return bool(written)


async def _learn(service: Service, parsers: Parsers, domain: str, mode: Mode) -> list[int]:
    """Learn from a shop's stored pages and store proposals. Returns their versions; none if nothing new was learnt."""
    pages = await _pages_to_teach(service, domain) if mode == "teach" else await _pages_to_heal(service, domain)
    if not pages:
        return []
    read = parsers.for_url(pages[0]["url"]).read
    body = await asyncio.to_thread(orjson.dumps, pages)
    try:
        templates = await service.offload(learn_site, body, read, mode, limit=CPU_SECONDS)
    except (ParseFailed, ReadError) as error:
        log.warning("wrapper_not_learnt", domain=domain, error=str(error))
        return []
    stored = await read_rows(service.database, Wrapper, "domain = :d", {"d": domain})
    versions = [await _propose(service, parsers, domain, mode, each, stored) for each in templates]
    return [version for version in versions if version is not None]


async def _propose(
    service: Service, parsers: Parsers, domain: str, mode: Mode, learnt: LearntTemplate, stored: Sequence[Wrapper]
) -> int | None:
    """Store what one template taught, with its field diff; None if all of it is stored already."""
    now = await service.ledger.now()
    rows = [_row(domain, mode, learnt, number, now) for number in range(len(learnt.fields))]
    fresh = [row for row in rows if not any(row.is_like(each) for each in stored)]
    if not fresh:
        return None
    tried = page_wrappers([*(each for each in stored if each.state == "adopted"), *fresh])
    compared = await reparse.compare(service, parsers, domain, sample=SAMPLE, wrappers=tried)
    diff = {each.field: each for each in compared.fields}
    (numbered,) = await service.database.write(
        "INSERT INTO site_looks (domain, version) VALUES (:domain, 1) ON CONFLICT (domain)"
        " DO UPDATE SET version = site_looks.version + 1 RETURNING version",
        {"domain": domain},
    )
    version = int(numbered["version"])
    await _insert(service.database, [_with_diff(row, version, diff[row.field]) for row in fresh])
    await service.database.write(
        "DELETE FROM wrappers WHERE domain = :d AND version <= :old AND state <> 'adopted'",
        {"d": domain, "old": version - KEPT_VERSIONS},
    )
    log.info("wrapper_proposed", domain=domain, version=version, mode=mode, fields=[row.field for row in fresh])
    return version


def _row(domain: str, mode: Mode, learnt: LearntTemplate, number: int, now: datetime) -> Wrapper:
    each = learnt.fields[number]
    return Wrapper(
        domain=domain,
        version=0,
        field=each.field,
        template=learnt.template,
        anchors=learnt.anchors,
        mode=mode,
        path=each.path,
        before=each.before,
        after=each.after,
        constant=each.constant,
        pages=each.pages,
        support=each.support,
        wrong=each.wrong,
        score=each.score,
        learnt_at=now,
    )


def _with_diff(row: Wrapper, version: int, diff: FieldDifference) -> Wrapper:
    counts = diff.model_dump(include={"same", "changed", "lost", "found"})
    return row.model_copy(update={"version": version, **counts, "examples": diff.examples})


async def _insert(db: Database, rows: Sequence[Wrapper]) -> None:
    """Insert the rows of a proposal in one statement: all of them are stored, or none."""
    columns = columns_of(Wrapper)
    names = ", ".join(f'"{name}"' for name in columns)
    marks = ", ".join(f"({', '.join(f':{name}_{n}' for name in columns)})" for n in range(len(rows)))
    values = {
        f"{name}_{n}": column.encoded(getattr(row, name))
        for n, row in enumerate(rows)
        for name, column in columns.items()
    }
    await db.write(f"INSERT INTO wrappers ({names}) VALUES {marks}", values)


async def _adopt_by_rule(service: Service, domain: str | None) -> None:
    where, values = (
        ("state = 'proposed'", {}) if domain is None else ("state = 'proposed' AND domain = :d", {"d": domain})
    )
    rows = [row for row in await read_rows(service.database, Wrapper, where, values) if is_adoptable(row)]
    for version in sorted({(row.domain, row.version) for row in rows}):
        fields = [row.field for row in rows if (row.domain, row.version) == version]
        await _decide_fields(service, *version, fields, "adopted")


async def _decide_fields(
    service: Service, domain: str, version: int, fields: Sequence[str], state: Literal["adopted", "rejected"]
) -> None:
    """Decide about the paths of some fields; what an adopted one replaces is retired in the same statement."""
    marks = ", ".join(f":f{n}" for n in range(len(fields)))
    where = f"domain = :domain AND field IN ({marks}) AND (version = :version"
    if state == "adopted":
        where += (
            " OR (state = 'adopted' AND template = (SELECT min(t.template) FROM wrappers t WHERE t.domain = :domain"
            " AND t.version = :version))"
        )
    await service.database.write(
        f"UPDATE wrappers SET state = CASE WHEN version = :version THEN CAST(:state AS text) ELSE 'retired' END,"
        f" decided_at = :now, applied_at = NULL WHERE {where})",
        {
            **{f"f{n}": name for n, name in enumerate(fields)},
            "domain": domain,
            "version": version,
            "state": state,
            "now": await service.ledger.now_ms(),
        },
    )
    log.info(f"wrapper_{state}", domain=domain, version=version, fields=list(fields))


async def _apply_adopted(service: Service) -> None:
    rows = await service.database.fetch(
        "SELECT DISTINCT domain FROM wrappers WHERE state = 'adopted' AND applied_at IS NULL ORDER BY domain LIMIT 10"
    )
    for row in rows:
        await _apply(service, row["domain"])


async def _apply(service: Service, domain: str) -> None:
    """Queue the shop's stored pages to be read by its adopted wrappers, and accept what was held back until then.

    Every part may be repeated: a process that dies in between leaves `applied_at` empty.
    """
    rows = await read_rows(
        service.database, Wrapper, "domain = :d AND state = 'adopted' AND applied_at IS NULL", {"d": domain}
    )
    if not rows:
        return
    healed = {row.field for row in rows if row.mode == "heal"}
    for held in await quarantines(service.database, state="open"):
        if held.domain == domain and (held.field in healed or (held.field == "*" and "product_name" in healed)):
            name = f"{held.domain}/{held.parser}/{held.parser_version}/{held.field}"
            await decide(service, name, "accepted")
    with suppress(NotFound):  # its pages may have been removed meanwhile
        await reparse.apply(service, domain)
    await service.database.write(
        "UPDATE wrappers SET applied_at = :now WHERE domain = :d AND state = 'adopted' AND applied_at IS NULL"
        " AND decided_at <= :last",
        {
            "now": await service.ledger.now_ms(),
            "d": domain,
            "last": max(_ms(row.decided_at) for row in rows if row.decided_at),
        },
    )


# ── the pages to learn from ──


async def _newest(service: Service, domain: str) -> list[dict[str, Any]]:
    """Return the newest stored pages of a shop, each with its product, if one is known."""
    pages = await service.database.fetch(
        "SELECT id, url, html, product_url, outcome FROM pages WHERE domain = :d AND html IS NOT NULL"
        " ORDER BY id DESC LIMIT :most",
        {"d": domain, "most": NEWEST},
    )
    keys = [url_hash(page["product_url"] or page["url"]) for page in pages]
    fields = ", ".join(FIELDS)
    items = await service.database.fetch_by_keys(
        f"SELECT url_hash, evidence, shown, unseen, held, {fields} FROM items WHERE url_hash IN :keys", {"keys": keys}
    )
    known = {item["url_hash"]: item for item in items}
    return [{**page, "item": known.get(key)} for page, key in zip(pages, keys, strict=True)]


async def _pages_to_teach(service: Service, domain: str) -> list[dict[str, Any]]:
    """Pages whose markup is sure of something, and others that could use it; nothing if there are none of either."""
    teachers, needy, others = list[Row](), list[Row](), list[Row]()
    sure: Counter[str] = Counter()
    for page in await _newest(service, domain):
        evidence = loads(page["item"]["evidence"]) if page["item"] else None
        if page["outcome"] not in ("product", "unchanged") or not evidence:
            others.append(page)
            continue
        own = {n for n, each in evidence.items() if each["source"] in MARKUP and each["confidence"] >= least_sure(n)}
        sure.update(own)
        (teachers if "product_name" in own or "price" in own else needy).append(page)
    taught = {name for name, count in sure.items() if count >= LEAST_TEACHERS}
    if len(teachers) < LEAST_TEACHERS or not taught:
        return []
    lacking = [page for page in (*teachers, *needy) if _lacks(page, taught)]
    shapes = {_shape(page["url"]) for page in teachers}
    likely = [page for page in others if _shape(page["url"]) in shapes]
    if not lacking and not likely:
        return []
    chosen = [*_spread(teachers, MOST_TEACHERS), *_spread(needy, MOST_OTHERS), *_spread(others, MOST_OTHERS)]
    return await _with_html(service, chosen)


def _lacks(page: Row, taught: set[str]) -> bool:
    evidence = loads(page["item"]["evidence"]) or {}
    return any(name not in evidence or evidence[name]["source"] in _GUESSES for name in taught)


def _shape(url: str) -> tuple[int, str]:
    """Return the form of an address: `/p/oak-table` is like `/p/walnut-lamp`, not like `/c/tables`."""
    parts = [part for part in urlsplit(url).path.split("/") if part]
    return len(parts), parts[0] if len(parts) > 1 else ""


async def _pages_to_heal(service: Service, domain: str) -> list[dict[str, Any]]:
    """Pages whose product was known before, with the values that were good then."""
    chosen = []
    for page in await _newest(service, domain):
        item = page["item"]
        if item is None or not (
            page["outcome"] in ("other", "unparsed") or loads(item["unseen"]) or loads(item["held"])
        ):
            continue  # nothing of it was lost: no evidence about the present layout
        values = _last_good(page)
        if "product_name" in values and len(values) >= 2:
            chosen.append({**page, "values": values})
    return await _with_html(service, _spread(chosen, 2 * MOST_TEACHERS))


def _last_good(page: Row) -> dict[str, str]:
    """Return the stored values that the page's present layout has not written: all, if it showed no product; else those
    that it did not show or that were held back, and those of markup."""
    item = page["item"]
    if item is None:
        return {}
    evidence, kept = loads(item["evidence"]) or {}, {*(loads(item["unseen"]) or {}), *(loads(item["held"]) or {})}
    if page["outcome"] in ("other", "unparsed"):
        names = [name for name in FIELDS if evidence.get(name, {}).get("source") not in _GUESSES or name in kept]
    else:
        good = {name for name, each in evidence.items() if each["source"] not in _GUESSES}
        names = [name for name in FIELDS if name in kept or name in good]
    return {name: _text(name, item[name]) for name in names if item[name] is not None}


def _text(name: str, value: Any) -> str:
    return str(Decimal(value) / SCALE) if name in DECIMALS else str(value)


async def _with_html(service: Service, pages: Sequence[Row]) -> list[dict[str, Any]]:
    """Return pages with their text, as far as they are not too long together."""
    read, left = list[dict[str, Any]](), MOST_BYTES
    for page in pages:
        try:
            response = await service.read_page(page["html"])
        except BlobMissing:
            continue
        left -= len(response.body)
        if left < 0 and len(read) >= LEAST_TEACHERS:
            break
        html = await asyncio.to_thread(decoded, response.body)
        each: dict[str, Any] = {"url": canonical_url(response.url), "html": html}
        if "values" in page:
            each["values"] = page["values"]
        read.append(each)
    return read


def _spread(pages: Sequence[Row], most: int) -> list[Row]:
    step = max(1, len(pages) // most)
    return list(pages[::step][:most])


# ── names and reports ──


async def _named(db: Database, name: str) -> tuple[str, int]:
    domain, _, version = name.rpartition("/")
    if version.isdecimal() and domain:
        host, number = one_spelling(domain), int(version)
        values = {"d": host, "v": number}
        if await db.fetch("SELECT 1 FROM wrappers WHERE domain = :d AND version = :v LIMIT 1", values):
            return host, number
    rows = await db.fetch("SELECT DISTINCT domain, version FROM wrappers ORDER BY domain, version LIMIT 200")
    known = [f"{row['domain']}/{row['version']}" for row in rows]
    raise no_such("wrapper", name, known, "See `forager products wrappers list`.")


def _report(rows: Sequence[Wrapper]) -> WrapperReport:
    first = rows[0]
    states = {row.state for row in rows}
    order: tuple[WrapperState, ...] = ("adopted", "proposed", "retired", "rejected")
    return WrapperReport(
        name=f"{first.domain}/{first.version}",
        domain=first.domain,
        version=first.version,
        template=first.template,
        state=next(state for state in order if state in states),
        mode=first.mode,
        learnt_at=first.learnt_at,
        decided_at=max((row.decided_at for row in rows if row.decided_at), default=None),
        fields=[_field(row) for row in rows],
    )


def _field(row: Wrapper) -> WrapperField:
    counts = row.model_dump(include={"score", "support", "pages", "wrong", "same", "changed", "lost", "found"})
    return WrapperField(field=row.field, path=_shown(row), state=row.state, examples=row.examples or [], **counts)


def _shown(row: Wrapper) -> str:
    if row.path is None:
        return f"always {row.constant}"
    path: Mapping[str, Any] = row.path
    place = (
        f"json {path['json']}" if "json" in path else f"{path.get('css')}{'@' + path['attr'] if 'attr' in path else ''}"
    )
    around = (
        f" without {json.dumps(row.before + '…' + row.after, ensure_ascii=False)}" if row.before or row.after else ""
    )
    return f"{place}{around}"


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
