"""The kind of a page: one decision for all extractors and crawls, with its evidence."""

import json

import pytest

from forager.extract.html.document import Document
from forager.extract.html.page_kind import page_kind
from forager.extract.tables import any_of, spoken, table

pytestmark = pytest.mark.one_store

PROSE = "<p>" + "A sentence of a text that somebody wrote to be read, with enough words to count as one. " * 3 + "</p>"
CARD = "<li class='card'><a href='/p/{0}'>Lamp {0}</a><span class='price'>$1{0}.00</span>{1}</li>"


def ld(**data: object) -> str:
    return f"<script type='application/ld+json'>{json.dumps(data)}</script>"


def kind(body: str, url: str = "https://shop.example/x", head: str = "") -> str:
    return page_kind(Document(f"<html><head><title>Blue lamp</title>{head}</head><body>{body}</body></html>", url)).kind


def cards(count: int, inner: str = "") -> str:
    return "<ul>" + "".join(CARD.format(number, inner) for number in range(count)) + "</ul>"


PRODUCT = {
    "@type": "Product",
    "name": "Blue lamp",
    "offers": {"@type": "Offer", "price": "19.90", "priceCurrency": "EUR"},
}
ARTICLE = """<meta property='og:type' content='article'>
<meta property='article:published_time' content='2025-03-01'>"""
BUY = "<h1>Blue lamp</h1><span>$19.90</span><button>Add to cart</button>"


def test_markup_of_one_product_under_the_page_s_name_is_a_product() -> None:
    found = page_kind(Document(f"<title>Blue lamp</title>{ld(**PRODUCT)}<h1>Blue lamp</h1>", "https://shop.example/x"))
    assert (found.kind, found.evidence) == ("product", ("markup:Product with one price",))
    assert found.confidence > 0.9


def test_one_price_beside_the_one_control_to_buy_is_a_product_without_markup() -> None:
    assert kind(BUY) == "product"
    assert kind("<h1>Blue lamp</h1><span>$19.90</span>" + PROSE) != "product"


def test_the_only_product_in_the_markup_needs_no_offer_if_it_has_the_page_s_name_and_a_price_is_shown() -> None:
    presented = ld(**{"@type": "Product", "name": "Blue lamp"})
    page = "<h1>Blue lamp</h1><p>From <span>$19.90</span></p>" + PROSE * 12
    assert kind(page, "https://maker.example/blue-lamp", presented) == "product"
    assert kind("<h1>Blue lamp</h1>" + PROSE * 12, "https://maker.example/blue-lamp", presented) != "product"
    assert kind(page, "https://maker.example/", presented) != "product"
    other = ld(**{"@type": "Product", "name": "Consulting by Mars"})
    assert kind(page, "https://maker.example/blue-lamp", other) != "product"


def test_an_empty_product_of_the_template_does_not_hide_the_one_that_is_offered() -> None:
    offered = ld(**{**PRODUCT, "name": "Radiant Number Nine"})
    empty = "<div itemscope itemtype='https://schema.org/Product'></div>"
    assert kind("<h1>Light</h1>" + PROSE * 12, "https://shop.example/shop/nine", offered) == "product"
    assert kind(empty + "<h1>Light</h1>" + PROSE * 12, "https://shop.example/shop/nine", offered) == "product"


def test_recommended_products_below_do_not_make_a_product_page_a_list() -> None:
    assert kind(BUY + "<h2>Others</h2>" + cards(8)) == "product"


@pytest.mark.parametrize("button", ["", "<button>Add to cart</button>"])
def test_three_equal_blocks_with_link_and_price_are_a_collection(button: str) -> None:
    assert kind("<h1>Lamps</h1>" + cards(3, button), "https://shop.example/c/lamps") == "collection"
    assert kind("<h1>Lamps</h1>" + cards(2), "https://shop.example/c/lamps") != "collection"


def test_a_category_that_a_shop_marks_as_a_product_with_a_range_is_a_collection() -> None:
    data = {
        "@type": "Product",
        "name": "Blue lamp",
        "offers": {"@type": "AggregateOffer", "lowPrice": 5, "highPrice": 90},
    }
    assert kind(ld(**data) + "<h1>Blue lamp</h1>" + cards(6), "https://shop.example/category/lamps") == "collection"


@pytest.mark.parametrize("declared", ["Article", "TechArticle", "FAQPage", "DiscussionForumPosting", "NewsArticle"])
def test_declared_types_veto_a_product_that_is_only_guessed(declared: str) -> None:
    assert kind(ld(**{"@type": declared, "headline": "Blue lamp"}) + BUY + PROSE * 20) != "product"


def test_a_product_page_with_questions_and_answers_stays_a_product() -> None:
    faq = ld(**{"@type": "FAQPage", "mainEntity": [{"@type": "Question", "name": "Is it blue?"}]})
    assert kind(ld(**PRODUCT) + faq + BUY) == "product"


def test_a_privacy_policy_with_a_price_in_the_cart_of_the_theme_is_no_product() -> None:
    body = "<header>Cart $155.00</header><h1>Privacy Policy</h1>" + PROSE * 30
    assert kind(body, "https://shop.example/policies/privacy-policy") != "product"


