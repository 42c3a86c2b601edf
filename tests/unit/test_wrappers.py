"""Learning from some pages of a shop how to read its others, and when nothing may be learnt."""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

import orjson
import pytest

from forager.extract.html.document import Document
from forager.extract.products.findings import CONFIDENCE
from forager.extract.products.learning import LearntTemplate, learn_site
from forager.extract.products.parsers import base
from forager.extract.products.wrappers import SUREST_LEARNT, bare, read_learnt, value_of
from forager.extract.schemas.template import anchors_of, fits, group_pages, name_of, shape_of

NAMES = ("Oak Table", "Walnut Lamp", "Copper Kettle", "Linen Blanket", "Slate Clock", "Cedar Shelf")
PRICES = ("1299.00", "49.50", "89.00", "129.90", "310.00", "77.25")


def markup(number: int, **instead: Any) -> str:
    told = {
        "@context": "https://schema.org",
        "@type": "Product",
        "name": NAMES[number],
        "sku": f"HW-{number}01",
        "brand": "Harbour Works",
        "offers": {
            "@type": "Offer",
            "price": PRICES[number],
            "priceCurrency": "EUR",
            "availability": "https://schema.org/InStock",
        },
        **instead,
    }
    return f"<script type='application/ld+json'>{orjson.dumps(told).decode()}</script>"


def page(number: int, *, marked: bool, head: str = "", price: str | None = None) -> str:
    """A page of the shop. Before the price stands another amount, which generic rules take for it."""
    return (
        f"<html><head><title>{NAMES[number]}</title>{markup(number) if marked else ''}{head}</head><body>"
        "<nav class='menu'><ul><li><a href='/'>Home</a></li></ul></nav><div class='goods'>"
        f"<h1 class='goods-name'>{NAMES[number]}</h1><p class='goods-crate'>€ {number}4.90</p>"
        f"<p class='goods-cost'>€ {price or PRICES[number]}</p><button>Add to cart</button>"
        f"<dl><dt>Article</dt><dd>HW-{number}01</dd><dt>Maker</dt><dd>Harbour Works</dd></dl></div>"
        "<footer class='end'><p class='imprint'>Harbour Works since 1931</p></footer></body></html>"
    )


def learnt_from(pages: Iterable[str | Mapping[str, Any]], mode: Any = "teach") -> list[LearntTemplate]:
    told = [
        {"url": f"https://shop.example/p/{number}", **({"html": each} if isinstance(each, str) else each)}
        for number, each in enumerate(pages)
    ]
    return learn_site(orjson.dumps(told), base.read, mode)


def teaching() -> list[LearntTemplate]:
    return learnt_from([page(number, marked=number < 4) for number in range(6)])


def test_marked_pages_teach_a_path_per_field_and_the_others_are_read_by_it__PR_24() -> None:
    (learnt,) = teaching()
    fields = {each.field: each for each in learnt.fields}
    assert (learnt.teachers, learnt.pages) == (4, 6)
    assert {"product_name", "price", "sku", "currency"} <= fields.keys()
    assert (fields["price"].score, fields["price"].support, fields["price"].wrong) == (1.0, 4, 0)
    document = Document(page(4, marked=False), "https://shop.example/p/4", markup_first=True)
    found = base.read(document)
    assert found.get("price") != Decimal(PRICES[4]), "the generic rules are wrong here"
    read_learnt(document, found, [learnt.as_wrapper(1)])
    assert (found.get("price"), found.get("sku"), found.get("currency")) == (Decimal(PRICES[4]), "HW-401", "EUR")
    assert (found.values["price"].source, found.values["price"].confidence) == ("learnt", SUREST_LEARNT)


def test_a_value_that_is_the_same_on_all_pages_teaches_nothing__PR_24() -> None:
    (learnt,) = teaching()
    assert "brand" not in {each.field for each in learnt.fields}, "the imprint has it on every page as well"
    assert "availability" not in {each.field for each in learnt.fields}
    constant = next(each for each in learnt.fields if each.field == "currency")
    assert (constant.path, constant.constant) == (None, "EUR")


def test_markup_stands_above_what_was_learnt__PR_24() -> None:
    (learnt,) = teaching()
    document = Document(page(5, marked=True, price="1.00"), "https://shop.example/p/5", markup_first=True)
    found = base.read(document)
    before = dict(found.values)
    read_learnt(document, found, [learnt.as_wrapper(1)])
    assert {name: found.values[name] for name in before if before[name].source == "json-ld"} == {
        name: each for name, each in before.items() if each.source == "json-ld"
    }
    assert CONFIDENCE["heuristic"] < SUREST_LEARNT < CONFIDENCE["microdata"]


def test_markup_that_the_page_does_not_show_teaches_nothing__PR_24() -> None:
    prices = ("5.00", "6.00", "7.00", "8.00")
    pages = [page(number, marked=True, price=prices[number]) for number in range(4)]
    learnt = learnt_from([*pages, page(4, marked=False)])
    assert "price" not in {each.field for template in learnt for each in template.fields}


