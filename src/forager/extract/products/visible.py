"""Products without structured data: the headline, the price near it, words for stock, tables of facts. Pure.

These are guesses (confidence 0.4), so they are careful: a page without a button to buy, or with many prices and no
headline, is not taken for the page of a product.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise, zip_longest
from urllib.parse import urlsplit

from selectolax.lexbor import LexborNode

from forager.extract.html.document import Document, VisibleLine
from forager.extract.html.page_signs import BUY, LONGEST_WRITTEN, PageSigns, invites_to_buy, is_around
from forager.extract.products.findings import ProductFindings, says_missing
from forager.extract.products.visible_price import read_discounted, read_price
from forager.extract.tables import any_of, spoken, table
from forager.extract.text.prices import availability_of
from forager.extract.text.strings import one_line

_DATA = table("products")

# The name under which a page shows its product. Pure.


HEADLINE_MOST_NODES = 3_000
HEADLINE_LONGEST = 200
_NAMED = re.compile(r"(?:product|item|prod)[-_]?(?:name|title|heading)|(?:name|title)[-_]?product", re.IGNORECASE)
_PARTS = re.compile(r"\s+[|–—•·»:-]\s+")
_TRAIL = re.compile(r"[^>»›]{2,60}+(?:[>»›][^>»›]{1,80}+){2,8}+")
"""A breadcrumb trail in one line: `Home > Garden > Tools`."""
LABELLED = any_of(_DATA["fact_labels"], r"(?:{})\s*[:#]")
"""Begins a line that only the description of a product has."""
_NO_NAME = any_of(
    _DATA["no_name"],
    r"(?:shipping|delivery|returns?|payment|size|sizing|care|warranty|product|item|customer|contact|store|order"
    r"|cart)?\s*(?:(?:&|and)\s+\w+\s+)?(?:information|infos?|details?|guide|chart|reviews?|ratings?|description"
    r"|specifications?|overview|polic(?:y|ies)|options?|service|questions?|faqs?)|{}",
)
"""Headlines of other parts of a product's page."""
_NEVER = frozenset(("nav", "footer", "aside", "header"))
_MENUS = frozenset(("nav", "footer", "aside"))


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
    """Return the `h1` that shares the most words with the page's title, because a banner may have one as well."""
    nodes = document.tree.css("h1")[:10]
    nodes = [node for node in nodes if not is_around(node, _NEVER)] or nodes
    texts = [text for node in nodes if (text := _seen_in(node))]
    texts = [text for text in texts if not _NO_NAME.fullmatch(text)]
    title = words(document.title)
    return max(texts, key=lambda text: len(words(text) & title) / max(1, len(words(text))), default=None)


def _seen_in(node: LexborNode) -> str:
    """Return the text of a headline without its styles, its hidden parts and its buttons."""
    return one_line(" ".join(line.text for line in Document.lines_in(node) if line.tag != "button"))


def _called_so(document: Document) -> str | None:
    title = words(document.title)
    for node in document.tree.css("h2, h3, [class], [id], [itemprop=name]")[:HEADLINE_MOST_NODES]:
        attributes = node.attributes
        called = f"{attributes.get('class') or ''} {attributes.get('id') or ''}"
        if node.tag not in ("h2", "h3") and attributes.get("itemprop") != "name" and not _NAMED.search(called):
            continue
        text = one_line(node.text(separator=" "))
        own = words(text)
        if 2 <= len(text) <= HEADLINE_LONGEST and own and len(own & title) >= max(1, 0.6 * len(own)):
            return text
    return None


def _part_of_title(document: Document) -> str | None:
    parts = {one_line(part).casefold() for part in _PARTS.split(document.title or "")}
    shown = (line.text for line in document.shown if line.area not in ("nav", "footer"))
    return next((text for text in shown if len(text) > 5 and " " in text and text.casefold() in parts), None)


def _under_trail(document: Document) -> str | None:
    lines = document.shown
    for line, below in pairwise(lines):
        if len(line.text) <= HEADLINE_LONGEST and _TRAIL.fullmatch(line.text) and _can_be_name(below):
            return below.text
    return None


def _above_labels(document: Document) -> str | None:
    lines = document.shown
    labelled = [at for at, line in enumerate(lines) if len(line.text) <= 120 and LABELLED.match(line.text)]
    if not labelled or len(labelled) > 12:  # more are a list
        return None
    above = (lines[at] for at in range(labelled[0] - 1, max(-1, labelled[0] - 4), -1))
    return next((line.text for line in above if _can_be_name(line) and " " in line.text), None)


