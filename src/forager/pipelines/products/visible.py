"""Products without structured data: the headline, the price near it, words for stock, tables of facts. Pure.

These are guesses (confidence 0.4), so they are careful: a page without a button to buy, or with many prices and no
headline, is not taken for the page of a product.
"""

import re
from collections.abc import Sequence

from forager.extract.availability import availability_of
from forager.extract.document import Document, Line
from forager.extract.prices import Price, parse_price
from forager.pipelines.products.findings import Findings

NEAR = 40
"""Lines after the headline in which the price is looked for."""
_BUY = re.compile(
    r"\b(?:add to (?:cart|basket|bag|trolley)|buy (?:it )?now|in den (?:warenkorb|einkaufswagen)|ajouter au panier"
    r"|añadir (?:al carrito|a la cesta)|aggiungi al carrello|in winkelwagen|do koszyka|в корзину|купить"
    r"|do košíku|lägg i varukorg|pre-?order now|notify me)",
    re.IGNORECASE,
)
_LABELS = {
    "brand": re.compile(
        r"brand|marke|marque|marca|manufacturer|hersteller|fabricant|производитель|бренд", re.IGNORECASE
    ),
    "sku": re.compile(
        r"sku|(?:item|article|product|model|part|art)[\s.-]*(?:number|no\.?|nr\.?|code|#|id)|artikelnummer|артикул"
        r"|référence|ref\.?|kód|mpn",
        re.IGNORECASE,
    ),
    "gtin": re.compile(r"ean(?:-?13)?|gtin(?:-?\d+)?|upc|isbn(?:-?1[03])?", re.IGNORECASE),
}
_RATED = re.compile(r"(\d(?:[.,]\d+)?)\s*(?:out of|/|von|sur|de)\s*5\b", re.IGNORECASE)
_REVIEWS = re.compile(
    r"\(?(\d[\d,.\s]*)\)?\s*(?:customer\s+)?(?:reviews?|ratings?|opinions?|bewertungen|avis)\b", re.IGNORECASE
)
_WAS = re.compile(r"\b(?:was|list price|rrp|uvp|statt|instead of|regular price|ancien prix)\b", re.IGNORECASE)


def read_visible(document: Document, found: Findings) -> None:
    """Add what a reader would take for the product's name, price and stock."""
    headline = document.first_text("h1")
    if headline is None or not _can_be_bought(document, found):
        return
    lines = _around(document.shown, headline[0])
    if not found.values.keys() & {"product_name"}:
        found.add("product_name", headline[0], "heuristic")
    if "price" not in found:
        _read_price(document, lines, found)
    _read_words(lines, found)
    _read_facts(document, found)
    if not found.images:
        for node in document.tree.css("main img[src], article img[src], img[src]")[:40]:
            if (node.attributes.get("alt") or "").casefold() == headline[0].casefold():
                found.add_image(document.absolute(node.attributes.get("src") or ""), node.attributes.get("alt"))


def _can_be_bought(document: Document, found: Findings) -> bool:
    return bool(found.values) or _BUY.search(document.text) is not None


def _around(lines: Sequence[Line], headline: str) -> Sequence[Line]:
    for place, line in enumerate(lines):
        if line.tag == "h1" or line.text == headline:
            return lines[place : place + NEAR]
    return lines[:NEAR]


def _read_price(document: Document, lines: Sequence[Line], found: Findings) -> None:
    """The first price after the headline that has a currency and is not crossed out."""
    struck = {_digits(node.text(separator=" ")) for node in document.tree.css("del, s, strike")[:50]}
    for line in lines[1:]:
        if line.area in ("nav", "footer", "aside") or len(line.text) > 120:
            continue
        for part in _priced_parts(line.text):
            price = parse_price(part)
            if price.amount is None or price.symbol is None or price.text is None:
                continue
            if _digits(part) in struck or _digits(price.text) in struck or _WAS.search(part):
                found.metadata.setdefault("regular_price", str(price.amount))
                continue
            found.add_price(price.amount, _currency(price, document), "heuristic")
            return


def _priced_parts(text: str) -> list[str]:
    """`$49.00 $39.00` is two prices; a range stays one."""
    parts = re.split(r"(?<=\d)\s+(?=[$€£¥]\s*\d)|(?<=[€₽])\s+(?=\d)", text)
    return parts[:5]


def _digits(text: str) -> str:
    return re.sub(r"\D", "", text)


def _currency(price: Price, document: Document) -> str | None:
    return price.currency or document.metas.get("currency")


def _read_words(lines: Sequence[Line], found: Findings) -> None:
    for line in lines[1:]:
        if len(line.text) > 120 or line.tag == "button":
            continue
        if "availability" not in found:
            word = availability_of(line.text)
            if word is not None:
                found.add("availability", word, "heuristic")
        if "rating" not in found and (rated := _RATED.search(line.text)):
            found.add("rating", rated[1], "heuristic")
        if "review_count" not in found and (counted := _REVIEWS.search(line.text)):
            found.add("review_count", re.sub(r"\D", "", counted[1]), "heuristic")


def _read_facts(document: Document, found: Findings) -> None:
    """Tables and definition lists: a label and its value."""
    pairs = [(row.css("td, th")) for row in document.tree.css("table tr")[:200]]
    pairs += [[term, term.next] for term in document.tree.css("dl > dt")[:200] if term.next is not None]
    for cells in pairs:
        if len(cells) != 2 or cells[0] is None or cells[1] is None:
            continue
        label = " ".join(cells[0].text(separator=" ").split()).rstrip(":")
        value = " ".join(cells[1].text(separator=" ").split())
        for name, pattern in _LABELS.items():
            if name not in found and value and len(value) <= 100 and pattern.fullmatch(label):
                found.add(name, value, "heuristic")
