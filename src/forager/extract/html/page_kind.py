"""Decides what kind of page a page is, with the evidence for it. Pure.

One answer for all: extractors refuse pages of other kinds, a crawl stores products from product pages only, and the
text of a page is chosen by its kind. The order of the decision is part of it:

1. A declaration in the markup decides where it is one of the page's own subject: a product with its price, a posting, a
   home, a discussion. Declarations of articles, documentation and discussions veto a product that is only guessed.
2. Equal blocks, each with a link and a price, are a collection; unless the page also has one price of its own beside
   the one control to buy it, because most product pages recommend others below.
3. Without markup a product needs that control and that price.
4. Other kinds are recognised by software, address, elements and the share of prose.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from forager.extract.html.document import Document
from forager.extract.html.page_signs import EMPLOYMENT, LEAST_CARDS, PageSigns
from forager.extract.tables import any_of, table

Kind = Literal[
    "product", "collection", "posting", "postings", "listing", "listings", "company", "person", "article",
    "documentation", "forum", "other",
]  # fmt: skip
"""`posting` is an advertised job and `listing` a home; `postings`, `listings` and `collection` are lists of these and
of products."""


@dataclass(frozen=True, slots=True)
class PageKind:
    """The kind of a page."""

    kind: Kind
    evidence: tuple[str, ...]
    """The signs that decided, such as `json-ld:Product with one price` or `12 equal blocks with a link and a price`."""
    confidence: float


ARTICLES = frozenset(
    "Article NewsArticle BlogPosting Report ScholarlyArticle OpinionNewsArticle ReportageNewsArticle "
    "AnalysisNewsArticle "
    "LiveBlogPosting Recipe HowTo MedicalWebPage AdvertiserContentArticle ReviewNewsArticle PodcastEpisode".split()
)
DOCUMENTATION = frozenset(("TechArticle", "APIReference", "SoftwareSourceCode"))
DISCUSSIONS = frozenset(("DiscussionForumPosting", "QAPage", "Conversation"))
LISTS = frozenset(("CollectionPage", "ItemList", "SearchResultsPage", "OfferCatalog"))
HOMES = frozenset(
    (
        "RealEstateListing",
        "Apartment",
        "House",
        "SingleFamilyResidence",
        "Residence",
        "ApartmentComplex",
        "Accommodation",
    )
)
FIRMS = frozenset(
    ("Organization", "Corporation", "LocalBusiness", "ProfessionalService", "Service", "EducationalOrganization")
)
VETO = (
    ARTICLES
    | DOCUMENTATION
    | DISCUSSIONS
    | frozenset(("FAQPage", "JobPosting", "Course", "Event", "VideoObject", "Service"))
)
"""Declared types that rule out a product on a page without product markup."""
BESIDE = frozenset(("FAQPage", "VideoObject"))
"""Types that pages of products declare as well: questions about the product, a film of it."""
MOST_LONE_PRICES, MOST_BUY = 12, 6
"""Prices and controls outside of repeated blocks, above which no single product is on offer."""
FEW_PRICES = 3
"""Prices that one product has: the price, what it was, what is saved."""
LONG, SOME_PROSE = 2_500, 900
"""Characters in sentences: of an article, and of a page with some text."""
MANY_CARDS = 12
"""Repeated blocks above the price that are the page itself, not a strip of recommendations."""
MOST_LINES = 250
"""Lines of a page that has one product and little else."""
_ONE_PRODUCT = re.compile(r"[^/]*(?:\d{3}|\w[-_]\w+[-_]\w)[^/]*/?$")
"""The last part of an address of one product: its number, or its name of several words."""
_GROUP = re.compile(r"product[.:_]group|^(?:collection|category)$")
_DATA = table("page_kinds")
_FORUM, _DOCUMENTATION = any_of(_DATA["forum_programs"]), any_of(_DATA["documentation_programs"])
_FORUM_ELEMENTS, _DOCUMENTATION_ELEMENTS = _DATA["forum_elements"], _DATA["documentation_elements"]


def page_kind(document: Document) -> PageKind:
    """Return the kind of a page. Never raises; a page without clear signs is `other`."""
    signs = document.once(PageSigns)
    for decide in _DECISIONS:
        kind = decide(signs)
        if kind is not None:
            return kind
    return PageKind("other", ("no sign of another kind",), 0.5)


def _declared(signs: PageSigns) -> PageKind | None:
    """Kinds that markup declares and nothing on the page can deny."""
    declared = signs.declared
    if "JobPosting" in declared and not signs.products:
        several = len({thing.text("title", "name") for thing in signs.things if "JobPosting" in thing.types}) > 2
        return PageKind("postings" if several else "posting", ("markup:JobPosting",), 0.95)
    if (homes := declared & HOMES) and not declared & ARTICLES:
        several = sum(bool(thing.types & HOMES) for thing in signs.things) > LEAST_CARDS
        return PageKind("listings" if several else "listing", (f"markup:{min(homes)}",), 0.9)
    if "ProfilePage" in declared and not declared & (ARTICLES | DISCUSSIONS) and not signs.products:
        return PageKind("person", ("markup:ProfilePage",), 0.8)
    if (found := declared & DISCUSSIONS) and signs.offered is None and not declared & ARTICLES:
        return PageKind("forum", (f"markup:{min(found)}",), 0.9)
    return None


def _product(signs: PageSigns) -> PageKind | None:
    """Recognise one product: in the markup, or by the one control to buy and its price."""
    offered = signs.offered
    if offered == "one" and not signs.declared & LISTS:
        return PageKind("product", ("markup:Product with one price",), 0.97)
    if _GROUP.search(signs.og_type):
        return None
    in_product_path = signs.path_hints("product")
    in_list_path = signs.path_hints("collection") and not in_product_path
    is_marked = offered is not None or signs.has_price_meta or signs.og_type.endswith("product")
    if is_marked or (signs.is_named and in_product_path):
        if _is_list_of_marked(signs, in_product_path, in_list_path):
            return None
        return PageKind("product", (f"markup:Product ({offered or 'meta tags'})",), 0.85)
    if _is_presented(signs):
        return PageKind("product", ("markup:Product under the page's own name",), 0.7)
    if signs.template == "product" and _is_for_sale(signs):
        return PageKind("product", ("template of a product",), 0.85)
    if signs.template is not None and not _has_buy_box(signs):
        return None
    if (in_list_path and not all(signs.buy_controls)) or signs.declared & _vetoes(signs, in_product_path):
        return None
    return _unmarked_product(signs, in_product_path=in_product_path)


def _is_presented(signs: PageSigns) -> bool:
    """Return whether the page presents one product without an offer, as makers do: the only product in its markup has
    the page's own name, and nothing declares the page to be something else."""
    if len(signs.products) != 1 or not signs.is_named or signs.path in ("", "/") or signs.cards.count:
        return False
    return not signs.declared & (VETO | LISTS | HOMES) and signs.og_type != "article" and bool(signs.lone_prices)