def _of_fragment(document: Document) -> str | None:
    if document.title:
        return None
    texts = {text for node in document.tree.css("h2")[:5] if (text := one_line(node.text(separator=" ")))}
    return texts.pop() if len(texts) == 1 else None


def _can_be_name(line: VisibleLine) -> bool:
    is_short = 3 <= len(line.text) <= HEADLINE_LONGEST and any(char.isalpha() for char in line.text)
    return is_short and line.area not in _NEVER and line.tag not in ("li", "button") and not line.text.endswith(":")


def words(text: str | None) -> frozenset[str]:
    return frozenset(_words(text))


def _words(text: str | None) -> Iterator[str]:
    return (match[0] for match in re.finditer(r"\w+", (text or "").casefold()))


# Decides whether a page offers one thing for sale. Pure.


_PRESSED = "input[type=submit], input[type=image], input[type=button], button, a, img"
MOST_PRESSED = 3_000
LONGEST_BUTTON = 60
_NAMES = ("value", "alt", "title", "aria-label")
"""Attributes with the words of a control."""
MOST_BUTTONS = 4
"""A page with more buttons to buy is a list of products."""
MOST_PRICES = 3
"""Prices that one product has: the price, what it was, what is saved."""
_OTHERS = any_of(_DATA["others"])
"""Begins a heading over other products."""
_BARE = re.compile(r"(?:[$€£]\s?\d[\d.,\s]*|\d[\d.,\s]*[€£$])")
_SORTED = any_of(_DATA["sorted"], r"(?:{})\s*:?")
"""Labels of the control that sorts a list."""
_PRICED = re.compile(
    r"(?:unit|our|your|sale|online)?\s*(?:price|preis|prix|precio|prezzo|cena|цена)\s*:?", re.IGNORECASE
)
_NEAR = 12
_SIGNED = re.compile(r"[$€£¥₹]\s?\d|\d\s?(?:[€£₽]|zł|Kč|руб|грн|kr\b|Ft\b)")
_LATER = re.compile(r"notify|pre-?order", re.IGNORECASE)


def is_in_stock(document: Document) -> bool:
    """Return whether a button puts the product into a cart: a shop shows another one, or none, for what it does not
    have. The buttons of other products, which are in repeated blocks, count only on a page without one of its own."""
    controls = document.once(PageSigns).controls
    own = [node for node, is_alone in controls if is_alone]
    worded = [node for node, _ in controls if _is_button(node)] or _buttons(document)
    first = next(filter(_is_button, own), None) or next(iter(own), None) or next(iter(worded), None)
    if first is None or "disabled" in first.attributes or "disabled" in (first.attributes.get("class") or ""):
        return False
    text = f"{first.attributes.get('value') or ''} {first.text()}"
    return not _LATER.search(text) and availability_of(one_line(text)) in (None, "in_stock")


def _has_own_control(document: Document) -> bool:
    """Return whether the page has one control to buy outside of repeated blocks, and shows it."""
    is_shown = any(line.tag == "button" and invites_to_buy(line.text) for line in document.shown)
    return is_shown and document.once(PageSigns).buy_controls[0] == 1


def can_be_bought(document: Document, *, known: bool) -> bool:
    """Return whether the page offers one product: it has a button or a sentence to buy something, but not many buttons.

    `known`: markup already has a product, so no button is needed.
    """
    buttons = len(_buttons(document))
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
    """Return whether the page has a headline, one or a few prices under it, and then a heading for other products:
    the many buttons are theirs."""
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
    """Return whether a word for price, or another fact of a product, is shortly before an amount with its
    currency."""
    lines = document.shown
    for at, line in enumerate(lines):
        if len(line.text) <= 40 and (_PRICED.match(line.text) or LABELLED.match(line.text)):
            near = " ".join(each.text for each in lines[at : at + _NEAR] if len(each.text) <= 60)
            if _SIGNED.search(near):
                return True
    return False


def _has_one_price(document: Document) -> bool:
    """Return whether the forms of the page, or its elements that are called a price, show one bare price and no
    other."""
    bare = {line.text for line in document.shown if line.area == "form" and _BARE.fullmatch(line.text)}
    called = document.tree.css("[class*=price i], [id*=price i]")[:200]
    told = {match[0].strip() for node in called if (match := _BARE.match(one_line(node.text(separator=" "))))}
    return len(bare) == 1 or len(told) == 1


