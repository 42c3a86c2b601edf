"""The signs by which the kind of a page is recognised: declared types, controls, prices, repeated blocks, prose. Pure.

Everything here is a fact about one page. What the facts mean together is decided in `page_kind`.
"""

import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property, lru_cache
from urllib.parse import urlsplit

from selectolax.lexbor import LexborNode

from forager.extract.html.document import Document
from forager.extract.html.page_fit import declared_types
from forager.extract.html.structured_data import Thing, first, of_type, text_of, things
from forager.extract.tables import any_of, spoken, table
from forager.extract.text.strings import one_line

_DATA, _PRODUCTS = table("page_kinds"), table("products")

BUY = any_of((*spoken("buy"), rf"\b(?:{'|'.join(_PRODUCTS['buy'])})\b"))
"""Words of a control that puts a product into a cart."""
APPLY = any_of(spoken("apply"))
EMPLOYMENT = any_of(spoken("employment"))
_WORDS = frozenset("ALL TOP CUP SOS TRY MOP PEN GEL BAM AMD MAD".split())
_CODES = "|".join(sorted(frozenset(table("currencies")["codes"].split()) - _WORDS))
_SIGNS = "R\\$|kr|Kr|Kč|zł|Ft|lei|Lei|лв|руб|грн|ден|дин|din|Rs|RM|Rp|TL|S/|Bs|KSh|Tk|₸|د\\.إ|ر\\.س"
_SIGN_BEFORE = re.compile(r"[$€£¥￥₹₽₺₪₱₫฿₩₴₦₾₼₮₡₲₵৳﷼]\s?\d")
_CODE_BEFORE = re.compile(rf"(?:{_CODES}|{_SIGNS})\.?\s?\d")
_BEHIND = re.compile(rf"\d\s?(?:[€£₽₺₪₫฿₩₴₾₼₸円元원]|(?:{_CODES}|{_SIGNS})\b|,-|:-)")
_WORD = re.compile(r"\w")
PRODUCTS = ("Product", "ProductGroup", "IndividualProduct", "ProductModel", "SomeProducts", "Book", "Car", "Vehicle")
MOST_NODES, MOST_PRICES, MOST_CONTROLS = 60_000, 400, 3_000
LEAST_CARDS = 3
"""Equal blocks with a link and a price that make a list."""
CLIMB = 9
"""Levels from a price up to the block that it belongs to."""
LONGEST_PRICE, LONGEST_CONTROL = 60, 60
LONGEST_WRITTEN, LONGEST_CLASS = 1_000, 3_000
"""Characters of a control with the blanks and line breaks of its template, and of the classes of <body>."""
A_SENTENCE = 80
_DIGIT = re.compile(r"\d")
_CONTROLS = (
    "button, input[type=submit], input[type=button], input[type=image], a, [role=button], add-to-cart, product-form"
)
_CONTROL_NAMES = ("value", "alt", "title", "aria-label")
_AROUND = frozenset(("nav", "footer", "header", "aside"))
_CART_CLASS = re.compile(
    r"add[-_]?to[-_]?(?:cart|bag|basket)|addtocart|buy[-_]?(?:now|button|box)|btn[-_]?cart|product[-_]form",
    re.IGNORECASE,
)
_PRICE = any_of((*_PRODUCTS["price"], *spoken("price")), r"(?:our |your |sale |unit )?(?:{})")
_FACT_LABEL = any_of((*_PRODUCTS["fact_labels"], "upc", "ean", "gtin", "isbn", *spoken("sku"), *spoken("brand")))
_FACT = any_of((*_PRODUCTS["fact_labels"], *spoken("sku"), *spoken("price")), r"(?:{})\s*[:#]")
_SORTED = any_of(_PRODUCTS["sorted"], r"(?:{})\b")
_COUNTED = re.compile(
    r"\b(?![01]\s)\d[\d.,\s]*\+?\s(?:products?|items?|results?|produkte?|artikel|articles?|produits?|productos?|resultados|prodotti"
    r"|produkter|treffer|résultats|товар\w*|termék|produktów|produktů)\b|showing \d+"
    r"|\b\d+\s?[-–]\s?\d+ (?:of|von|sur|de|di|van) \d+",
    re.IGNORECASE,
)
"""A count of what a list holds; none or one is that of a cart."""


@dataclass(frozen=True, slots=True)
class Cards:
    """Blocks of equal build, each with a link and a price."""

    count: int
    """Blocks of the largest group."""
    groups: int
    before: bool
    """True if the largest group begins before the first price outside of all groups, or there is no such price."""