def _is_for_sale(signs: PageSigns) -> bool:
    """Return whether a page in the template of a product has a sign of trade as well."""
    return bool(any(signs.buy_controls) or signs.lone_prices or signs.has_facts or signs.is_named)


def _vetoes(signs: PageSigns, in_product_path: bool) -> frozenset[str]:
    """The declared types that rule out a product. Questions and films beside the one control to buy are about the
    product, unless the page itself is named as the list of questions, or its address is that of a manual."""
    if in_product_path:
        return VETO - {"FAQPage"}
    is_help = signs.path_hints("documentation") or signs.names_itself("FAQPage")
    return VETO - BESIDE if _has_buy_box(signs) and not is_help else VETO


def _has_buy_box(signs: PageSigns) -> bool:
    """Return whether the page has a control to buy and a price outside of repeated blocks."""
    return bool(signs.buy_controls[0] and signs.lone_prices and not signs.cards.before)


def _is_list_of_marked(signs: PageSigns, in_product_path: bool, in_list_path: bool) -> bool:
    """Return whether a page with markup of a product is a list all the same: a shop's meta tags are often those of its
    template, and some shops mark a category as a product with a range of prices."""
    if in_list_path and not signs.buy_controls[0] and (signs.offered is None or signs.cards.count >= LEAST_CARDS):
        return signs.offered != "one"
    is_vague = signs.offered is None and not signs.has_price_meta and not in_product_path
    return is_vague and signs.is_sorted and signs.cards.count >= LEAST_CARDS


def _unmarked_product(signs: PageSigns, *, in_product_path: bool) -> PageKind | None:
    alone, every = signs.buy_controls
    lone = len(signs.lone_prices)
    cards = signs.cards
    evidence = (f"{alone} controls to buy", f"{lone} prices outside of repeated blocks")
    if in_product_path:
        named = _ONE_PRODUCT.search(signs.path) is not None and lone <= MOST_LONE_PRICES
        if (not alone and not named and not 0 < lone <= 2 * FEW_PRICES) or alone > MOST_BUY:
            return None
        if signs.is_sorted and not named:
            return None
        is_priced = 0 < lone <= (MOST_LONE_PRICES if named else FEW_PRICES)
        if cards.count and not alone and not (is_priced and not cards.before):
            return None
        return PageKind("product", ("address", *evidence), 0.75 if alone or lone else 0.55)
    if signs.og_type in ("article", "blog") or _has_program(signs):
        return None
    if signs.path in ("", "/") and (alone != 1 or lone > FEW_PRICES or cards.count):
        return None  # a shop's front page shows several things
    if not alone:
        return _product_without_control(signs, lone, every)
    are_many = every > 2 * alone or cards.count >= MANY_CARDS
    has_several = cards.count or lone > FEW_PRICES
    is_list = (signs.is_sorted and every > 2 * alone and has_several) or (
        cards.before and (signs.is_sorted or are_many)
    )
    if is_list or alone > MOST_BUY or not 0 < lone <= 2 * MOST_LONE_PRICES or signs.prose > 8 * LONG:
        return None
    return PageKind("product", evidence, 0.7)


