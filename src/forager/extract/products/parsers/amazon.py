"""Amazon's product pages: its own ids and classes, old and new. Pure.

Prices of sponsored products, protection plans and other sellers are all over such a page, so that only the blocks of
the product itself are read.
"""

import re
from urllib.parse import urlsplit

import orjson

from forager.core.hosts import host_of
from forager.extract.html.document import Document
from forager.extract.html.structured_data import loads_tolerantly
from forager.extract.products.findings import ProductFindings, Source
from forager.extract.products.parser import Parser, attribute_at, fact, text_at
from forager.extract.tables import table
from forager.extract.text.prices import parse_price

_DATA = table("amazon")

SOURCE: Source = "selector"
CURRENCIES: dict[str, str] = _DATA["currencies"]
"""The currency of `$` or `kr` in each of its shops."""
PRICES = tuple(_DATA["prices"])
REGULAR = tuple(_DATA["regular_prices"])
DETAILS = (
    "#productDetails_detailBullets_sections1 tr, #productDetails_techSpec_section_1 tr, #prodDetails tr,"
    " #detailBullets_feature_div li > span, table.a-keyvalue tr"
)
_ASIN = re.compile(r"/(?:dp|gp/product|gp/aw/d)/([A-Z0-9]{10})(?:[/?]|$)")
_BRAND = re.compile(
    r"^(?:visit the\s++(?P<en>\S.*)(?<=\s)store|(?:brand|marke|marque|marca|merk|märke)\s*:\s*(?P<label>.+)"
    r"|visita la (?:store|tienda) de\s+(?P<es>.+)|visiter la boutique\s+(?P<fr>.+)"
    r"|besuche den\s+(?P<de>.+?)[- ]store)$",
    re.IGNORECASE,
)
_BACK = re.compile(r"[‹<]?\s*(?:back to|volver|zurück|retour)", re.IGNORECASE)
_RATED = re.compile(r"(\d(?:[.,]\d+)?)\s*(?:out of|von|sur|de|su|van|av)\s*5", re.IGNORECASE)
_GALLERY = re.compile(r"['\"]colorImages['\"]\s*+:\s*+\{\s*+['\"]initial['\"]\s*+:\s*+(?=\[)")


def read(document: Document) -> ProductFindings:
    findings = ProductFindings()
    findings.add("product_name", text_at(document, "#productTitle", "#ebooksProductTitle", "#title"), SOURCE)
    _read_price(document, findings)
    _read_availability(document, findings)
    _read_rating(document, findings)
    findings.add("brand", _brand(document), SOURCE)
    findings.add("category", _category(document), SOURCE)
    asin = _asin(document)
    if asin is not None:
        findings.add("sku", asin, SOURCE)
        findings.metadata["asin"] = asin
    for label in ("isbn-13", "ean", "upc", "gtin"):
        if not findings.add("gtin", (fact(document, DETAILS, label) or "").partition(" ")[0], SOURCE):
            continue
        break
    findings.add("description", _description(document), SOURCE)
    _read_images(document, findings)
    return findings


def _read_price(document: Document, findings: ProductFindings) -> None:
    for selector in PRICES:
        for node in document.tree.css(selector)[:5]:
            hidden = node.css_first(".a-offscreen")
            shown = (hidden.text() if hidden else "").strip() or " ".join(node.text(separator="").split())
            price = parse_price(shown)
            if price.amount is not None:
                findings.add_price(price.amount, price.currency or _usual_currency(document), SOURCE)
                break
        if "price" in findings:
            break
    regular = parse_price(text_at(document, *REGULAR)).amount
    if regular is not None and "price" in findings and regular > findings.get("price"):
        findings.metadata["regular_price"] = str(regular)
    ends = [parse_price(node.text()).amount for node in document.tree.css(".a-price-range .a-offscreen")[:2]]
    if len(ends) == 2 and None not in ends and findings.get("price") == ends[0]:
        findings.metadata["offers"] = [{"price": str(ends[0]), "high": str(ends[1])}]


def _usual_currency(document: Document) -> str | None:
    _, _, top = host_of(document.url).rpartition("amazon.")
    return CURRENCIES.get(top)


def _read_availability(document: Document, findings: ProductFindings) -> None:
    words = text_at(
        document,
        "#availability span",
        "#availability",
        "#outOfStock .a-color-price",
        "#exports_desktop_outOfStock_buybox_message_feature_div",
    )
    findings.add("availability", words, SOURCE)
    if "availability" not in findings and document.tree.css_first("#add-to-cart-button, #buy-now-button") is not None:
        findings.add("availability", "in stock", SOURCE)


def _read_rating(document: Document, findings: ProductFindings) -> None:
    words = attribute_at(document, "#acrPopover", "title") or text_at(
        document, "#averageCustomerReviews .a-icon-alt", "[data-hook=rating-out-of-text]"
    )
    rated = _RATED.search(words or "")
    if rated:
        findings.add("rating", rated[1], SOURCE)
    counted = text_at(document, "#acrCustomerReviewText", "[data-hook=total-review-count]")
    digits = re.sub(r"[^\d]", "", counted or "")
    findings.add("review_count", digits, SOURCE)


def _brand(document: Document) -> str | None:
    byline = text_at(document, "#bylineInfo", "#brand")
    match = _BRAND.match(byline or "")
    if match:
        return next(group for group in match.groups() if group).strip()
    return text_at(document, "tr.po-brand .po-break-word", "#bylineInfo .author a") or byline


def _category(document: Document) -> str | None:
    crumbs = document.tree.css("#wayfinding-breadcrumbs_feature_div li a, #wayfinding-breadcrumbs_container li a")
    names = [" ".join(crumb.text().split()) for crumb in crumbs]
    return next((name for name in reversed(names) if name and not _BACK.match(name)), None)


def _asin(document: Document) -> str | None:
    field = attribute_at(document, "input#ASIN, input[name=ASIN]", "value")
    for candidate in (field, document.canonical, document.url):
        if candidate and re.fullmatch(r"[A-Z0-9]{10}", candidate):
            return candidate
        match = _ASIN.search(f"{urlsplit(candidate).path}/") if candidate else None
        if match:
            return match[1]
    return None


def _description(document: Document) -> str | None:
    bullets = [" ".join(node.text().split()) for node in document.tree.css("#feature-bullets li .a-list-item")[:20]]
    return "\n".join(line for line in bullets if line) or text_at(
        document, "#productDescription", "#bookDescription_feature_div", "#iframeContent"
    )


def _read_images(document: Document, findings: ProductFindings) -> None:
    alt = attribute_at(document, "#landingImage", "alt")
    gallery = _GALLERY.search(document.source)
    # A list of pictures in JSON inside of a script: the decoder finds its end, which no pattern could.
    entries = loads_tolerantly(document.source[gallery.end() :]) if gallery else None
    for entry in entries[:20] if isinstance(entries, list) else ():
        if isinstance(entry, dict):
            findings.add_image(entry.get("hiRes") or entry.get("large"), alt)
    findings.add_image(attribute_at(document, "#landingImage", "data-old-hires"), alt)
    if not findings.images:
        sizes = attribute_at(document, "#landingImage, #imgBlkFront, #ebooksImgBlkFront", "data-a-dynamic-image")
        try:
            known = orjson.loads(sizes or "{}")
        except ValueError:
            known = {}
        largest = max(known, key=lambda url: known[url] or [0], default=None) if isinstance(known, dict) else None
        findings.add_image(largest, alt)


parser = Parser("amazon", 2, read, ("amazon.*",))