class PageSigns:
    """Signs of one page. Each is worked out when it is first looked at: most pages need only a few of them."""

    def __init__(self, document: Document) -> None:
        self.document = document
        parts = urlsplit(document.url)
        self.host = (parts.hostname or "").lower()
        self.path = parts.path.lower()
        self.query = parts.query.lower()

    # Declarations

    @cached_property
    def things(self) -> tuple[Thing, ...]:
        return things(self.document)

    @cached_property
    def declared(self) -> frozenset[str]:
        return declared_types(self.things)

    @cached_property
    def og_type(self) -> str:
        return self.document.metas.get("og:type", "").strip().lower()

    @cached_property
    def products(self) -> list[Thing]:
        """Products in the markup near its root, those in lists of others left out."""
        return [thing for thing in of_type(self.things, *PRODUCTS) if thing.depth <= 3]

    @cached_property
    def offered(self) -> str | None:
        """The way in which markup offers the page's product: `one` price or availability under a name that is in the
        title or headline; only a `range` of prices under such a name; `unnamed`, the only product, under another name;
        or None."""
        shown = _words(f"{self.document.title or ''} {self.document.headline or ''}")
        offers = [(thing, _offer_of(thing)) for thing in self.products]
        named = [offer for thing, offer in offers if offer and _is_shown(thing, shown)]
        if named:
            return "one" if "one" in named else "range"
        # A product without a name and an offer belongs to the template and is no evidence about the page.
        full = [(thing.depth, offer) for thing, offer in offers if offer or thing.text("name")]
        top = min((depth for depth, _ in full), default=0)
        return "unnamed" if [bool(offer) for depth, offer in full if depth == top] == [True] else None

    @cached_property
    def is_named(self) -> bool:
        """True if markup has a product with the name that the page shows, with or without an offer."""
        shown = _words(f"{self.document.title or ''} {self.document.headline or ''}")
        return any(_is_shown(thing, shown) for thing in self.products)

    def names_itself(self, kind: str) -> bool:
        """Return whether markup of this type has the name or headline that the page shows."""
        shown = _words(f"{self.document.title or ''} {self.document.headline or ''}")
        named = (_words(thing.text("headline", "name")) for thing in of_type(self.things, kind))
        return any(name and len(name & shown) >= 0.6 * len(name) for name in named)

    @cached_property
    def has_price_meta(self) -> bool:
        metas = self.document.metas
        return any(name in metas for name in ("product:price:amount", "og:price:amount", "product:price"))

    @cached_property
    def generator(self) -> str:
        return self.document.metas.get("generator", "").lower()

    @cached_property
    def template(self) -> str | None:
        """Kind of the template, as shop programs write it into the class or id of <html> and <body>: `product`,
        `collection`, or `text` for pages that sell nothing."""
        body, root = self.document.tree.body, self.document.tree.root
        called = " ".join((node.attributes.get("class") or "")[:LONGEST_CLASS] for node in (body, root) if node)
        number = (body.attributes.get("id") or "").lower() if body else ""
        words = called.lower().split()
        for kind, pattern in _TEMPLATES.items():
            if _TEMPLATE_IDS[kind].fullmatch(number) or any(pattern.fullmatch(word) for word in words):
                return kind
        return None

    def host_hints(self, kind: str) -> bool:
        labels = self.host.split(".")[:-1]
        return any(_HOSTS[kind].fullmatch(label) for label in labels[:-1] or labels[:1])

    def path_hints(self, kind: str) -> bool:
        return _PATHS[kind].search(self.path) is not None

    # Text

    @cached_property
    def lines(self) -> list[str]:
        """Visible lines outside of menus, header and footer."""
        return [line.text for line in self.document.shown if line.area not in _AROUND]

    @cached_property
    def prose(self) -> int:
        """Characters in sentences."""
        return sum(len(line) for line in self.lines if len(line) >= A_SENTENCE)

    @cached_property
    def sentences(self) -> int:
        return sum(len(line) >= A_SENTENCE for line in self.lines)

    @cached_property
    def is_sorted(self) -> bool:
        """True if the page has the control that sorts a list, or counts what it lists."""
        short = [line.text for line in self.document.shown if len(line.text) <= 60]
        return any(_SORTED.match(text) for text in short) or any(
            _DIGIT.search(text) and _COUNTED.search(text) for text in short
        )

    @cached_property
    def has_facts(self) -> bool:
        """True if a short line begins with the label of a product's fact (`Item #: 12`, `Marke: Acme`), or two lines
        are such labels, as in tables."""
        alone = {text.casefold() for text in self.lines if len(text) <= 30 and _FACT_LABEL.fullmatch(text)}
        return len(alone) > 1 or any(len(text) <= 80 and _FACT.match(text) for text in self.lines)

    @cached_property
    def has_buy_words(self) -> bool:
        """True if the text invites to buy, or has the label of a price."""
        return BUY.search(self.document.text) is not None or any(
            len(text) <= 60 and _PRICE.match(text) for text in self.lines
        )

    @cached_property
    def codes(self) -> int:
        """Blocks of code."""
        return len(self.document.tree.css("pre")[:50])

    # Controls and prices

    @cached_property
    def prices(self) -> list[LexborNode]:
        """The elements that show one amount of money each, in page order."""
        if not has_amount(self.document.text):
            return []
        found: list[LexborNode] = []
        amounts: dict[int, bool | None] = {}
        body = self.document.tree.body
        for number, node in enumerate(body.traverse(include_text=True) if body else ()):
            if number > MOST_NODES or len(found) >= MOST_PRICES:
                break
            if not node.is_text_node:
                continue
            text = node.text_content or ""
            if text.isspace() or len(text) > 4 * LONGEST_PRICE or not _DIGIT.search(text):
                continue
            holder = _holder(node, text, amounts)
            if holder is not None and holder.tag not in ("script", "style", "noscript", "option", "template"):
                found.append(holder)
        return found

    @cached_property
    def _blocks(self) -> tuple[dict[int, int], list[int | None]]:
        """Number of the block group of each price, and the size of each group."""
        return _grouped(self.prices)

    @cached_property
    def cards(self) -> Cards:
        sizes, groups = self._blocks
        if not sizes:
            return Cards(0, 0, False)
        largest = max(sizes, key=lambda group: sizes[group])
        alone = next((at for at, group in enumerate(groups) if group is None), len(groups))
        return Cards(sizes[largest], len(sizes), groups.index(largest) < alone)

    @cached_property
    def lone_prices(self) -> list[LexborNode]:
        """Prices outside of all groups of equal blocks."""
        return [node for node, group in zip(self.prices, self._blocks[1], strict=True) if group is None]

    @cached_property
    def controls(self) -> list[tuple[LexborNode, bool]]:
        """The controls that put something into a cart, in page order; True for those that are outside of repeated
        blocks, menus, header and footer."""
        builds: Counter[tuple[int, str]] = Counter()
        found = []
        for node in self.document.tree.css(_CONTROLS)[:MOST_CONTROLS]:
            if _is_buy(node):
                card = _repeated(node)
                if card is not None:
                    builds[card] += 1
                found.append((node, card))
        return [(node, (card is None or builds[card] < LEAST_CARDS) and not is_around(node)) for node, card in found]

    @cached_property
    def buy_controls(self) -> tuple[int, int]:
        """Controls that put something into a cart: outside of repeated blocks, and in all."""
        return sum(is_alone for _, is_alone in self.controls), len(self.controls)

    # Postings

    @cached_property
    def has_apply_control(self) -> bool:
        for node in self.document.tree.css("a, button, input[type=submit], input[type=button], [role=button]")[
            :MOST_CONTROLS
        ]:
            text = one_line(node.attributes.get("value") or node.text(separator=" "))
            if 0 < len(text) <= LONGEST_CONTROL and APPLY.search(text):
                return True
        return False

    def has_class(self, selectors: str, least: int = 1) -> bool:
        return len(self.document.tree.css(selectors)[:least]) >= least


