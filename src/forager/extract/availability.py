"""Recognises whether a product can be bought, from the many phrases that pages use. Pure.

The five words of the result are `in_stock`, `out_of_stock`, `preorder`, `discontinued` and `unknown`.
"""

import re
from typing import Literal

Availability = Literal["in_stock", "out_of_stock", "preorder", "discontinued", "unknown"]

_SCHEMA: dict[str, Availability] = {
    "instock": "in_stock",
    "instoreonly": "in_stock",
    "onlineonly": "in_stock",
    "limitedavailability": "in_stock",
    "madetoorder": "in_stock",
    "available": "in_stock",
    "availablefororder": "in_stock",
    "outofstock": "out_of_stock",
    "soldout": "out_of_stock",
    "oos": "out_of_stock",
    "notavailable": "out_of_stock",
    "unavailable": "out_of_stock",
    "reserved": "out_of_stock",
    "backorder": "preorder",
    "preorder": "preorder",
    "presale": "preorder",
    "pending": "preorder",
    "discontinued": "discontinued",
}
"""Values of schema.org and of OpenGraph, without their address, blanks and hyphens."""

_DISCONTINUED = (
    r"discontinued|no longer (?:available|sold|made)|end of life|nicht mehr (?:lieferbar|verfügbar)"
    r"|article supprimé|descatalogado|снят с производства"
)
_PREORDER = (
    r"pre-?\s?order|coming soon|back-?\s?order|will be released|available (?:from|on) \d|vorbestell|précommande"
    r"|order ahead|erscheint am|предзаказ"
)
_OUT = (
    r"(?:out of|not in|no) stock|sold out|(?:currently|temporarily|not|un)[\s-]?(?:un)?available|\b0 in stock"
    r"|stock: ?0\b|ausverkauft|nicht (?:auf lager|vorrätig|lieferbar|verfügbar)|vergriffen|épuisé|rupture de stock"
    r"|indisponible|agotado|no disponible|sin stock|esaurito|non disponibile|uitverkocht"
    r"|niet (?:op voorraad|leverbaar)|нет в наличии|niedostępny|brak w magazynie|vyprodáno|není skladem|slut i lager"
    r"|udsolgt|esgotado|indisponível"
    r"|(?:наличие(?: на складе)?|in stock|auf lager|skladem|disponible)\s*:\s*(?:нет|no|nein|ne|non)\b"
)
_IN = (
    r"in[\s-]?stock|\d+ (?:left|available)|ready to ship|ships (?:today|tomorrow|within|in)|\bavailable\b"
    r"|auf lager|vorrätig|lieferbar|verfügbar|en stock|disponible|disponibile|op voorraad|в наличии|есть на складе"
    r"|dostępny|skladem|i lager|på lager|em estoque|disponível|наличие(?: на складе)?\s*:\s*(?:да|есть)"
)
# In this order: "no longer available" before "not available", "not in stock" before "in stock".
_PHRASES: tuple[tuple[Availability, re.Pattern[str]], ...] = (
    ("discontinued", re.compile(_DISCONTINUED, re.IGNORECASE)),
    ("preorder", re.compile(_PREORDER, re.IGNORECASE)),
    ("out_of_stock", re.compile(_OUT, re.IGNORECASE)),
    ("in_stock", re.compile(_IN, re.IGNORECASE)),
)


def availability_of(text: str | None) -> Availability | None:
    """Return the availability that a text expresses; None if it is not recognised."""
    if not text:
        return None
    word = re.sub(r"[\s_-]+", "", text.strip().rpartition("/")[2].rpartition("#")[2].rpartition(":")[2]).lower()
    if word in _SCHEMA:
        return _SCHEMA[word]
    if len(text) > 200:
        return None
    return next((meaning for meaning, pattern in _PHRASES if pattern.search(text)), None)