def _product_without_control(signs: PageSigns, lone: int, every: int) -> PageKind | None:
    """Recognise a page of a shop that sells by telephone or form, or whose button is a picture: few prices, none of
    them in a list above them, and the labels of a product's facts, or little else on the page."""
    if not 0 < lone <= 2 * FEW_PRICES or signs.is_sorted or signs.cards.before or signs.declared & FIRMS:
        return None
    if 0 < every <= FEW_PRICES and not signs.cards.count:
        return PageKind("product", (f"{every} controls to buy", f"{lone} prices outside of repeated blocks"), 0.6)
    has_little = signs.prose <= LONG and not signs.cards.count and len(signs.lines) <= MOST_LINES
    if (signs.has_facts and signs.prose <= 2 * LONG) or (has_little and signs.has_buy_words):
        return PageKind("product", ("labelled facts of a product", f"{lone} prices outside of repeated blocks"), 0.6)
    return None


def _has_program(signs: PageSigns) -> bool:
    return bool(_FORUM.search(signs.generator) or _DOCUMENTATION.search(signs.generator))


def _collection(signs: PageSigns) -> PageKind | None:
    cards = signs.cards
    declared = bool(signs.declared & LISTS)
    if _GROUP.search(signs.og_type):
        return PageKind("collection", (f"og:type {signs.og_type}",), 0.9)
    if cards.count >= LEAST_CARDS and not (signs.declared & ARTICLES or signs.og_type == "article"):
        shop = signs.buy_controls[1] or signs.products or declared or signs.is_sorted or signs.path_hints("collection")
        if shop or cards.count >= 2 * LEAST_CARDS:
            evidence = (f"{cards.count} equal blocks with a link and a price",)
            return PageKind("collection", evidence, 0.85 if shop else 0.6)
    if len(signs.products) > LEAST_CARDS and signs.offered is None:
        return PageKind("collection", (f"markup:{len(signs.products)} products",), 0.85)
    if signs.is_sorted and signs.prices and signs.buy_controls[1]:
        return PageKind("collection", ("a control to sort", "prices"), 0.7)
    return None


def _forum(signs: PageSigns) -> PageKind | None:
    points = {
        "program": 2 * bool(_FORUM.search(signs.generator)),
        "elements of posts": 2 * signs.has_class(_FORUM_ELEMENTS, 1),
        "address": int(signs.path_hints("forum")),
        "host": int(signs.host_hints("forum")),
    }
    if sum(points.values()) >= 2:
        return PageKind("forum", tuple(name for name, point in points.items() if point), 0.8)
    return None


def _documentation(signs: PageSigns) -> PageKind | None:
    points = {
        "markup": 2 * bool(signs.declared & DOCUMENTATION),
        "program": 2 * bool(_DOCUMENTATION.search(signs.generator)),
        "elements": 2 * signs.has_class(_DOCUMENTATION_ELEMENTS),
        "address": int(signs.path_hints("documentation")),
        "host": int(signs.host_hints("documentation")),
        "code": int(signs.codes >= 2),
    }
    if (
        sum(points.values()) >= 2
        and not signs.declared & ARTICLES
        and "article:published_time" not in signs.document.metas
    ):
        return PageKind("documentation", tuple(name for name, point in points.items() if point), 0.75)
    return None


def _posting(signs: PageSigns) -> PageKind | None:
    """Recognise an advertised job without markup. The extractor of postings reads on: this is only the clear case."""
    if (
        not signs.has_apply_control
        or signs.cards.count >= LEAST_CARDS
        or signs.declared & VETO
        or signs.og_type == "article"
    ):
        return None
    if signs.path_hints("posting") and EMPLOYMENT.search(signs.document.text):
        return PageKind("posting", ("control to apply", "words of employment", "address"), 0.7)
    return None


def _article(signs: PageSigns) -> PageKind | None:
    metas = signs.document.metas
    points = {
        "markup": 2 * bool(signs.declared & ARTICLES),
        "og:type": int(signs.og_type == "article"),
        "date": int("article:published_time" in metas or "datepublished" in metas),
        "author": int("author" in metas or "article:author" in metas),
        "address": int(signs.path_hints("article")),
        "prose": int(signs.prose >= LONG),
    }
    if sum(points.values()) >= 3 and signs.prose >= SOME_PROSE:
        return PageKind("article", tuple(name for name, point in points.items() if point), 0.8)
    return None


def _company(signs: PageSigns) -> PageKind | None:
    if signs.path in ("", "/") or signs.path_hints("company") or signs.declared & FIRMS:
        return PageKind("company", ("address" if not signs.declared & FIRMS else "markup:Organization",), 0.5)
    return None


_DECISIONS: tuple[Callable[[PageSigns], PageKind | None], ...] = (
    _declared, _product, _collection, _forum, _documentation, _posting, _article, _company,
)  # fmt: skip