def _buttons(document: Document) -> list[LexborNode]:
    """Return the controls to buy something, in page order."""
    return document.once(_find_buttons)


def _find_buttons(document: Document) -> list[LexborNode]:
    return [node for node in document.tree.css(_PRESSED)[:MOST_PRESSED] if _is_button(node)]


def _is_button(node: LexborNode) -> bool:
    attributes = node.attributes
    for name in _NAMES:
        if (text := attributes.get(name)) and len(text) <= LONGEST_BUTTON and invites_to_buy(text):
            return True
    if node.tag not in ("button", "a"):
        return False
    text = node.text(separator=" ")
    return 0 < len(text) <= LONGEST_WRITTEN and len(plain := one_line(text)) <= LONGEST_BUTTON and invites_to_buy(plain)


# The article number of a product where no markup has it. Pure.


_CODE = re.compile(r"(?=.*\d)[\w][\w./-]{2,29}")
_LABEL = r"(?:{})\s*[:#]".replace("{}", "|".join((*_DATA["code_labels"], *spoken("sku"))))
_INLINE = re.compile(rf"{_LABEL}\s*([\w][\w./-]{{2,29}})", re.IGNORECASE)
"""`Item #: AB-123` in one line."""
_ALONE = re.compile(_LABEL, re.IGNORECASE)
_ANY_LABEL = re.compile(r"[^\W\d][\w .]{1,30}[:#]\s*")
_UNSHOWN = frozenset(("script", "style", "template", "input", "meta"))
MOST_PLACES = 20
_NUMBERED = re.compile(r"(?:^|[/_.-])p?(\d{5,16})(?:\.\w{2,5})?/?$")
"""The number at the end of an address: `/itm/143863282131`, `/lamp-1236291.html`."""


def read_code(document: Document, lines: Sequence[VisibleLine], findings: ProductFindings) -> None:
    """Add the article number: an element that is called `sku`, a line with a label, or else the number that both the
    page's address and the file of its main picture have. Several different ones are of several products: none is added.
    """
    if "sku" in findings:
        return
    codes = (
        _called(document)
        or _labelled(document)
        or _labelled_without_colon(document, lines)
        or _pictured(document)
        or _addressed(document)
        or _attributed(document)
    )
    if len(codes) == 1:
        findings.add("sku", codes.pop(), "heuristic")


def _addressed(document: Document) -> set[str]:
    """Return the number at the end of the page's address, if an attribute or a script of the page has it as well."""
    found = _NUMBERED.search(urlsplit(document.url).path)
    if found is None:
        return set()
    quoted = (f'"{found[1]}"', f"'{found[1]}'", f":{found[1]},", f"={found[1]}&")
    return {found[1]} if any(text in document.source for text in quoted) else set()


def _attributed(document: Document) -> set[str]:
    """Return the values of the attribute `data-sku`."""
    values = {node.attributes.get("data-sku") or "" for node in document.tree.css("[data-sku]")[:20]}
    return {value for value in values if _CODE.fullmatch(value)}


_CODED = re.compile(
    r"(?:\b|_|-)(?:sku|(?:product|prod|prd|item|article|artikel|style)[-_]?(?:code|number|no|num|nr|id|sku|ref|reference))"
    r"(?:\b|_|-)",
    re.IGNORECASE,
)
"""Names of elements that show the article number."""
_CODED_NODES = "[class*=sku i], [id*=sku i], [class*='-code'], [class*='-ref'], [data-qa-qualifier*=ref]"
"""Elements whose class or id may name an article number. Few, because each costs a twentieth of parsing the page."""
_CODED_WORDS = ("sku", "-code", "-ref", "data-qa-qualifier")
"""Words for an article number in the attributes of such elements."""
LONGEST_TAG = 1_000
_CODED_ATTRIBUTES = ("class", "id", "data-qa-qualifier")
LONGEST_CODE = 60


def _called(document: Document) -> set[str]:
    """Return the codes in elements whose class or id names an article number: `<p class="prd-code">Product code:
    141677</p>`."""
    found = set[str]()
    if not document.is_parsed and not any(_is_in_a_tag(document.lowered, word) for word in _CODED_WORDS):
        return found  # parsing the whole page would cost more than this search
    for node in document.tree.css(_CODED_NODES)[:MOST_PRESSED]:
        attributes = node.attributes
        if not any((called := attributes.get(name)) and _CODED.search(called) for name in _CODED_ATTRIBUTES):
            continue
        text = one_line(node.text())
        if len(text) > LONGEST_CODE or node.tag in _UNSHOWN:
            continue
        label = _ALONE.match(text) or _ANY_LABEL.match(text)
        code = text[label.end() :].strip() if label else text
        if _CODE.fullmatch(code):
            found.add(code)
    return found


