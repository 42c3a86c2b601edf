"""The price that a reader sees: near the headline, or in an element that is called a price; and its currency. Pure."""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from decimal import Decimal
from itertools import zip_longest
from urllib.parse import urlsplit

from selectolax.lexbor import LexborNode

from forager.extract.html.document import Document, VisibleLine
from forager.extract.products.findings import Offered, ProductFindings
from forager.extract.tables import any_of, table
from forager.extract.text.prices import CURRENCY, Price, is_currency, parse_price, to_amount
from forager.extract.text.strings import one_line

_DATA = table("products")

_WAS = any_of(_DATA["was"], r"\b(?:{})\b")
_OTHER = any_of(_DATA["other_amount"], r"\b(?:{})\b|\b\d{1,2}\s?[x×]\s?(?:de\s|of\s|à\s)?(?:R?\$|€|£)")
"""Marks an amount that is neither the current nor a former price of the product."""
_PER_UNIT = re.compile(
    r"\d\s?(?:€|\$|£|zł|Kč|kr)?\s?(?:/|per|pro|je)\s?(?:\d+\s?)?(?:kg|g|mg|l|ml|cl|oz|lb|litre|liter|m²|m2|stk|stück)\b",
    re.IGNORECASE,
)
"""A price per weight or volume: the product's own only if the page shows no other."""
_SPECIAL = any_of(_DATA["special"])
"""A bid, a price for members, a month's instalment: the product's own only if the page shows no other."""
_SHARE = re.compile(r"\d+\s?%")
_EXTRA = re.compile(r"(?<=\d)\s?[€$£]?\s?\+\s?(?:[€$£]\s?\d[\d.,]*|\d[\d.,]*\s?[€$£])\s+\w+[^\d€$£]*$")
"""An amount that is added to a price: `£220.00 + £12.00 delivery`."""
_AMOUNTS = re.compile(r"\d[\d.,']*")
_FORMER = "del, s, strike, [style*=line-through], [class*=price]"
_LABELS = any_of((*_DATA["now"], *_DATA["was"]), r"(?<=[\d€£$₽.łčR])\s*(?=(?<!\d)\b(?:{})\b)")
"""Between an amount and the label of the next one: `Normaler Preis €119 Verkaufspreis €89`."""
_AMOUNT_FIRST = re.compile(r"\W{0,2}[A-Z]{0,3}[$€£]?\s?\d", re.IGNORECASE)
_LABEL_LAST = any_of((*_DATA["now"], *_DATA["was"]), r"\D(?:{})\W{0,9}$")
_LABEL_LENGTH = 60
"""Maximum length of a label and what surrounds it at the end of a text."""
_LABELS_BEHIND = re.compile(
    r"(?:(?<=price)|(?<=preis)|(?<=prix)|(?<=precio)|(?<=preço)|(?<=prezzo)|(?<=prijs))\s*(?=[A-Z]{0,3}[$€£]?\s?\d)",
    re.IGNORECASE,
)
"""The same where labels stand behind their amounts: `$64.00 Regular Price $48.00 Sale Price`."""
_BETWEEN_PRICES = re.compile(
    r"(?<=\d)\s+(?=[$€£¥]\s*\d[\d.,]*+(?!\s?[$€£¥]))|(?<=\d[€₽])\s+(?=\d)|(?<=\d\s[€₽])\s+(?=\d)"
    r"|(?<=[\d€£₽])\s+(?=(?:our|your|sale|special|you|now|only|nur|jetzt|retail|list|save|spare|free|inkl|zzgl)\b)"
    r"|(?<=[\d€£₽])\s*(?=(?:or|oder|ou|o|eller|lub)\s+\d)"
    r"|(?:(?<=\d[€£₽$.])|(?<=\d\s[€£₽])|(?<=\d\s(?:zł|Kč|Ft|kr)))\s?\.?\s*(?=[^\W\d_]{1,}[^.\d]{0,30}:\s?[^\w\s]{0,3}(?:R\$)?\s?\d)"
    r"|(?<=\d)\s+(?=[A-Z]{0,3}[$€£]\s*\d[\d.,]*+\s*/)",
    re.IGNORECASE,
)
"""Between two amounts that have no labels: `$49.00 $39.00`, `€10 inkl. MwSt.`."""
_GLUED = re.compile(r"(?<=\d)(?=[A-ZÀ-Ž][a-zà-ž]{2})")
"""Between the amount of one element and the word of the next: `$64.00Regular Price`."""
_OLD = r"(?:^|[^a-z])(?:old|was(?!h))|(?-i:[a-z](?:Old|Was))"
"""`price-old` and `oldPrice`, but not `text-bold`."""
_FORMER_CLASS = re.compile(rf"{_OLD}|strike|cross(?!-?sell)|rrp|uvp|compare|original", re.IGNORECASE)
"""Class names of elements that show a former price."""
_TODAY_CLASS = re.compile(
    r"(?:current|sale|special|final)-?price|price-?(?:-item)?-{0,2}(?:current|sale|special|final)"
)
_FORMER_CLASS_IN_SALE = re.compile(
    rf"{_FORMER_CLASS.pattern}|(?:regular|standard|normal|base|previous|before|secondary)-?price"
    r"|price-?(?:-item)?-{0,2}(?:regular|standard|normal|base|previous|before|secondary)",
    re.IGNORECASE,
)
"""The same on a page that names the elements of today's price as well."""
LONGEST_FORMER, LEVELS = 40, 4
_DISCOUNT_SHOWN = re.compile(r">\s*+[(–−-]\s?-?\d{1,2}\s?%")
_DISCOUNT = re.compile(r"(?<!\d)[-–−]\s?(\d{1,2})\s?%")
"""A discount: `-50%`."""
_WRITTEN = re.compile(r"\d{1,3}(?:[ .,\u00a0]\d{3})+(?:[.,]\d\d)?(?!\d)|\d+(?:[.,]\d\d)?(?!\d)")
ROUNDED = Decimal("0.012")
"""Tolerance when a discount is checked, as a share of the former price: shops round both the price and the discount."""
_NOW = any_of(_DATA["now"], r"\b(?:{})\b")
_OLD_CLASS = any_of(_DATA["other_class"])
_OLD_BLOCK = re.compile(rf"{_OLD}|(?:^|[^a-z])(?:list|retail)(?!-?item)|related|upsell", re.IGNORECASE)
_SIGNS = r"\$|€|£|zł|Kč|₽|руб"
_SIGNED = re.compile(rf"({_SIGNS})\s?\d|\d\s?({_SIGNS})")
_OTHER_DOLLARS = re.compile(
    r"\b(?:CAD|AUD|NZD|HKD|SGD|MXN|TWD|BRL|CLP|COP|ARS)\b|(?<![A-Z])(?:CA?|AU?|NZ|HK|S|R|MX|NT)\$"
    r"|\b(?:canadian|australian) dollars?\b"
)
_WORDS = frozenset({"ALL", "TOP", "CUP", "SOS", "TRY", "MOP", "PEN", "GEL", "BAM", "AMD", "MAD"})
"""Codes that are words as well: in visible text they are not taken for a currency."""
_COMMON = frozenset(("kr", "Kr", "Ft", "Rs", "RM", "Rp", "TL", "zl", "Kc"))
_AMERICAN = frozenset({"com", "us", "net", "org", "shop", "store"})
_LOCALE = re.compile(r"[a-z]{2}[-_][a-z]{2}")
_DOLLAR_COUNTRIES = frozenset(_DATA["dollar_countries"].split())
"""As the first part of a host or path (`ca.shop.com`, `shop.com/au/`): other countries whose currency is written
`$`."""
_THOUSANDS = (",", ".", " ", "\u00a0", "&nbsp;", "'")
_CALLED = ", ".join(
    f"[{name}*=price i]" for name in ("class", "id", "data-testid", "data-test", "data-qa", "data-hook")
)
MOST_NODES = 400
MOST_WORDS = 8
"""A line with more is a sentence about money, such as a gift for every 250 dollars."""
_PRICE_WORD = any_of(_DATA["price"])
_AMOUNT = re.compile(r"\d[\d\s.,]{0,14}")


