"""Learnt wrappers as rows of the ledger: their states, the rule by which one is adopted, and their form for a page.
Pure.

A wrapper is what one template of a shop has taught: a path per field. Its rows have one version, which counts up per
shop. It is *proposed* when it was learnt and *adopted* by the rule or by a person; from then on its paths are used. A
later version of the same template *retires* a path that it replaces; a person may *reject* any.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, ClassVar, Literal, Protocol

from forager.core.record import Index
from forager.core.table import TableRow
from forager.extract.products.parser import Parser
from forager.extract.products.wrappers import FieldPath, Mode, PageWrapper
from forager.extract.schemas.spec import SchemaField

LEARNT = "+learnt"
"""Added to a parser's name where a shop has adopted wrappers: its health is then counted by their version."""
WrapperState = Literal["proposed", "adopted", "retired", "rejected"]
MOST_TEMPLATES = 8
"""Templates of one shop that are tried on a page, the newest first."""
LEAST_SUPPORT: Mapping[Mode, int] = {"teach": 5, "heal": 10}
LEAST_SCORE: Mapping[Mode, float] = {"teach": 0.95, "heal": 0.8}
"""The rule: a path is adopted by itself if leave-one-page-out found this share of the values, on this number of pages.
Last good values may have changed since, so fewer of them can be found."""
MOST_WRONG = 0.05
"""Share of the pages on which an adopted path may show another value."""


class Wrapper(TableRow):
    """The path of one field in one version of a shop's wrapper."""

    table: ClassVar[str] = "wrappers"
    key: ClassVar[tuple[str, ...]] = ("domain", "version", "field")
    indexes: ClassVar[tuple[Index, ...]] = (Index(("state", "domain")), Index(("decided_at",)))

    domain: str
    version: int
    field: str
    template: str
    anchors: list[str]
    """Selectors by which a page of the template is recognised."""
    mode: Mode
    """Taught by markup (`teach`), or by the last good values after a change of layout (`heal`)."""
    path: dict[str, Any] | None = None
    before: str = ""
    after: str = ""
    constant: str | None = None
    pages: int
    """Pages with a known value …"""
    support: int
    """… those on which the path finds it, and those on which it finds another one."""
    wrong: int = 0
    score: float
    """Leave-one-page-out: the share of known values that the path chosen by the other pages finds."""
    state: WrapperState = "proposed"
    same: int = 0
    """The field diff over stored pages: values that stay, change, are lost and are found."""
    changed: int = 0
    lost: int = 0
    found: int = 0
    examples: list[str] | None = None
    learnt_at: datetime
    decided_at: datetime | None = None
    applied_at: datetime | None = None
    """Time at which the shop's stored pages were queued to be read with it."""

    def as_path(self) -> FieldPath:
        path = None if self.path is None else SchemaField.model_validate(self.path)
        return FieldPath(self.field, path, self.score, self.before, self.after, self.constant)

    def is_like(self, other: "Wrapper") -> bool:
        """Return whether both find the same."""
        mine = (self.template, self.field, self.path, self.before, self.after, self.constant)
        return mine == (other.template, other.field, other.path, other.before, other.after, other.constant)


class SiteLook(TableRow):
    """The last time that wrappers were learnt from a shop's pages. One row per shop."""

    table: ClassVar[str] = "site_looks"
    key: ClassVar[tuple[str, ...]] = ("domain",)

    domain: str
    looked_at: datetime | None = None
    healed_at: datetime | None = None
    pages: int = 0
    """Pages counted by parser health at that time."""
    version: int = 0
    """The newest version of the shop's wrappers."""


class WrapperSource(Protocol):
    """Provides the adopted wrappers of shops."""

    async def of(self, domain: str, *, fresh: bool = False) -> tuple[PageWrapper, ...]:
        """Return those of a shop. They may be a second old, unless they are wanted `fresh`."""
        ...

    async def product_of(self, page_hash: str) -> str | None:
        """Return the URL of the product that a page showed at an earlier visit; None if it never did."""
        ...


class NoWrappers:
    """A source without wrappers."""

    async def of(self, domain: str, *, fresh: bool = False) -> tuple[PageWrapper, ...]:
        return ()

    async def product_of(self, page_hash: str) -> str | None:
        return None


def is_adoptable(row: Wrapper) -> bool:
    """Return whether a proposed path fulfils the rule."""
    return (
        row.state == "proposed"
        and row.support >= LEAST_SUPPORT[row.mode]
        and row.score >= LEAST_SCORE[row.mode]
        and row.wrong <= MOST_WRONG * row.pages
    )


def page_wrappers(rows: Iterable[Wrapper]) -> tuple[PageWrapper, ...]:
    """Return the rows of one shop in the form in which pages are read, the newest template first."""
    templates: dict[str, dict[str, Wrapper]] = {}
    for row in sorted(rows, key=lambda each: -each.version):
        templates.setdefault(row.template, {}).setdefault(row.field, row)
    return tuple(_page_wrapper(fields) for fields in list(templates.values())[:MOST_TEMPLATES])


def _page_wrapper(fields: Mapping[str, Wrapper]) -> PageWrapper:
    rows = list(fields.values())
    paths = tuple(row.as_path() for row in rows)
    return PageWrapper(rows[0].template, max(row.version for row in rows), tuple(rows[0].anchors), paths)


def reader_with(parser: Parser, wrappers: Sequence[PageWrapper]) -> Parser:
    """Return a parser under the name by which its pages are counted where wrappers are used as well. A new version has
    a health of its own, and what was held back of an older one does not concern it."""
    if not wrappers:
        return parser
    return replace(parser, name=f"{parser.name}{LEARNT}", version=max(each.version for each in wrappers))