def test_two_marked_pages_are_too_few__PR_24() -> None:
    assert learnt_from([page(number, marked=number < 2) for number in range(6)]) == []


def test_a_place_that_is_right_by_chance_fails_when_its_page_is_left_out__PR_24() -> None:
    pages = []
    for number in range(4):
        rows = [f"<li>€ {amount}</li>" for amount in PRICES[:4]]
        pages.append(
            f"<html><head>{markup(number)}</head><body><h1>{NAMES[number]}</h1><ul>{''.join(rows)}</ul></body>"
        )
    learnt = learnt_from(pages)
    scores = {each.field: each.score for template in learnt for each in template.fields}
    assert scores.get("price", 0.0) < 0.5, "each page shows its price at another place of the list"


def test_a_page_of_another_template_is_left_alone__PR_24() -> None:
    (learnt,) = teaching()
    html = "<html><body><main><h1>About us</h1><p>We make tables. € 12.00</p></main></body></html>"
    document = Document(html, "https://shop.example/about", markup_first=True)
    found = base.read(document)
    before = dict(found.values)
    assert read_learnt(document, found, [learnt.as_wrapper(1)]) is None
    assert found.values == before


def test_a_page_that_declares_another_kind_is_no_product_whatever_its_template__PR_24() -> None:
    (learnt,) = teaching()
    told = {
        "@context": "https://schema.org",
        "@type": "Article",
        "headline": "How we work",
        "articleBody": "Wood. " * 99,
    }
    head = f"<script type='application/ld+json'>{orjson.dumps(told).decode()}</script>"
    document = Document(page(4, marked=False, head=head), "https://shop.example/news/4", markup_first=True)
    found = base.read(document)
    read_learnt(document, found, [learnt.as_wrapper(1)])
    assert not found.is_product


def test_last_good_values_find_the_new_places_though_some_have_changed__PR_24() -> None:
    def moved(number: int) -> str:
        return (
            "<html><body><section class='hall'><div class='hall-head'><b>New season</b></div>"
            f"<div class='hall-name'>{NAMES[number]}</div><div class='hall-sum'>{PRICES[number]}</div>"
            f"<div class='hall-code'>HW-{number}01</div></section></body></html>"
        )

    pages = []
    for number in range(6):
        price = str(Decimal(PRICES[number]) * Decimal("0.9")) if number == 2 else PRICES[number]
        values = {"product_name": NAMES[number], "price": price, "currency": "EUR", "sku": f"HW-{number}01"}
        pages.append({"html": moved(number), "values": values})
    (learnt,) = learnt_from(pages, "heal")
    paths = {each.field: each for each in learnt.fields}
    assert (paths["price"].score, paths["price"].support, paths["price"].wrong) == (1.0, 6, 0)
    document = Document(moved(2), "https://shop.example/p/2")
    found = base.read(document)
    assert not found.is_product
    read_learnt(document, found, [learnt.as_wrapper(2)])
    assert found.is_product
    assert (found.get("price"), found.get("sku")) == (Decimal(PRICES[2]), "HW-201")


def test_pages_of_a_shop_are_grouped_by_their_template__PR_24() -> None:
    tile = "<li class='tile'><a href='/p/1'><b>Item</b></a></li>"
    lists = [f"<html><body><ul class='tiles'>{tile * number}</ul></body></html>" for number in (2, 5, 9)]
    documents = [Document(page(number, marked=number % 2 == 0)) for number in range(6)]
    documents += [Document(each) for each in lists]
    shapes = [shape_of(document) for document in documents]
    groups = group_pages(shapes)
    assert [sorted(group.members) for group in groups] == [[0, 1, 2, 3, 4, 5], [6, 7, 8]]
    anchors = anchors_of(groups[0], shapes)
    assert [fits(anchors, document) for document in documents] == [True] * 6 + [False] * 3
    assert name_of(anchors) == name_of(tuple(reversed(anchors)))


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("price", "1.299,00 €", Decimal("1299.00")),
        ("price", "free", None),
        ("price", "a long story about money, " * 9 + "12.00", None),
        ("rating", "4.5 out of 5", Decimal("4.50")),
        ("rating", "45 of 50", None),
        ("review_count", "1,204 reviews", 1204),
        ("availability", "Sold out", "out_of_stock"),
        ("gtin", "2000000000015", "2000000000015"),
        ("gtin", "2000000000016", None),
    ],
)
def test_a_text_at_a_path_is_checked_as_any_value__PR_24(name: str, text: str, value: Any) -> None:
    assert value_of(name, text) == value


def test_words_around_a_value_are_taken_away_or_it_is_not_there__PR_24() -> None:
    assert bare("No. HW-1 (new)", "No. ", " (new)") == "HW-1"
    assert bare("HW-1", "No. ", "") is None
    assert bare("No. ", "No. ", "") is None
