"""The brand of a product where no markup has it: a labelled line, or a link or logo beside the headline. Pure."""

import re
from collections.abc import Sequence

from forager.extract.document import Document, Line
from forager.extract.products.findings import Findings
from forager.extract.products.headline import words
from forager.extract.text import one_line

LONGEST = 40
MOST_NODES = 2_000
_LEADS = re.compile(
    r"[/?&=_-](?:brands?|manufacturers?|marken?|hersteller|marques?|marcas?|march[io]o?|vendors?|brend|producent)[/=_-]",
    re.IGNORECASE,
)
"""In the address of a brand's page or logo."""
_LABELLED = re.compile(
    r"(?:brand|manufacturer|marke|hersteller|marque|fabricant|marca|producent|výrobce|značka|производитель|бренд)"
    rf"\s*:\s*(\S.{{1,{LONGEST}}})",
    re.IGNORECASE,
)
_PARTS = re.compile(r"\s+[|–—•·»:-]\s+")
_HEADINGS = ("h2", "h3", "h4")


def read_brand(document: Document, lines: Sequence[Line], findings: Findings) -> None:
    """Add the brand. `lines` begin with the product's name.

    It is, in this order: the text of a link, or the name of a picture, whose address has a word for brands and which is
    a part of the product's name or the page's title; a short headline right under the product's that is a part of the
    title; a line with a label.
    """
    name = findings.get("product_name")
    if "brand" in findings or not name:
        return
    findings.add(
        "brand", _linked(document, name) or _under_headline(document, lines, name) or _told(lines), "heuristic"
    )


def _linked(document: Document, name: str) -> str | None:
    known = words(name) | words(document.title)
    for node in document.tree.css("a[href], img[src][alt]")[:MOST_NODES]:
        attributes = node.attributes
        if not _LEADS.search(attributes.get("href") or attributes.get("src") or ""):
            continue
        text = one_line(node.text(separator=" ") if node.tag == "a" else attributes.get("alt") or "")
        if 2 <= len(text) <= LONGEST and words(text) and words(text) <= known:
            return text
    return None


def _under_headline(document: Document, lines: Sequence[Line], name: str) -> str | None:
    parts = {part.strip().casefold() for part in _PARTS.split(document.title or "")[1:-1]} - {name.casefold()}
    below = lines[1] if len(lines) > 1 else None
    return below.text if below and below.tag in _HEADINGS and below.text.casefold() in parts else None


def _told(lines: Sequence[Line]) -> str | None:
    told = {match[1].strip() for line in lines if len(line.text) <= 80 and (match := _LABELLED.fullmatch(line.text))}
    return told.pop() if len(told) == 1 else None
