"""A page of which only the beginning is parsed answers as the whole page does."""

import pytest

from forager.extract.document import Document
from forager.extract.products.missing import says_missing
from forager.extract.products.parsers.base import parser

URL = "https://shop.example/p/7"
REST = "<div class='card'><p>Another table, $5.00</p><svg><title>icon</title></svg></div>" * 60
DATA = (
    '{"@type":"Product","name":"Oak table","sku":"A7","offers":{"price":"12.50","priceCurrency":"EUR",'
    '"availability":"https://schema.org/InStock"}}'
)
LD = f"<script type='application/ld+json'>{DATA}</script>"
HEAD = "<!doctype html><html lang='en'><head><title>Oak table</title>"

PAGES = {
    "plain": f"{HEAD}{LD}</head><body><h1>Oak table</h1>{REST}",
    "no headline": f"{HEAD}{LD}</head><body>{REST}",
    "headline in a script": f"{HEAD}<script>var a='<h1>Not this</h1>'</script>{LD}</head><body>{REST}<h1>Late</h1>",
    "empty headline first": f"{HEAD}{LD}</head><body><h1> </h1>{REST}<h1>The second one</h1>",
    "headline without an end": f"{HEAD}{LD}</head><body><h1>Oak table{REST}",
    "upper case": f"{HEAD}{LD.replace('script', 'SCRIPT')}</HEAD><BODY><H1>Oak <B>table</B></H1>{REST}",
    "data at the end": f"{HEAD}</head><body><h1>Oak table</h1>{REST}{LD}",
    "data at both ends": f"{HEAD}{LD}</head><body><h1>Oak table</h1>{REST}{LD.replace('12.50', '99.00')}",
    "data in an attribute": f'{HEAD}{LD}</head><body><h1>Oak table</h1><p title="{LD.replace("12.50", "1")}">{REST}',
    "data in a comment": f"{HEAD}{LD}</head><body><h1>Oak table</h1><!-- {LD.replace('12.50', '1')} -->{REST}",
    "data under an escaped name": f"{HEAD}{LD}</head><body><h1>A</h1>{REST}{LD.replace('+', '&#43;')}",
    "data that never ends": f"{HEAD}</head><body><h1>Oak table</h1>{REST[:400]}{LD[:-9]}{REST}",
    "a sign in a meta tag": f"{HEAD}{LD}<meta content='5 > 4 <b>' property='og:title'></head><body><h1>A</h1>{REST}",
    "a meta tag in the body": f"{HEAD}{LD}</head><body><h1>A</h1>{REST}<meta property='og:brand' content='Harbour'>",
    "a base in the body": f"{HEAD}{LD}</head><body><h1>A</h1>{REST}<base href='https://other.example/'>",
    "microdata": f"{HEAD}{LD}</head><body><h1>A</h1>{REST}<p itemscope itemtype='http://schema.org/Product'>"
    "<b itemprop='name'>Oak table</b><b itemprop='price'>12.50</b></p>",
    "properties alone": f"{HEAD}{LD.replace('sku', 'x')}</head><body><h1>A</h1>{REST}<b itemprop='sku'>77</b>",
    "a title in the body": f"<html><head>{LD}</head><body><h1>A</h1>{REST}<title>Late</title>",
    "a soft 404": f"<html><head><title>Product not found</title>{LD}</head><body><h1>A</h1>{REST}",
    "letters that grow": f"{HEAD}{LD}</head><body><h1>İİİİ table</h1>{REST}<meta property='og:brand' content='İ'>",
    "no price in the data": f"{HEAD}{LD.replace('price', 'x')}</head><body><h1>Oak table</h1><p>€ 7.00</p>{REST}",
    "a canonical link in the body": f"{HEAD}{LD}</head><body><h1>A</h1>{REST}<link rel=canonical href=/p/8>",
}


@pytest.mark.parametrize("html", PAGES.values(), ids=PAGES.keys())
def test_every_answer_is_that_of_the_whole_page(html: str) -> None:
    assert _answers(Document(html, URL, markup_first=True)) == _answers(Document(html, URL))


def test_a_page_whose_markup_comes_first_is_parsed_only_as_far_as_that() -> None:
    document = Document(PAGES["plain"], URL, markup_first=True)

    found = parser.read(document)

    assert (found.get("product_name"), str(found.get("price"))) == ("Oak table", "12.50")
    assert document.beginning.css_first("h1") is not None
    assert document.beginning.css_first("div.card") is None
    assert "tree" not in vars(document)


def test_without_the_wish_the_whole_page_is_parsed_once() -> None:
    document = Document(PAGES["plain"], URL)

    assert document.beginning is document.tree


def _answers(document: Document) -> tuple[object, ...]:
    return (
        says_missing(document),
        parser.read(document),
        document.title,
        document.headline,
        document.metas,
        document.base,
        document.canonical,
        document.language,
    )