def read_price(document: Document, lines: Sequence[VisibleLine], findings: ProductFindings) -> None:
    """Add the first price after the headline that is not crossed out or called an old one."""
    struck = _struck(document)
    per_unit: Price | None = None
    crossed: Price | None = None
    labelled: Price | None = None
    for text in (*_lines(lines), *_called_prices(document)):
        for part in _priced_parts(_EXTRA.sub(" ", text)):
            price = parse_price(part)
            if not price.amount or price.text is None or not _is_signed(price, document):
                continue
            is_old = _digits(part) in struck or _digits(price.text) in struck or _WAS.search(part)
            is_other = _OTHER.search(part)
            if (is_old or is_other) and not _NOW.search(part):
                if not is_other:
                    labelled = labelled or (price if _WAS.search(part) else None)
                    crossed = crossed or (None if _WAS.search(part) else price)
                    findings.metadata.setdefault("regular_price", str(price.amount))
            elif _PER_UNIT.search(part) or (_SPECIAL.search(part) and len(_AMOUNTS.findall(_SHARE.sub("", part))) == 1):
                per_unit = per_unit or price
            else:
                _add(_reduced(price, lines) or price, document, findings)
                return
    if per_unit is not None:  # what is crossed out beside a price for members is the price for others
        _add(crossed or per_unit, document, findings)
    elif labelled is not None:  # `Regular price $9.90`, and no other one
        _add(labelled, document, findings)


