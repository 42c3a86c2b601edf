"""Soft 404s: pages that say with status 200 that there is no such product. Pure.

They are recognised before anything is parsed, because such a page shows other products and their prices. The words are
narrower than those of `page_kind.error_of`: a product that is unavailable or a page that denies access is not gone.
"""

import re

from forager.extract.document import Document
from forager.extract.page_kind import title_or_headline

_GONE = re.compile(
    r"\b(?:page|product|item|article|listing|offer)s?\b.{0,40}\b(?:not found|no longer (?:available|exists?|sold)"
    r"|(?:does not|doesn.t) exist|(?:was|has been|is) (?:removed|deleted|gone|discontinued)|could ?n.t be found)"
    r"|\b(?:404|not found)\b.{0,20}\b(?:error|page)|\berror 404\b|^404\b"
    r"|(?:seite|artikel|produkt)\b.{0,40}\b(?:nicht gefunden|nicht mehr (?:verfügbar|vorhanden|lieferbar))"
    r"|(?:page|produit|article)\b.{0,40}\b(?:introuvable|n.existe plus|n.est plus disponible)"
    r"|(?:página|producto|artículo)\b.{0,40}\b(?:no encontrad[oa]|ya no (?:existe|está disponible))"
    r"|(?:страница|товар)\b.{0,40}\bне найден",
    re.IGNORECASE,
)


def says_missing(document: Document) -> str | None:
    """Return the title or headline with which a page says that its product is gone; None if it does not."""
    return title_or_headline(document, _GONE)
