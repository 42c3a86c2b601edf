"""Whether a page offers one thing for sale. Pure."""

import re

from selectolax.lexbor import LexborNode

from forager.extract.document import Document
from forager.extract.products.headline import LABELLED
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
MOST_PRICES = 3
"""Prices that one product has: the price, what it was, what is saved."""
_OTHERS = re.compile(
    r"(?:similar|related|recommended|other|more)\b.{0,40}$|(?:you|people|customers|others)\b.{0,20}\b(?:also|like)\b"
    r"|frequently bought|recently viewed|complete the|goes well with|ähnliche|das könnte|kunden kauften|passend dazu"
    r"|vous aimerez|produits (?:similaires|associés)|también te|productos (?:relacionados|similares)"
    r"|potrebbe interessarti|prodotti (?:correlati|simili)|podobne|polecane|související|hasonló|похожие|с этим товаром"
    r"|andere klanten|gerelateerd",
    re.IGNORECASE,
)
"""Begins a heading over other products."""
_BARE = re.compile(r"(?:[$€£]\s?\d[\d.,\s]*|\d[\d.,\s]*[€£$])")
_SORTED = re.compile(
    r"(?:sort(?:ed)?(?: by)?|sortier(?:en|ung)(?: nach)?|trier par|tri|ordenar(?: por)?|ordina per|sorteer\w*"
    r"|sortera\w*|sort[eé]r\w*|sortuj(?: według)?|sortowanie|seřadit|řadit|rendezés|сортиров\w+(?: по)?)\s*:?",
    re.IGNORECASE,
)
"""Labels of the control that sorts a list."""
_PRICED = re.compile(
    r"(?:unit|our|your|sale|online)?\s*(?:price|preis|prix|precio|prezzo|cena|цена)\s*:?", re.IGNORECASE
)
_NEAR = 12
_SIGNED = re.compile(r"[$€£¥₹]\s?\d|\d\s?(?:[€£₽]|zł|Kč|руб|грн|kr\b|Ft\b)")
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
    if buttons > MOST_BUTTONS and not _has_others_below(document):
        return False
    if known:
        return True
    if any(len(line.text) <= 30 and _SORTED.fullmatch(line.text) for line in document.shown):
        return False  # a list of products has an order, one product has none
    return (
        buttons > 0
        or BUY.search(document.text) is not None
        or _has_one_price(document)
        or _has_labelled_price(document)
    )


def _has_others_below(document: Document) -> bool:
    """Whether the page has a headline, one or a few prices under it, and then a heading for other products: the many
    buttons are theirs."""
    lines = document.shown
    start = next((at for at, line in enumerate(lines) if line.tag == "h1"), None)
    if start is None:
        return False
    end = next((at for at in range(start + 1, len(lines)) if _OTHERS.match(lines[at].text)), None)
    if end is None:
        return False
    own = [line for line in lines[start:end] if len(line.text) <= 60 and line.area not in ("nav", "footer", "aside")]
    prices = {line.text for line in own if _SIGNED.search(line.text)}
    pressed = sum(line.tag == "button" and bool(BUY.search(line.text)) for line in own)
    return 0 < len(prices) <= MOST_PRICES and pressed <= MOST_BUTTONS


def _has_labelled_price(document: Document) -> bool:
    """Whether a word for price, or another fact of a product, stands shortly before an amount with its currency."""
    lines = document.shown
    for at, line in enumerate(lines):
        if len(line.text) <= 40 and (_PRICED.match(line.text) or LABELLED.match(line.text)):
            near = " ".join(each.text for each in lines[at : at + _NEAR] if len(each.text) <= 60)
            if _SIGNED.search(near):
                return True
    return False


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