def _reduced(price: Price, lines: Sequence[VisibleLine]) -> Price | None:
    """Return the price after a discount that stands next to a price: `3 290 Kč –12 % 2 890 Kč`. The arithmetic must be
    right."""
    if price.amount is None or price.text is None:
        return None
    at = next((at for at, line in enumerate(lines) if price.text in line.text), None)
    near = [line.text for line in lines[at : at + 4] if len(line.text) <= 2 * LONGEST_FORMER] if at is not None else []
    for discount in (found for text in near for found in _DISCOUNT.finditer(text)):
        left = price.amount * (100 - int(discount[1])) / 100
        for text in near:
            if _SPECIAL.search(text) or _OTHER.search(text):
                continue
            for number in _WRITTEN.finditer(_DISCOUNT.sub(" ", text)):
                amount = to_amount(number[0], currency=price.currency)
                if amount and amount < price.amount and abs(amount - left) <= price.amount * ROUNDED:
                    return Price(amount, price.currency, price.symbol, number[0])
    return None


def _add(price: Price, document: Document, findings: ProductFindings) -> None:
    findings.add_price(price.amount, _currency(price, document), "heuristic")
    if price.symbol == "$" and "currency" not in findings:
        findings.add("currency", _dollar(document), "sign")


def read_discounted(document: Document, lines: Callable[[], Sequence[VisibleLine]], findings: ProductFindings) -> None:
    """Let today's price hold where the markup has the price of before: the page shows that one with a discount in per
    cent, and close to it the amount that the discount leaves. The arithmetic must be right."""
    held = findings.get("price")
    if not held or not (document.has_lines or document.once(_shows_discount)):
        return
    near = lines()
    for at, line in enumerate(near):
        part = " ".join(each.text for each in near[at : at + 2] if len(each.text) <= LONGEST_FORMER)
        discount = _DISCOUNT.search(part) if "%" in part else None
        if discount is None or parse_price(line.text).amount != held:
            continue
        left = held * (100 - int(discount[1])) / 100
        for below in near[at : at + 4]:
            price = parse_price(_DISCOUNT.sub(" ", below.text)) if len(below.text) <= LONGEST_FORMER else None
            if price and price.amount and price.amount < held and abs(price.amount - left) <= held * ROUNDED:
                if not document.once(_shows_discount):
                    return
                currency = findings.get("currency")
                findings.metadata.setdefault("regular_price", str(held))
                findings.hold_price(Offered(price.amount, price.currency or currency, "selector", lowest=False))
                return