def _is_in_a_tag(lowered: str, word: str) -> bool:
    """Return whether a word is between `<` and `>` somewhere, or in too many places to look at all of them."""
    place = lowered.find(word)
    for _ in range(MOST_PLACES):
        if place < 0:
            return False
        start = lowered.rfind("<", max(0, place - LONGEST_TAG), place)
        if start >= 0 and ">" not in lowered[start:place].replace("=>", ""):
            return True
        place = lowered.find(word, place + len(word))
    return True


def prefer_shown_code(document: Document, findings: ProductFindings) -> None:
    """Prefer an article number that the page shows to one of the markup that it does not show, which is often the
    number of a row in the shop's database. If there is no other number, it loses confidence."""
    held = findings.values.get("sku")
    if held is None or held.source in ("heuristic", "script") or document.shows(str(held.value)):
        return
    codes = _called(document) or (_labelled(document) if document.has_lines else set())
    findings.doubt("sku", codes.pop() if len(codes) == 1 else None)


def doubt_unseen_brand(document: Document, findings: ProductFindings) -> None:
    """Lower the confidence of a brand of the markup that the page shows nowhere: some shops give their own name."""
    held = findings.values.get("brand")
    if held is not None and held.source not in ("heuristic", "script") and not document.shows(str(held.value)):
        findings.doubt("brand")


_BARE_LABEL = any_of((*_DATA["code_labels"], *spoken("sku")), r"(?:{})\.?\s*[:#]?")
_CODE_BEHIND = any_of(
    (*_DATA["code_labels"], *spoken("sku")), r"(?:{})\.?\s*[:#]?\s*([A-Z0-9][A-Z0-9./-]{2,29})", re.NOFLAG
)
LONGEST_BARE = 50


def _labelled_without_colon(document: Document, lines: Sequence[VisibleLine]) -> set[str]:
    """`SKU` and under it `WB-90`, or `Référence HOV-50`: near the headline only, and nothing else in these lines."""
    codes = set()
    for line, below in zip_longest(lines, lines[1:]):
        if len(line.text) > LONGEST_BARE:
            continue
        if coded := _CODE_BEHIND.fullmatch(line.text[:1].lower() + line.text[1:]) or _CODE_BEHIND.fullmatch(line.text):
            codes.add(coded[1])
        elif below is not None and _BARE_LABEL.fullmatch(line.text) and _CODE.fullmatch(below.text):
            codes.add(below.text)
    return {code for code in codes if _CODE.fullmatch(code)}


def _labelled(document: Document) -> set[str]:
    codes = set()
    lines = document.shown[:2_000]
    for line, below in zip_longest(lines, lines[1:]):
        text = line.text
        if len(text) > 120 or (":" not in text and "#" not in text):
            continue  # every label ends so; the patterns cost twenty times as much
        if coded := _INLINE.search(line.text):
            codes.add(coded[1])
        elif below is not None and _ALONE.fullmatch(line.text) and _CODE.fullmatch(below.text):
            codes.add(below.text)
    return codes


def _pictured(document: Document) -> set[str]:
    picture = urlsplit(document.metas.get("og:image", "")).path.rpartition("/")[2].partition(".")[0]
    path = urlsplit(document.canonical or document.url).path
    return {picture} if re.fullmatch(r"\d{4,12}", picture) and picture in re.split(r"\D+", path) else set()


# The brand of a product where no markup has it: a labelled line, or a link or logo next to the headline. Pure.


LONGEST = 40
MOST_NODES = 2_000
_LEADS = any_of(_DATA["brand_links"], r"[/?&=_-](?:{})[/=_-]")
"""In the address of a brand's page or logo."""
_LABELLED = any_of((*_DATA["brand_labels"], *spoken("brand")), rf"(?:{{}})\s*:\s*(\S.{{1,{LONGEST}}})")
_BRAND_LABEL = any_of((*_DATA["brand_labels"], *spoken("brand")))
_HEADINGS = ("h2", "h3", "h4")


