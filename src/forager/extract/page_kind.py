"""What a page is, if it is not the page of one thing: a list, a form, an error, or empty. Pure.

A page that is not an item must not yield one: its values would be those of other things, or of none.
"""

import re
from collections.abc import Iterable
from typing import Literal

from forager.extract.document import Document
from forager.extract.structured_data import Thing

PageKind = Literal["item", "list", "form", "error", "empty", "other"]
"""`other`: a page with text that has nothing of what was asked for."""
LITTLE = 150
"""Visible characters under which a page is empty."""
LONGEST = 160
_THING = (
    r"(?:page|product|item|article|listing|offer|job|position|vacancy|posting|requisition|property|ad|advert"
    r"|advertisement)"
)
_ERROR = re.compile(
    rf"\b{_THING}s?\b.{{0,40}}\b(?:not found|no longer (?:available|exists?|sold|active|open|accepting|listed)"
    r"|(?:does not|doesn.t) exist|(?:was|has been|is|has) (?:removed|deleted|gone|discontinued|closed|filled|expired)"
    r"|could ?n.t be found|(?:not|un)[ -]?available)"
    r"|\b(?:404|not found)\b.{0,20}\b(?:error|page)|\berror (?:404|500|503)\b|^404\b|\bpage not found\b"
    r"|\b(?:access denied|forbidden|service unavailable|internal server error|bad gateway)\b"
    r"|(?:seite|artikel|produkt|stelle|stellenanzeige|anzeige|objekt)\b.{0,40}\b(?:nicht (?:gefunden|mehr)|abgelaufen)"
    r"|(?:page|produit|article|offre|annonce)\b.{0,40}\b(?:introuvable|n.existe plus|n.est plus disponible)"
    r"|(?:página|producto|artículo|oferta|anuncio)\b.{0,40}\b(?:no encontrad[oa]|ya no (?:existe|está disponible))"
    r"|(?:страница|товар|вакансия)\b.{0,40}\b(?:не найден|закрыта)",
    re.IGNORECASE,
)
_APPLYING = re.compile(
    r"\bapply\b|\bapplication\b|bewerb(?:en|ung)|candidat(?:ure|ar)|postul(?:er|ar)|solicit(?:ud|ar)|ansøg|sollicit",
    re.IGNORECASE,
)
_PERSONAL = re.compile(
    r"(?:first|last|full|sur|given|family)[\s_-]?name|vorname|nachname|prénom|apellidos?|r[eé]sum[eé]|cover[\s_-]?letter"
    r"|lebenslauf|\bcv\b|phone|telefon|e-?mail",
    re.IGNORECASE,
)
LEAST_INPUTS = 3
_ITEMS = frozenset(
    {"JobPosting", "Product", "RealEstateListing", "Apartment", "House", "SingleFamilyResidence", "Recipe"}
)
"""Types of structured data that declare the page of one item."""
OUTER = 1
"""Depth down to which a thing can be what the page is about: at the top, or one level below, as a `mainEntity` is."""


def declared_types(known: Iterable[Thing]) -> frozenset[str]:
    """Return the types of the things that the page can be about."""
    return frozenset[str]().union(*(thing.types for thing in known if thing.depth <= OUTER))


def declares_other(known: Iterable[Thing], *own: str) -> bool:
    """Whether the structured data of a page declare an item, and none of the types `own`: a salary is not a rent, and
    the headline of a job posting is not a person's name."""
    declared = declared_types(known)
    return bool(declared & _ITEMS) and not declared & frozenset(own)


def is_empty(document: Document) -> bool:
    """Whether the page shows next to nothing: a shell that scripts have not filled."""
    return len(document.text) < LITTLE


def title_or_headline(document: Document, pattern: re.Pattern[str]) -> str | None:
    """Return the page's title, or else its headline, if it is short and matches the pattern; None if neither does."""
    for words in dict.fromkeys((document.title, document.headline)):  # often the same words
        if words and len(words) <= LONGEST and pattern.search(words):
            return words
    return None


def error_of(document: Document) -> str | None:
    """Return the title or headline with which a page says that what was asked for is not there; None if it does not."""
    if told := title_or_headline(document, _ERROR):
        return told
    if len(document.text) <= 1_500:
        short = (line.text for line in document.lines if len(line.text) <= LONGEST)
        return next((text for text in short if _ERROR.search(text)), None)
    return None


def is_application_form(document: Document) -> bool:
    """Whether the page asks for a person's data: its title or headline is about applying, and it has such fields."""
    headline = document.first_text("h1", "h2")
    if not _APPLYING.search(f"{document.title or ''} {headline[0] if headline else ''}"):
        return False
    named = (
        " ".join(node.attributes.get(name) or "" for name in ("name", "id", "placeholder", "aria-label", "type"))
        for node in document.tree.css("input, textarea")[:200]
    )
    return sum(bool(_PERSONAL.search(words)) for words in named) >= LEAST_INPUTS