def _shows_discount(document: Document) -> bool:
    """Return whether a text of the page begins with a discount. Looks through the whole source: it is asked before the
    visible lines are read for this alone, and after they had a discount."""
    return _DISCOUNT_SHOWN.search(document.source) is not None


def doubt_unseen_price(document: Document, findings: ProductFindings) -> None:
    """Lower the confidence of a price of the markup that the page shows in none of the forms of its amount."""
    held = findings.values.get("price")
    if held is None or held.source in ("heuristic", "sign", "script", "learnt"):
        return
    whole, _, cents = f"{held.value:.2f}".partition(".")
    parted = [whole] if len(whole) <= 3 else [whole, *(f"{whole[:-3]}{sign}{whole[-3:]}" for sign in _THOUSANDS)]
    ends = ["", *(f"{sign}{cents}" for sign in ".,")] if cents == "00" else [f".{cents}", f",{cents}", ""]
    if not any(document.shows(f"{start}{end}", number=True) for end in ends for start in parted):
        findings.doubt("price")


def _struck(document: Document) -> frozenset[str]:
    """Return the digits of amounts that are crossed out or are in elements named after a former price, and nowhere
    in one named after a price otherwise: some templates have an empty or equal price of before for every product."""
    nodes = document.tree.css(_FORMER)[:MOST_NODES]
    called = "".join(node.attributes.get("class") or "" for node in nodes)
    pattern = _FORMER_CLASS_IN_SALE if _TODAY_CLASS.search(called) else _FORMER_CLASS
    former = {node.mem_id: node for node in nodes if _is_former(node, pattern)}
    texts = (node.text(separator=" ") for node in list(former.values())[:50])
    struck = {_digits(text) for text in texts if len(text.strip()) <= LONGEST_FORMER}
    if not struck:
        return frozenset()
    today = (
        node
        for node in nodes
        if not _is_within(node, former) and not any(_is_former(each, pattern) for each in node.css(_FORMER))
    )
    return frozenset(struck.difference(_digits(node.text()) for node in today))


def _is_within(node: LexborNode, former: Collection[int]) -> bool:
    return any(above.mem_id in former for above in _up(node))


def _up(node: LexborNode) -> Iterator[LexborNode]:
    """Yield an element and the nearest elements around it."""
    above: LexborNode | None = node
    for _ in range(LEVELS):
        if above is None:
            return
        yield above
        above = above.parent


def _is_former(node: LexborNode, pattern: re.Pattern[str]) -> bool:
    if node.tag in ("del", "s", "strike"):
        return True
    attributes = node.attributes
    called = attributes.get("class") or ""
    return "line-through" in (attributes.get("style") or "") or bool("price" in called and pattern.search(called))


def read_currency(document: Document, findings: ProductFindings) -> None:
    """The currency of a price that came without one: the sign next to the same amount on the page."""
    amount = findings.get("price")
    if amount is None or "currency" in findings:
        return
    for node in document.tree.css("[class*=currency i], [itemprop=priceCurrency]")[:20]:
        if is_currency(code := one_line(node.text() or node.attributes.get("content") or "")):
            findings.add("currency", code, "heuristic")
            return
    for line in document.shown[:2_000]:
        if len(line.text) > 200 or not any(char.isdigit() for char in line.text):
            continue
        for part in _priced_parts(line.text):
            price = parse_price(part)
            if price.amount == amount and _is_signed(price, document):
                if not findings.add("currency", _currency(price, document), "heuristic") and price.symbol == "$":
                    findings.add("currency", _dollar(document), "sign")
                return
    signs = {one or other for one, other in _SIGNED.findall(document.text)}
    if len(signs) == 1:  # the only one on the page
        (sign,) = signs
        if sign == "$":
            findings.add("currency", _dollar(document), "sign")
        else:
            findings.add("currency", parse_price(f"1 {sign}").currency, "heuristic")