def read_brand(document: Document, lines: Sequence[VisibleLine], findings: ProductFindings) -> None:
    """Add the brand. `lines` begin with the product's name.

    It is, in this order: the text of a link, or the name of a picture, with a word for brands in its address, if it is
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
        if 2 <= len(text) <= LONGEST and words(text) and (words(text) <= known or _is_labelled(document, text)):
            return text
    return None


def _is_labelled(document: Document, text: str) -> bool:
    """Return whether a line is this text after the label of a brand: `Marque Acme`."""
    return any(
        line.text.endswith(text) and _BRAND_LABEL.fullmatch(line.text[: -len(text)].rstrip(" :"))
        for line in document.shown
        if len(text) < len(line.text) <= len(text) + LONGEST
    )


def _under_headline(document: Document, lines: Sequence[VisibleLine], name: str) -> str | None:
    parts = {part.strip().casefold() for part in _PARTS.split(document.title or "")[1:-1]} - {name.casefold()}
    below = lines[1] if len(lines) > 1 else None
    return below.text if below and below.tag in _HEADINGS and below.text.casefold() in parts else None


def _told(lines: Sequence[VisibleLine]) -> str | None:
    told = {match[1].strip() for line in lines if len(line.text) <= 80 and (match := _LABELLED.fullmatch(line.text))}
    return told.pop() if len(told) == 1 else None


GUESSED, OFFERED, MARKED = 0.4, 0.6, 0.85
"""Confidence of a page's kind for which no sign speaks, so that its visible words decide; and the least of one that a
control to buy, a price or labelled facts decide, and of one that markup decides."""
NEAR = 40
"""Lines after the headline that are searched for the price."""
_LABELS = {
    "brand": any_of((*spoken("brand"), *_DATA["brand_labels"])),
    "sku": any_of(
        (
            *spoken("sku"),
            *_DATA["code_labels"],
            "ref",
            "codice",
            "código",
            "kod produktu",
            "bestell-?(?:nr|nummer)",
            "mpn",
        ),
        r"(?:{})\.?",
    ),
    "gtin": re.compile(r"ean(?:-?13)?|gtin(?:-?\d+)?|upc|isbn(?:-?1[03])?", re.IGNORECASE),
}
_RATED = re.compile(r"(\d(?:[.,]\d+)?)\s*(?:out of|/|von|sur|su|de|av|z|из|van)\s*5\b", re.IGNORECASE)
_REVIEWS = re.compile(
    r"\(?(\d[\d,.\s]*)\)?\s*(?:customer\s+)?(?:reviews?|ratings?|opinions?|bewertungen|avis|recensioni|opiniones|reseñas|avaliações|beoordelingen|opinii|recenz\w+"
    r"|omdömen|anmeldelser|отзыв\w*)\b",
    re.IGNORECASE,
)


def read_visible(document: Document, findings: ProductFindings) -> None:
    """Add what a reader would take for the product's name, price and stock."""
    headline = findings.get("product_name") or headline_of(document)
    if headline is None or findings.is_list or says_missing(document):
        return
    if not _is_decided(document, findings) and not can_be_bought(document, known=bool(findings.values)):
        return
    lines = _around(document.shown, headline)
    if "product_name" not in findings:
        findings.add("product_name", headline, "heuristic")
    if "price" not in findings:
        read_price(document, lines, findings)
    in_stock = "availability" not in findings and is_in_stock(document)
    _read_words(lines, findings, in_stock=in_stock)
    read_code(document, lines, findings)
    if "availability" not in findings and in_stock and ("price" in findings or _has_own_control(document)):
        findings.add("availability", "in_stock", "heuristic")
    _read_facts(document, findings)
    read_brand(document, lines, findings)
    if not findings.images:
        for node in document.tree.css("main img[src], article img[src], img[src]")[:40]:
            if (node.attributes.get("alt") or "").casefold() == headline.casefold():
                findings.add_image(document.absolute(node.attributes.get("src") or ""), node.attributes.get("alt"))


def _is_decided(document: Document, findings: ProductFindings) -> bool:
    """Return whether the page was taken for a product's by a control to buy or a price, and not by its address alone or
    for want of any other kind. Many buttons to buy are examined again, unless markup has decided."""
    if findings.page is None or findings.page.confidence < OFFERED:
        return False
    return findings.page.confidence >= MARKED or document.once(PageSigns).buy_controls[0] <= MOST_BUTTONS


def read_missing_facts(document: Document, findings: ProductFindings) -> None:
    """Add the brand, and the numbers, that tables and labelled lines of the page have and its markup lacks."""
    _read_facts(document, findings)
    headline = findings.get("product_name") or headline_of(document)
    if headline is not None:
        read_brand(document, _around(document.shown, headline), findings)


