"""A page of which only the beginning is parsed answers as the whole page does."""

import pytest

from forager.extract.html.document import Document, beginning_of
from forager.extract.html.structured_data import things
from forager.extract.products.parsers.base import parser
from tests.support.document_answers import answers
from tests.support.shared_data import shared_data

URL = "https://shop.example/p/7"
REST = "<div class='card'><p>Another table, $5.00</p><svg><title>icon</title></svg></div>" * 60
DATA = (
    '{"@type":"Product","name":"Oak table","brand":"Acme","sku":"A7","offers":{"price":"12.50","priceCurrency":"EUR",'
    '"availability":"https://schema.org/InStock"}}'
)
LD = f"<script type='application/ld+json'>{DATA}</script>"
SITE = '<html><head><script type=\'application/ld+json\'>{"@type":"WebSite","name":"Shop"}</script>'
SOCIAL = "<meta property='og:type' content='product'><meta property='og:title' content='Oak table large | Shop'>"
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
    "late data under a named sign": f"{SITE}</head><body><h1>A</h1>{REST}{LD.replace('+', '&plus;')}",
    "late data under an escaped letter": f"{SITE}</head><body><h1>A</h1>{REST}{LD.replace('ld+', 'l&#100;+')}",
    "late data under an unquoted name": f"{SITE}</head>{REST}<script type=application/l&#100;+json>{DATA}</script>",
    "late data under a name with a NUL": f"{SITE}</head><h1>A</h1>{REST}<script type='ld+j\0son'>{DATA}</script>",
    "late data behind a sign": f"{SITE}</head>{REST}<script id='>' type='application/ld&plus;json'>{DATA}</script>",
    "data behind an end in an attribute": f"{HEAD}<script type='ld+json' id='</script>'>{DATA}</script>{REST}",
    "data that hides its end": f"{HEAD}<script type='ld+json'>{DATA}<!--<script></script>--></script>{REST}",
    "a late meta tag with a NUL": f"{HEAD}{LD}</head><body><h1>A</h1>{REST}<me\0ta name=a content=b>",
    "a meta tag in a meta tag": f"{HEAD}{LD}<h1>A</h1><meta content='5 <meta > 4' name=a>{REST}",
    "a headline with a comment": f"{HEAD}{SOCIAL}{SITE}<h1>Oak <!-- </h1> --> table</h1>{REST}",
    "a headline with an end in an attribute": f"{HEAD}{LD}<h1>Great <span title='</h1>'>table</span></h1>{REST}",
    "a headline in a headline": f"{HEAD}{LD}<h1><div><h1>inner</h1> outer</div></h1>{REST}",
    "a headline with a table": f"{HEAD}{LD}<h1>Great<table></h1><tr><td>Table</td></tr></table></h1>{REST}",
    "a headline in a comment": f"{HEAD}<!-- <h1>x</h1> --><h1>Great {LD} table</h1>{REST}",
    "data in the second headline": f"{HEAD}<h1></h1><h1>Great {LD} table</h1>{REST}",
    "a headline in a template": f"{HEAD}{LD}<template><h1>x</h1></template>{REST}<h1>Oak table</h1>",
    "a meta tag in a title": f"<html><head>{LD}<title>Use <meta> well</title></head><body>{REST}",
    "the language in a late tag": f"<html><head>{LD}</head><body><h1>A</h1>{REST}<html lang=de>",
    "a table that is open": f"{HEAD}<table><tr><td><link rel=canonical href=/b>{LD}{REST}</td></tr>"
    "<link rel=canonical href=/a></table>",
    "frames in place of the body": f"<html><h1></h1>{LD}{'<div></div>' * 400}<frameset><frame>",
    "data in a picture": f"{HEAD}<svg><script type='ld+json'>[{DATA}<script></script>{' ' * 6_000}]</script></svg>",
    "a canonical link in the body": f"{HEAD}{LD}</head><body><h1>A</h1>{REST}<link rel=canonical href=/p/8>",
}


@pytest.mark.parametrize("html", PAGES.values(), ids=PAGES.keys())
def test_every_answer_is_that_of_the_whole_page(html: str) -> None:
    assert answers(Document(html, URL, markup_first=True)) == answers(Document(html, URL))


def test_every_answer_about_real_pages_is_that_of_the_whole_page() -> None:
    compared = 0
    for path in sorted(shared_data("pages").glob("*/*.html")):
        document = Document(path.read_bytes(), URL, markup_first=True)
        if beginning_of(document.source, document.lowered, document.marks) is not None:
            assert answers(document) == answers(Document(document.source, URL)), path.name
            compared += 1
    assert compared >= 3


@pytest.mark.parametrize("sign", ["=", " = ", "\n="])
def test_rdfa_is_read_whatever_stands_before_the_sign(sign: str) -> None:
    html = f'<div vocab="https://schema.org/" typeof{sign}"Product"><b property="name">Oak table</b></div>'

    (thing,) = things(Document(html, URL))

    assert (thing.source, thing.text("name")) == ("rdfa", "Oak table")


def test_a_page_is_parsed_only_up_to_the_end_of_markup_at_its_beginning() -> None:
    shown = PAGES["plain"].replace("<h1>Oak table</h1>", "<h1>Oak table</h1><p>Acme, article A7</p>")  # decision 0111
    document = Document(shown, URL, markup_first=True)

    found = parser.read(document)

    assert (found.get("product_name"), str(found.get("price"))) == ("Oak table", "12.50")
    assert document.beginning.css_first("h1") is not None
    assert document.beginning.css_first("div.card") is None
    assert "tree" not in vars(document)


def test_a_page_is_parsed_only_up_to_the_end_of_markup_in_its_head() -> None:
    document = Document(PAGES["no headline"], URL, markup_first=True)

    assert document.beginning.css_first("div.card") is None


def test_without_the_wish_the_whole_page_is_parsed_once() -> None:
    document = Document(PAGES["plain"], URL)

    assert document.beginning is document.tree