_TEMPLATES: dict[str, re.Pattern[str]] = {kind: any_of(words) for kind, words in _DATA["templates"].items()}
_TEMPLATE_IDS = {kind: any_of(words) for kind, words in _DATA["template_ids"].items()}
_HOSTS = {kind: any_of(words, r"(?:{})") for kind, words in _DATA["hosts"].items()}
_PATHS = {kind: any_of(words, r"/(?:{})(?:[/.]|$)") for kind, words in _DATA["paths"].items()}


def _words(text: str | None) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", (text or "").casefold()))


def _is_shown(thing: Thing, shown: frozenset[str]) -> bool:
    """Return whether most words of a thing's name are among those of the page's title and headline."""
    name = _words(thing.text("name"))
    return bool(name) and len(name & shown) >= 0.6 * len(name)


def _offer_of(thing: Thing) -> str | None:
    """`one` if the product has one price or state, `range` if it has only a range over several offers."""
    offers = thing.get("offers")
    listed = offers if isinstance(offers, list) else [offers]
    dicts = [each for each in listed if isinstance(each, dict)]
    variants = thing.get("hasVariant")
    if not dicts and isinstance(variants, list | dict):
        return "one"
    for each in dicts:
        if text_of(each.get("price")) or first(each.get("priceSpecification")) or text_of(each.get("availability")):
            return "one"
    return "range" if any("lowPrice" in each or "highPrice" in each or "offers" in each for each in dicts) else None