def read_price_today(document: Document, findings: ProductFindings) -> None:
    """Replace a price of before by today's, where the page shows both with their discount."""
    headline = findings.get("product_name") or headline_of(document)
    if headline is not None and "price" in findings and findings.values["price"].source != "heuristic":
        read_discounted(document, lambda: _around(document.shown, headline), findings)


def _around(lines: Sequence[VisibleLine], headline: str) -> Sequence[VisibleLine]:
    """Return the lines from the headline on: from the line that is the product's name, or else from the headline that
    shares most words with it, a line that begins with it, or the first line outside of menus."""
    first = next((place for place, line in enumerate(lines) if line.text == headline), None)
    if first is None:
        wanted = words(headline)
        headlines = [place for place, line in enumerate(lines) if line.tag == "h1"]
        first = max(headlines, key=lambda place: len(words(lines[place].text) & wanted), default=None)
    if first is None:  # the headline is hidden from readers; a line that is or begins with the name stands for it
        plain = headline.casefold()
        begun = (
            at for at, line in enumerate(lines) if line.area not in _MENUS and line.text.casefold().startswith(plain)
        )
        first = next(begun, None)
    if first is None:
        first = next((at for at, line in enumerate(lines) if line.area not in _NEVER), 0)
    return lines[first : first + NEAR]


_OF_STORES = any_of(_DATA["stock_elsewhere"], r"\b(?:{})\b")
"""The stock of a shop in a town, or of another article, is not that of the product here."""
_OF_A_SIZE = any_of(
    _DATA["sizes"], r"(?:\b|(?<=^[SML])|(?<=^\d\d))(?:{})\b|^(?:\d{1,3}(?:[.,]5)?|X{0,3}[SML])\b\s*[-–:(]"
)
"""Words of a choice of sizes: the stock of one size is not that of the product."""

_BADGES = any_of(_DATA["on_sale"], r"(?:{})(?:\s+|(?-i:(?=[A-ZÀ-Ž])))(?=\w)|.*[$€£]\s?\d|.*\d\s?[$€£]")
"""Begins a line of badges, all of which a theme writes beside the price of every product: `Sale Sold out`."""


def _read_words(lines: Sequence[VisibleLine], findings: ProductFindings, *, in_stock: bool) -> None:
    """Add stock and rating from the words under the headline. `in_stock`: the page has a button that puts the product
    into a cart; then words below it that deny the stock are those of a size, or of a template that waits."""
    is_below_button = False
    for line in lines[1:]:
        if line.tag == "button":
            is_below_button |= in_stock and invites_to_buy(line.text)
        if len(line.text) > 120 or line.tag == "button":
            continue
        if line.tag in _HEADINGS and _OTHERS.match(line.text):
            return  # what follows is about other products
        if "availability" not in findings:
            word = availability_of(line.text)  # before the patterns of what it may belong to: few lines have one
            is_of_another = word is not None and (_OF_A_SIZE.search(line.text) or _OF_STORES.search(line.text))
            is_template = is_below_button or (in_stock and _BADGES.match(line.text) is not None)
            if not is_of_another and not (is_template and word == "out_of_stock"):
                findings.add("availability", word, "heuristic")
        if "rating" not in findings and (rated := _RATED.search(line.text)):
            findings.add("rating", rated[1], "heuristic")
        if "review_count" not in findings and (counted := _REVIEWS.search(line.text)):
            findings.add("review_count", re.sub(r"\D", "", counted[1]), "heuristic")


def _read_facts(document: Document, findings: ProductFindings) -> None:
    """Tables and definition lists: a label and its value."""
    pairs: list[list[LexborNode | None]] = []
    for row in document.tree.css("table tr")[:200]:
        cells = row.css("td, th")[:8]
        if len(cells) % 2 == 0:  # some tables have two pairs in a row
            pairs += [[one, other] for one, other in zip(cells[::2], cells[1::2], strict=True)]
    pairs += [[term, term.next] for term in document.tree.css("dl > dt")[:200] if term.next is not None]
    for one, other in pairs:
        if one is None or other is None:
            continue
        label = " ".join(one.text(separator=" ").split()).rstrip(": ")
        value = " ".join(other.text(separator=" ").split())
        for name, pattern in _LABELS.items():
            if name not in findings and value and len(value) <= 100 and pattern.fullmatch(label):
                findings.add(name, value, "heuristic")
