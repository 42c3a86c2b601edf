"""The name under which a page shows its product. Pure."""

import re
from collections.abc import Iterator
from itertools import pairwise

from forager.extract.document import Document, Line
from forager.extract.text import one_line

MOST_NODES = 3_000
LONGEST = 200
_NAMED = re.compile(r"(?:product|item|prod)[-_]?(?:name|title|heading)|(?:name|title)[-_]?product", re.IGNORECASE)
_PARTS = re.compile(r"\s+[|–—•·»:-]\s+")
_TRAIL = re.compile(r"[^>»›]{2,60}+(?:[>»›][^>»›]{1,80}+){2,8}+")
"""A breadcrumb trail in one line: `Home > Garden > Tools`."""
LABELLED = re.compile(
    r"(?:(?:product|item|article|art|catalog|model)[\s.-]*(?:id|no\.?|nr\.?|number|code|#)|sku|mpn|brand|manufacturer"
    r"|availability|(?:unit|our|your|sale) price|marke|hersteller|artikel-?(?:nr\.?|nummer)|verfügbarkeit|référence"
    r"|marque|disponibilité|marca|disponibil\w+|codice|artikelnummer|kód(?: produktu| zboží)?|dostupnost"
    r"|kod produktu|producent|dostępność|артикул|производитель|наличие(?: на складе)?)\s*[:#]",
    re.IGNORECASE,
)
"""Begins a line that only the description of a product has."""
_NO_NAME = re.compile(
    r"(?:shipping|delivery|returns?|payment|size|sizing|care|warranty|product|item|customer|contact|store|order|cart)?\s*"
    r"(?:(?:&|and)\s+\w+\s+)?(?:information|infos?|details?|guide|chart|reviews?|ratings?|description|specifications?"
    r"|overview|polic(?:y|ies)|options?|service|questions?|faqs?)"
    r"|(?:shipping|delivery|returns?)\s*(?:&|and)\s*(?:exchanges?|refunds?|returns?|handling|delivery)|cookies?"
    r"|(?:your|my|shopping)\s(?:cart|basket|bag|account|wish ?list)|sign (?:in|up)|log ?in|newsletter|subscribe"
    r"|related (?:products|items)|you (?:may|might) also like|follow the author|about (?:us|the (?:author|brand))|menu"
    r"|search|welcome|versand(?:kosten)?|lieferung|produktbeschreibung|beschreibung|bewertungen|warenkorb|livraison"
    r"|description du produit|avis(?: clients)?|panier|envío|descripción|opiniones|carrito|descrizione|recensioni",
    re.IGNORECASE,
)
"""Headlines of other parts of a product's page."""
_NEVER = frozenset(("nav", "footer", "aside", "header"))


def headline_of(document: Document) -> str | None:
    """Return the product's name as the page shows it, or None.

    In this order: the headline; an element that is called the product's name and shares its words with the page's
    title; a line that is a part of the page's title; the line under a breadcrumb trail; the line above the first
    labelled fact (`Item #: 12`); the only headline of lower rank, if the text is a part of a page without any title.
    """
    return (
        _highest(document)
        or _called_so(document)
        or _part_of_title(document)
        or _under_trail(document)
        or _above_labels(document)
        or _of_fragment(document)
    )


def _highest(document: Document) -> str | None:
    """Return the `h1` that shares the most words with the page's title, because a banner may have one, too."""
    texts = [text for node in document.tree.css("h1")[:10] if (text := one_line(node.text(separator=" ")))]
    texts = [text for text in texts if not _NO_NAME.fullmatch(text)]
    title = words(document.title)
    return max(texts, key=lambda text: len(words(text) & title) / max(1, len(words(text))), default=None)


def _called_so(document: Document) -> str | None:
    title = words(document.title)
    for node in document.tree.css("h2, h3, [class], [id], [itemprop=name]")[:MOST_NODES]:
        attributes = node.attributes
        called = f"{attributes.get('class') or ''} {attributes.get('id') or ''}"
        if node.tag not in ("h2", "h3") and attributes.get("itemprop") != "name" and not _NAMED.search(called):
            continue
        text = one_line(node.text(separator=" "))
        own = words(text)
        if 2 <= len(text) <= LONGEST and own and len(own & title) >= max(1, 0.6 * len(own)):
            return text
    return None


def _part_of_title(document: Document) -> str | None:
    parts = {one_line(part).casefold() for part in _PARTS.split(document.title or "")}
    shown = (line.text for line in document.shown if line.area not in ("nav", "footer"))
    return next((text for text in shown if len(text) > 5 and " " in text and text.casefold() in parts), None)


def _under_trail(document: Document) -> str | None:
    lines = document.shown
    for line, below in pairwise(lines):
        if len(line.text) <= LONGEST and _TRAIL.fullmatch(line.text) and _can_be_name(below):
            return below.text
    return None


def _above_labels(document: Document) -> str | None:
    lines = document.shown
    labelled = [at for at, line in enumerate(lines) if len(line.text) <= 120 and LABELLED.match(line.text)]
    if not labelled or len(labelled) > 12:  # so many are a list
        return None
    above = (lines[at] for at in range(labelled[0] - 1, max(-1, labelled[0] - 4), -1))
    return next((line.text for line in above if _can_be_name(line) and " " in line.text), None)


def _of_fragment(document: Document) -> str | None:
    if document.title:
        return None
    texts = {text for node in document.tree.css("h2")[:5] if (text := one_line(node.text(separator=" ")))}
    return texts.pop() if len(texts) == 1 else None


def _can_be_name(line: Line) -> bool:
    is_short = 3 <= len(line.text) <= LONGEST and any(char.isalpha() for char in line.text)
    return is_short and line.area not in _NEVER and line.tag not in ("li", "button") and not line.text.endswith(":")


def words(text: str | None) -> frozenset[str]:
    return frozenset(_words(text))


def _words(text: str | None) -> Iterator[str]:
    return (match[0] for match in re.finditer(r"\w+", (text or "").casefold()))
