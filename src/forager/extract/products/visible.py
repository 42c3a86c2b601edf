"""Products without structured data: the headline, the price near it, words for stock, tables of facts. Pure.

These are guesses (confidence 0.4), so they are careful: a page without a button to buy, or with many prices and no
headline, is not taken for the page of a product.
"""

import re
from collections.abc import Sequence

from forager.extract.availability import availability_of
from forager.extract.document import Document, Line
from forager.extract.products.buying import can_be_bought, is_in_stock
from forager.extract.products.codes import read_code
from forager.extract.products.findings import Findings
from forager.extract.products.headline import headline_of
from forager.extract.products.makers import read_brand
from forager.extract.products.visible_price import read_price

NEAR = 40
"""Lines after the headline in which the price is looked for."""
_LABELS = {
    "brand": re.compile(
        r"brand|marke|marque|marca|manufacturer|hersteller|fabricant|производитель|бренд", re.IGNORECASE
    ),
    "sku": re.compile(
        r"sku|(?:item|article|product|model|part|art)[\s.-]*(?:number|no\.?|nr\.?|code|#|id)|artikelnummer|артикул"
        r"|référence|ref\.?|kód(?: produktu| zboží)?|codice|código|kod produktu|cikkszám|bestell-?(?:nr\.?|nummer)|mpn",
        re.IGNORECASE,
    ),
    "gtin": re.compile(r"ean(?:-?13)?|gtin(?:-?\d+)?|upc|isbn(?:-?1[03])?", re.IGNORECASE),
}
_RATED = re.compile(r"(\d(?:[.,]\d+)?)\s*(?:out of|/|von|sur|de)\s*5\b", re.IGNORECASE)
_REVIEWS = re.compile(
    r"\(?(\d[\d,.\s]*)\)?\s*(?:customer\s+)?(?:reviews?|ratings?|opinions?|bewertungen|avis)\b", re.IGNORECASE
)


def read_visible(document: Document, findings: Findings) -> None:
    """Add what a reader would take for the product's name, price and stock."""
    headline = findings.get("product_name") or headline_of(document)
    if headline is None or findings.is_list or not can_be_bought(document, known=bool(findings.values)):
        return
    lines = _around(document.shown, headline)
    if "product_name" not in findings:
        findings.add("product_name", headline, "heuristic")
    if "price" not in findings:
        read_price(document, lines, findings)
    _read_words(lines, findings)
    read_code(document, findings)
    if "availability" not in findings and "price" in findings and is_in_stock(document):
        findings.add("availability", "in_stock", "heuristic")
    _read_facts(document, findings)
    read_brand(document, lines, findings)
    if not findings.images:
        for node in document.tree.css("main img[src], article img[src], img[src]")[:40]:
            if (node.attributes.get("alt") or "").casefold() == headline.casefold():
                findings.add_image(document.absolute(node.attributes.get("src") or ""), node.attributes.get("alt"))


def _around(lines: Sequence[Line], headline: str) -> Sequence[Line]:
    """The lines from the headline on: from the line that is the product's name, or else from the first headline."""
    named = (place for place, line in enumerate(lines) if line.text == headline)
    first = next(named, None)
    if first is None:
        first = next((place for place, line in enumerate(lines) if line.tag == "h1"), 0)
    return lines[first : first + NEAR]


def _read_words(lines: Sequence[Line], findings: Findings) -> None:
    for line in lines[1:]:
        if len(line.text) > 120 or line.tag == "button":
            continue
        if "availability" not in findings:
            word = availability_of(line.text)
            if word is not None:
                findings.add("availability", word, "heuristic")
        if "rating" not in findings and (rated := _RATED.search(line.text)):
            findings.add("rating", rated[1], "heuristic")
        if "review_count" not in findings and (counted := _REVIEWS.search(line.text)):
            findings.add("review_count", re.sub(r"\D", "", counted[1]), "heuristic")


def _read_facts(document: Document, findings: Findings) -> None:
    """Tables and definition lists: a label and its value."""
    pairs = [(row.css("td, th")) for row in document.tree.css("table tr")[:200]]
    pairs += [[term, term.next] for term in document.tree.css("dl > dt")[:200] if term.next is not None]
    for cells in pairs:
        if len(cells) != 2 or cells[0] is None or cells[1] is None:
            continue
        label = " ".join(cells[0].text(separator=" ").split()).rstrip(":")
        value = " ".join(cells[1].text(separator=" ").split())
        for name, pattern in _LABELS.items():
            if name not in findings and value and len(value) <= 100 and pattern.fullmatch(label):
                findings.add(name, value, "heuristic")
