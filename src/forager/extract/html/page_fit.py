"""Recognises pages that are not the page of one thing: a list, a form, an error, or empty. Pure.

A page that is not an item must not yield one: its values would be those of other things, or of none.
"""

import re
from collections.abc import Iterable
from typing import Literal

from forager.extract.html.document import Document
from forager.extract.html.structured_data import Thing
from forager.extract.tables import any_of, table

_DATA = table("pages")

PageFit = Literal["item", "list", "form", "error", "empty", "other"]
"""`other`: a page with text but without the fields to extract."""
LITTLE = 150
"""Visible characters under which a page is empty."""
LONGEST = 160
_THING = (
    r"(?:page|product|item|article|listing|offer|job|position|vacancy|posting|requisition|property|ad|advert"
    r"|advertisement)"
)
_ERROR = any_of(
    _DATA["error"],
    rf"\b{_THING}s?\b.{{0,40}}\b(?:not found|no longer (?:available|exists?|sold|active|open|accepting|listed)"
    r"|(?:does not|doesn.t) exist|(?:was|has been|is|has) (?:removed|deleted|gone|discontinued|closed|filled|expired)"
    r"|could ?n.t be found|(?:not|un)[ -]?available)|{}",
)
_APPLYING = any_of(_DATA["applying"])
_PERSONAL = any_of(_DATA["personal"])
LEAST_INPUTS = 3
_ITEMS = frozenset(
    {"JobPosting", "Product", "RealEstateListing", "Apartment", "House", "SingleFamilyResidence", "Recipe"}
)
"""Types of structured data that declare the page of one item."""
OUTER = 1
"""Depth to which a thing can be the page's subject: at the top, or one level below, as a `mainEntity` is."""


def declared_types(known: Iterable[Thing]) -> frozenset[str]:
    """Return the types of the things that the page can be about."""
    return frozenset[str]().union(*(thing.types for thing in known if thing.depth <= OUTER))


def declares_other(known: Iterable[Thing], *own: str) -> bool:
    """Return whether the structured data of a page declare an item, and none of the types `own`: a salary is not a
    rent, and the headline of a job posting is not a person's name."""
    declared = declared_types(known)
    return bool(declared & _ITEMS) and not declared & frozenset(own)


def is_empty(document: Document) -> bool:
    """Return whether the page shows next to nothing: a shell that scripts have not filled."""
    return len(document.text) < LITTLE


def title_or_headline(document: Document, pattern: re.Pattern[str]) -> str | None:
    """Return the page's title, or else its headline, if it is short and matches the pattern; None if neither does."""
    for words in dict.fromkeys((document.title, document.headline)):  # often the same words
        if words and len(words) <= LONGEST and pattern.search(words):
            return words
    return None


def error_of(document: Document) -> str | None:
    """Return the title or headline that reports a missing page or item; None if there is none."""
    if told := title_or_headline(document, _ERROR):
        return told
    if len(document.text) <= 1_500:
        short = (line.text for line in document.lines if len(line.text) <= LONGEST)
        return next((text for text in short if _ERROR.search(text)), None)
    return None


def is_application_form(document: Document) -> bool:
    """Return whether the page is a form for a person's data: its title or headline is about applying, and it has such
    fields."""
    headline = document.first_text("h1", "h2")
    if not _APPLYING.search(f"{document.title or ''} {headline[0] if headline else ''}"):
        return False
    named = (
        " ".join(node.attributes.get(name) or "" for name in ("name", "id", "placeholder", "aria-label", "type"))
        for node in document.tree.css("input, textarea")[:200]
    )
    return sum(bool(_PERSONAL.search(words)) for words in named) >= LEAST_INPUTS
