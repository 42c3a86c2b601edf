"""The health of parsers: how often a parser finds a product on a page, and each field of it. Pure.

Every crawl counts its page in the transaction that settles it, so the counts are exact, even after kill -9. They are
kept per domain, parser version and day. A share that falls far below its mean of the last days means that the site has
changed or the parser is broken: the field is then quarantined (see `reports_health`).

On a shop's first day there is no mean. Its products are then compared with themselves: a field that an earlier visit
showed and the last one did not is marked on the product (`unseen`), and a page that showed a product and shows none any
more keeps its `product_url`. A parser that never found a product is compared with the pages: only pages that present a
product by their markup, or showed one before, are counted, so all of them are expected to show one.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict, create_model

from forager.core.record import Index, Record
from forager.core.table import Effect, TableRow
from forager.extract.products.findings import FIELDS, ProductFindings
from forager.extract.products.parser import Parser

FALL = 0.20
"""A share that is below its mean by this difference has fallen."""
LEAST_PAGES = 50
"""Fewer pages, today or before, prove nothing."""
DAYS = 7
EVERYTHING = "*"
"""In place of a field: pages that show no product at all any more."""
State = Literal["open", "accepted", "rejected"]


class _Counted(TableRow):
    table: ClassVar[str] = "parser_health"
    key: ClassVar[tuple[str, ...]] = ("domain", "parser", "parser_version", "day")
    indexes: ClassVar[tuple[Index, ...]] = (Index(("day",)),)

    domain: str
    parser: str
    parser_version: int
    day: date
    pages: int = 0
    """Pages that showed a product, did so at an earlier visit, or present one by their markup."""
    products: int = 0
    """Pages that showed a value."""


_fields: dict[str, Any] = dict.fromkeys(FIELDS, (int, 0))
ParserHealth = create_model("ParserHealth", __base__=_Counted, **_fields)
"""One row per domain, parser version and day; for each field, the number of products that showed it."""


class Quarantine(TableRow):
    """A field whose values of one parser version are held back. `accepted`: the new values were right after all;
    `rejected`: they were wrong, and this version's values stay out."""

    table: ClassVar[str] = "quarantines"
    key: ClassVar[tuple[str, ...]] = ("domain", "parser", "parser_version", "field")

    domain: str
    parser: str
    parser_version: int
    field: str
    state: State = "open"
    rate: float
    """The share of the day on which it fell …"""
    mean: float
    """… and the mean of the days before."""
    pages: int
    since: datetime
    decided_at: datetime | None = None


class ParserAlert(Record):
    """A quarantine as a record, so that the change log and every sink contain it."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "alert_key": "shop.example/base/1/price",
                    "domain": "shop.example",
                    "parser": "base",
                    "parser_version": 1,
                    "field": "price",
                    "state": "open",
                    "rate": 0.4,
                    "mean": 0.98,
                    "pages": 50,
                }
            ]
        }
    )

    kind: ClassVar[str] = "parser_alert"
    table: ClassVar[str] = "parser_alerts"
    key_field: ClassVar[str] = "alert_key"

    alert_key: str
    domain: str
    parser: str
    parser_version: int
    field: str
    state: str | None = None
    rate: float | None = None
    mean: float | None = None
    pages: int | None = None


@dataclass(frozen=True, slots=True)
class Fall:
    """A share that has fallen."""

    field: str
    rate: float
    mean: float
    pages: int


def counted(parser: Parser, domain: str, at: datetime, findings: ProductFindings) -> Effect:
    """Count a page that showed these findings; none: it showed no product, though it was expected to."""
    filled = frozenset(findings.values).intersection(FIELDS) if findings.is_product else None
    return _counted(domain, parser.name, parser.version, at.date(), filled)


@lru_cache(maxsize=4_096)  # pages of a shop show the same few sets of fields
def _counted(domain: str, parser: str, version: int, day: date, filled: frozenset[str] | None) -> Effect:
    add = {"pages": 1} if filled is None else {"pages": 1, "products": 1, **dict.fromkeys(filled, 1)}
    key = {"domain": domain, "parser": parser, "parser_version": version, "day": day}
    return Effect(ParserHealth, key, add=add, insert=True)


def falls(today: Mapping[str, int], before: Mapping[str, int]) -> Iterator[Fall]:
    """Yield the shares that have fallen. Compares the counts of one parser version on one day with the sums over the
    days before."""
    yield from _fall(EVERYTHING, today["products"], today["pages"], before["products"], before["pages"])
    for name in FIELDS:
        yield from _fall(name, today[name], today["products"], before[name], before["products"])


def falls_of_visits(counts: Mapping[str, int], unseen: Mapping[str, int], read: int, known: int) -> Iterator[Fall]:
    """Yield what the last visits found less often than the visits before them, for a shop without earlier days.

    `counts` has the products (`products`) and those with a value by field, `unseen` those whose last visit did not show
    the field. `known` pages showed a product before, or could not be parsed; `read` of them showed one at the last
    visit.
    """
    yield from _fall(EVERYTHING, read, known, known, known)
    products = counts["products"]
    for name in FIELDS:
        yield from _fall(name, counts[name] - unseen.get(name, 0), products, counts[name], products)


def falls_of_first_day(today: Mapping[str, int]) -> Iterator[Fall]:
    """Yield a fall if the counted pages of a shop without earlier days show far fewer products than there are pages."""
    yield from _fall(EVERYTHING, today["products"], today["pages"], today["pages"], today["pages"])


def _fall(name: str, filled: int, of: int, filled_before: int, of_before: int) -> Iterator[Fall]:
    if of < LEAST_PAGES or of_before < LEAST_PAGES:
        return
    rate, mean = filled / of, filled_before / of_before
    if mean - rate >= FALL:
        yield Fall(name, rate, mean, of)


# The record of the weekly audit of the catalogue. Pure.


class Audit(TableRow):
    """One audit. The row of a week is inserted before its audit runs, so that one process runs it."""

    table: ClassVar[str] = "audits"
    key: ClassVar[tuple[str, ...]] = ("week",)

    week: str
    """ISO week, such as 2026-W47."""
    started_at: datetime
    finished_at: datetime | None = None
    findings: dict[str, Any] | None = None


def week_of(moment: datetime) -> str:
    """Return the ISO week of a moment: `2026-W47`."""
    year, week, _ = moment.isocalendar()
    return f"{year}-W{week:02}"