@pytest.mark.parametrize(
    ("expected", "url", "head", "body"),
    [
        ("article", "https://news.example/2025/03/lamps", ARTICLE, "<h1>Blue lamp</h1>" + PROSE * 12),
        ("documentation", "https://docs.example.com/reference/lamps", "", "<pre>a</pre><pre>b</pre>" + PROSE),
        ("forum", "https://forum.example.com/t/blue-lamps/12", "<meta name='generator' content='Discourse 3'>", PROSE),
        ("posting", "https://a.example/", "", ld(**{"@type": "JobPosting", "title": "Nurse"}) + PROSE),
        ("listing", "https://a.example/", "", ld(**{"@type": "Apartment", "name": "Flat"}) + PROSE),
        ("collection", "https://a.example/x", "<meta property='og:type' content='product.group'>", BUY),
    ],
)  # fmt: skip
def test_other_kinds_are_distinguished(expected: str, url: str, head: str, body: str) -> None:
    assert kind(body, url, head) == expected


def test_the_words_of_forty_languages_have_every_matter() -> None:
    matters = {
        "buy",
        "price",
        "in_stock",
        "out_of_stock",
        "apply",
        "employment",
        "rent",
        "sale",
        "rooms",
        "area",
        "sku",
        "brand",
    }
    languages = table("languages")
    assert len(languages) >= 30
    assert all(language.keys() == matters and all(language.values()) for language in languages.values())


@pytest.mark.parametrize(
    "word", ["カートに入れる", "в корзину", "Sepete Ekle", "thêm vào giỏ hàng", "أضف إلى السلة", "V košarico"]
)
def test_a_control_to_buy_is_recognised_in_many_languages(word: str) -> None:
    assert kind(f"<h1>Blue lamp</h1><span>€ 19</span><button>{word}</button>") == "product"


def test_words_are_whole_words_where_the_script_has_blanks() -> None:
    buy = any_of(spoken("buy"))
    assert [text for text in ("kup", "Kup teraz!", "kupon", "skup") if buy.search(text)] == ["kup", "Kup teraz!"]
    assert buy.search("立即加入购物车吧")


@pytest.mark.parametrize("matter", ["buy", "in_stock", "out_of_stock", "apply", "sku", "brand", "rent", "sale"])
def test_every_word_of_every_language_is_found_alone_in_a_sentence_and_in_capitals(matter: str) -> None:
    found = any_of(spoken(matter))
    for language in table("languages").values():
        for word in language[matter]:
            assert found.fullmatch(word), word
            assert found.search(f"– {word.upper()} –"), word


def test_a_count_of_one_and_words_of_the_header_do_not_make_a_product_page_a_list() -> None:
    header = "<header><a href='/help'>Buy now</a><button>Add to cart</button><i>1 product</i></header>"
    assert kind(header + "<p>1 product</p>" + BUY) == "product"
    assert kind("<p>24 products</p>" + cards(6, "<button>Add to cart</button>")) == "collection"


@pytest.mark.parametrize("path", ["/p-blue-lamp-14347.html", "/blue-lamp-p03697272.html", "/termek/blue_lamp_of_ida"])
def test_an_address_of_one_product_counts_in_many_forms(path: str) -> None:
    page = "<h1>Blue lamp</h1><span>$19.90</span><h2>Similar</h2>" + cards(4, "<button>Add to cart</button>")
    assert kind(page, f"https://shop.example{path}") == "product"
    assert kind(page, "https://shop.example/lamps/blue") == "collection"


LITTLE = "<h1>Blue lamp</h1><table><tr><th>SKU</th><td>L-1</td></tr><tr><th>Brand</th><td>Ida</td></tr></table>"


@pytest.mark.parametrize(
    ("attributes", "found"),
    [
        ("class='single single-product woocommerce'", "product"),  # WooCommerce
        ("class='catalog-product-view page-layout-1column'", "product"),  # Magento
        ("class='gradient template-product'", "product"),  # Shopify
        ("id='product' class='lang-fr'", "product"),  # PrestaShop
        ("class='is-ctl-product is-act-index'", "product"),  # Shopware
        ("class='html-product-details-page'", "product"),  # nopCommerce
        ("class='single single-post'", "other"),
        ("class='text-bold'", "other"),
    ],
)
def test_the_template_that_a_shop_program_names_decides_for_a_page_without_markup(attributes: str, found: str) -> None:
    page = f"<html><title>Blue lamp</title><body {attributes}>{LITTLE}</body></html>"
    assert page_kind(Document(page, "https://shop.example/blue-lamp")).kind == found


def test_the_template_of_a_product_alone_is_not_enough() -> None:
    page = f"<html><title>Our products</title><body class='product-page'><h1>Our products</h1>{PROSE}</body></html>"
    assert page_kind(Document(page, "https://software.example/platform")).kind != "product"


@pytest.mark.parametrize("template", ["template-page", "cms-page-view", "tax-product_cat", "template-collection"])
def test_a_text_or_a_category_with_prices_of_products_is_no_product(template: str) -> None:
    prices = "<p>Orders over <b>$155.00</b></p>" + cards(3, "<button>Add to cart</button>")
    page = f"<title>Privacy Policy</title><body class='{template}'><h1>Privacy Policy</h1>{PROSE}{prices}</body>"
    assert page_kind(Document(page, "https://shop.example/x")).kind != "product"


@pytest.mark.parametrize("beside", [{"@type": "FAQPage"}, {"@type": "VideoObject", "name": "Blue lamp, the film"}])
def test_questions_and_films_beside_the_one_control_to_buy_are_about_the_product(beside: dict[str, str]) -> None:
    assert kind(ld(**beside) + BUY + PROSE) == "product"
    assert kind(ld(**beside) + "<h1>Blue lamp</h1>" + PROSE) != "product"
    assert kind(ld(**beside) + BUY + PROSE, "https://shop.example/faq/blue-lamp") != "product"