def _lines(lines: Sequence[VisibleLine]) -> Iterator[str]:
    """Yield lines that can be a price. A number and the currency under it are one."""
    for line, below in zip_longest(lines[1:], lines[2:]):
        if line.area in ("nav", "footer", "aside") or len(line.text) > 120:
            continue
        if below is not None and _AMOUNT.fullmatch(line.text) and CURRENCY.fullmatch(below.text):
            yield f"{line.text} {below.text}"
        elif len(line.text.split()) <= MOST_WORDS or _PRICE_WORD.search(line.text):
            yield line.text


def _called_prices(document: Document) -> Iterator[str]:
    """Yield the texts of elements that are called a price, but those that name another kind of price."""
    for node in document.tree.css(_CALLED)[:MOST_NODES]:
        called = f"{node.attributes.get('class') or ''} {node.attributes.get('id') or ''}"
        if _OLD_CLASS.search(called) or _inside_old(node):
            continue
        text = one_line(node.text(separator=" "))
        if text and len(text) <= 60:
            yield text


def _inside_old(node: LexborNode) -> bool:
    above = node.parent
    for _ in range(2):
        if above is None:
            return False
        if _OLD_BLOCK.search(above.attributes.get("class") or ""):
            return True
        above = above.parent
    return False


def _priced_parts(text: str) -> list[str]:
    """`$49.00 $39.00` is two prices; a range stays one. Labelled prices are parted before their labels."""
    text = _GLUED.sub(" ", text)
    is_behind = _AMOUNT_FIRST.match(text) and _LABEL_LAST.search(text[-_LABEL_LENGTH:])
    parted = (_LABELS_BEHIND if is_behind else _LABELS).split(text)
    return [part for each in parted[:5] for part in _unlabelled_parts(each)][:6]


def _unlabelled_parts(text: str) -> list[str]:
    return _BETWEEN_PRICES.split(text)[:5]


def _is_signed(price: Price, document: Document) -> bool:
    """Return whether the amount has a currency. Two letters that few shops use for one (`MT`, `KD`) count if the
    page has them next to several numbers: once, they are more often a unit or a part of a name."""
    if price.symbol is None or price.symbol.upper() in _WORDS:
        return False
    if len(price.symbol) != 2 or not price.symbol.isascii() or not price.symbol.isalpha() or price.symbol in _COMMON:
        return True
    sign = re.escape(price.symbol)
    return len(re.findall(rf"\b{sign}\s?\d|\d\s?{sign}\b", document.text)) > 1


def _currency(price: Price, document: Document) -> str | None:
    return price.currency or document.metas.get("currency")


def _dollar(document: Document) -> str | None:
    """US dollars, if the site's address and languages fit and nothing points to another country's dollar."""
    parts = urlsplit(document.url)
    host = parts.hostname or ""
    places = (host.partition(".")[0], *parts.path.lower().split("/")[1:3])
    locales = (document.language, document.metas.get("og:locale"), *filter(_LOCALE.fullmatch, places))
    is_american = host.rpartition(".")[2] in _AMERICAN and all(_is_american(each) for each in locales)
    if not is_american or not _DOLLAR_COUNTRIES.isdisjoint(places) or _OTHER_DOLLARS.search(document.text):
        return None
    return "USD"


def _is_american(locale: str | None) -> bool:
    """Return whether a locale such as `en-US` may be that of the United States; one without a country may."""
    language, _, country = (locale or "en").strip().lower().replace("_", "-").partition("-")
    return (language == "en" and country in ("", "us")) or (language, country) == ("es", "us")


def _digits(text: str) -> str:
    return re.sub(r"\D", "", text)
