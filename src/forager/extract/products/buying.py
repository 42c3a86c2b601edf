"""Whether a page offers something for sale, and the name under which it does. Pure."""

import re

from selectolax.lexbor import LexborNode

from forager.extract.document import Document
from forager.extract.text import one_line

BUY = re.compile(
    r"\b(?:add(?: item| this)? to (?:your |my |the )?(?:shopping )?(?:cart|basket|bag|trolley)"
    r"|buy (?:it )?(?:now|online)"
    r"|add to order|order now|in den (?:warenkorb|einkaufswagen)|jetzt kaufen|ajouter au panier|acheter"
    r"|añadir (?:al carrito|a la cesta)|comprar|aggiungi al carrello|acquista|in winkelwa?gen|do koszyka|kup teraz"
    r"|в корзину|купить|do košíka?u?|koupit|kúpiť|lägg i varukorg(?:en)?|köp|legg i handlekurv|læg i kurv"
    r"|kosárba|pre-?order now|notify me)\b",
    re.IGNORECASE,
)
_PRESSED = "input[type=submit], input[type=image], input[type=button], button, a, img"
MOST_PRESSED = 3_000
MOST_BUTTONS = 4
"""A page with more buttons to buy is a list of products."""
_NAMED = re.compile(r"(?:product|item|prod)[-_]?(?:name|title|heading)|(?:name|title)[-_]?product", re.IGNORECASE)
_BARE = re.compile(r"(?:[$€£]\s?\d[\d.,\s]*|\d[\d.,\s]*[€£$])")
_PARTS = re.compile(r"\s+[|–—•·»:-]\s+")
_LATER = re.compile(r"notify|pre-?order", re.IGNORECASE)


def is_in_stock(document: Document) -> bool:
    """Whether a button puts the product into a cart: a shop shows another one, or none, for what it does not have."""
    buttons = (node for node in document.tree.css(_PRESSED)[:MOST_PRESSED] if _is_button(node))
    first = next(buttons, None)
    if first is None or "disabled" in first.attributes or "disabled" in (first.attributes.get("class") or ""):
        return False
    return not _LATER.search(f"{first.attributes.get('value') or ''} {first.text()}")


def can_be_bought(document: Document, *, known: bool) -> bool:
    """Whether the page offers one product: it has a button or a sentence to buy something, but not many buttons.

    `known`: markup has told of a product already, so no button is needed.
    """
    buttons = sum(_is_button(node) for node in document.tree.css(_PRESSED)[:MOST_PRESSED])
    if buttons > MOST_BUTTONS:
        return False
    return known or buttons > 0 or BUY.search(document.text) is not None or _has_one_price(document)


def _has_one_price(document: Document) -> bool:
    """Whether the forms of the page, or its elements that are called a price, show one bare price and no other."""
    bare = {line.text for line in document.shown if line.area == "form" and _BARE.fullmatch(line.text)}
    called = document.tree.css("[class*=price i], [id*=price i]")[:200]
    told = {match[0].strip() for node in called if (match := _BARE.match(one_line(node.text(separator=" "))))}
    return len(bare) == 1 or len(told) == 1


def _is_button(node: LexborNode) -> bool:
    attributes = node.attributes
    texts = [attributes.get(name) for name in ("value", "alt", "title", "aria-label")]
    if node.tag in ("button", "a"):
        texts.append(node.text(separator=" "))
    return any(text and len(text) <= 60 and BUY.search(text) for text in texts)


def headline_of(document: Document) -> str | None:
    """The name under which the page shows its product: the headline; else an element that is called the product's name
    or title and shares its words with the page's title; else a line that is a part of the page's title."""
    first = document.first_text("h1")
    if first is not None:
        return first[0]
    title = _words(document.title)
    for node in document.tree.css("h2, h3, [class], [id], [itemprop=name]")[:MOST_PRESSED]:
        attributes = node.attributes
        called = f"{attributes.get('class') or ''} {attributes.get('id') or ''}"
        if node.tag not in ("h2", "h3") and attributes.get("itemprop") != "name" and not _NAMED.search(called):
            continue
        text = one_line(node.text(separator=" "))
        words = _words(text)
        if 2 <= len(text) <= 200 and words and len(words & title) >= max(1, 0.6 * len(words)):
            return text
    parts = {one_line(part).casefold() for part in _PARTS.split(document.title or "")}
    shown = (line.text for line in document.shown if line.area not in ("nav", "footer"))
    return next((text for text in shown if len(text) > 5 and " " in text and text.casefold() in parts), None)


def _words(text: str | None) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", (text or "").casefold()))