def has_amount(text: str) -> bool:
    """Return whether a text has an amount of money with its currency. Three patterns that each begin with a set of
    characters take a fifth of the time of one."""
    if _SIGN_BEFORE.search(text) or _BEHIND.search(text):
        return True
    found = _CODE_BEFORE.search(text)
    while found is not None:
        start = found.start()
        if bool(_WORD.match(text, start)) != (start > 0 and bool(_WORD.match(text, start - 1))):
            return True  # a code begins where a word does
        found = _CODE_BEFORE.search(text, start + 1)
    return False


def _holder(node: LexborNode, text: str, amounts: dict[int, bool | None]) -> LexborNode | None:
    """Return the smallest element around a number that shows an amount with its currency, and little else. `amounts`:
    what is known of elements with several numbers; None for one that shows more than a price."""
    parent = node.parent
    if has_amount(text):
        return parent if len(text.strip()) <= 4 * LONGEST_PRICE else None
    for _ in range(3):
        if parent is None:
            return None
        place = parent.mem_id
        if place not in amounts:
            whole = parent.text(separator="")
            amounts[place] = has_amount(whole) if len(whole) <= LONGEST_PRICE else None
        if (found := amounts[place]) is None:
            return None
        if found:
            return parent
        parent = parent.parent
    return None


def _build(node: LexborNode) -> str:
    """Tag and first class of an element: equal blocks have the same."""
    called = (node.attributes.get("class") or "").split()
    return f"{node.tag}.{called[0]}" if called else str(node.tag)


def _grouped(prices: list[LexborNode]) -> tuple[dict[int, int], list[int | None]]:
    """Group prices by the repeated blocks that they are in: the block is the lowest ancestor that has a link and,
    under the same parent or in the same build, siblings that have a link and a price themselves."""
    paths: list[list[tuple[tuple[int, str], int]]] = []
    blocks: dict[tuple[int, str], set[int]] = {}
    for node in prices:
        path: list[tuple[tuple[int, str], int]] = []
        above: LexborNode | None = node
        for _ in range(CLIMB):
            if above is None or above.parent is None or above.tag in ("body", "html", "main"):
                break
            key = (above.parent.mem_id, _build(above))
            path.append((key, above.mem_id))
            above = above.parent
        paths.append(path)
        for key, block in path:
            blocks.setdefault(key, set()).add(block)
    nodes = {node.mem_id: node for node in prices}
    linked: dict[int, bool] = {}
    sizes: dict[int, int] = {}
    numbers: dict[tuple[int, str], int] = {}
    groups: list[int | None] = []
    for node, path in zip(prices, paths, strict=True):
        group = None
        holder: LexborNode | None = nodes[node.mem_id]
        for key, block in path:
            if len(blocks[key]) >= LEAST_CARDS and holder is not None:
                if block not in linked:
                    linked[block] = holder.tag == "a" or holder.css_first("a[href]") is not None
                if linked[block]:
                    group = numbers.setdefault(key, len(numbers))
                    sizes[group] = len(blocks[key])
                    break
            holder = holder.parent if holder is not None else None
        groups.append(group)
    return sizes, groups


def _repeated(node: LexborNode) -> tuple[int, str] | None:
    """Return the place of the lowest ancestor that has several siblings of its build."""
    above: LexborNode | None = node
    for _ in range(CLIMB):
        if above is None or above.parent is None or above.tag in ("body", "html", "main"):
            return None
        build, count = _build(above), 0
        for sibling in above.parent.iter():
            count += _build(sibling) == build
            if (count >= LEAST_CARDS and "." in build) or (
                count >= LEAST_CARDS and above.tag in ("li", "article", "tr")
            ):
                return above.parent.mem_id, build
        above = above.parent
    return None


def _is_buy(node: LexborNode) -> bool:
    """Return whether a control puts something into a cart. Written for speed: a page has hundreds of links."""
    attributes = node.attributes
    for name in _CONTROL_NAMES:
        if (text := attributes.get(name)) and invites_to_buy(text):
            return True
    tag = node.tag
    if tag != "input" and 0 < len(text := node.text(separator=" ")) <= LONGEST_WRITTEN and invites_to_buy(text):
        return True
    if tag in ("a", "add-to-cart", "product-form"):
        return False
    called = f"{attributes.get('class') or ''} {attributes.get('id') or ''} {attributes.get('name') or ''}"
    return bool(_CART_CLASS.search(called))


@lru_cache(maxsize=16_384)
def invites_to_buy(text: str) -> bool:
    """Return whether the text of a control is one of buying. The words of 40 languages cost 20 µs a text, and the pages
    of a site repeat the same menus: results are kept."""
    plain = one_line(text)
    return len(plain) <= LONGEST_CONTROL and BUY.search(plain) is not None


def is_around(node: LexborNode, areas: Collection[str] = ("nav", "footer", "header")) -> bool:
    """Return whether an element is in one of these areas around the content."""
    above: LexborNode | None = node
    while above is not None:
        if above.tag in areas:
            return True
        above = above.parent
    return False
