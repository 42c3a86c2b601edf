"""Structured data: JSON-LD, however broken; microdata and RDFa in the same shape; labels and lines of text."""

import json
import re
from typing import Any

import pytest

from forager.core.reading import care
from forager.extract.html.document import Document, decoded
from forager.extract.html.limits import MOST_DEPTH, MOST_MARKED, MOST_MARKED_DEPTH, bounded
from forager.extract.html.main_text import labelled
from forager.extract.html.structured_data import loads_tolerantly, of_type, things, values_by_key
from forager.extract.products.parsers import base
from tests.support.shared_data import shared_data


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1}',
        '\ufeff {"a": 1} ',
        '<!-- {"a": 1} -->',
        '//<![CDATA[\n{"a": 1}\n//]]>',
        '/* c */ {"a": 1, // x\n}',
        '{"a": 1}}',
        '{"a": 1};',
        '{"a": 1,\n//"b": 2\n}',
    ],
)
def test_json_as_pages_hold_it_is_read(text: str) -> None:
    assert loads_tolerantly(text) == {"a": 1}


def test_strings_are_left_alone_when_json_is_mended() -> None:
    assert loads_tolerantly('{"a": "http://x//y /* no */ ,}", /* c */ "b": "\\d"}') == {
        "a": "http://x//y /* no */ ,}",
        "b": "\\d",
    }
    assert loads_tolerantly("not json") is None
    assert loads_tolerantly("") is None


def test_broken_json_ld_of_real_pages_is_read_as_published() -> None:
    cases = json.loads(shared_data("structured-data", "jsonld_broken_cases.json").read_text())
    assert len(cases) >= 7
    for case in cases:
        scripts = Document(case["html"]).tree.css("script[type='application/ld+json']")
        read = [loads_tolerantly(script.text()) for script in scripts]
        assert read in (case["expected_jsonld"], [case["expected_jsonld"]]), case["name"]


def test_a_graph_is_one_level_and_references_are_followed() -> None:
    page = """<script type="application/ld+json">{"@graph":[{"@id":"#o","@type":"Organization","name":"O"},
    {"@type":"https://schema.org/JobPosting","title":"T","hiringOrganization":{"@id":"#o"}}]}</script>"""
    (posting,) = of_type(things(Document(page)), "JobPosting")
    assert posting.depth == 0
    assert posting.text("hiringOrganization") == "O"


@pytest.mark.parametrize("form", ["microdata", "rdfa"])
def test_the_examples_of_schema_org_are_read_the_same_in_every_form(form: str) -> None:
    examples = json.loads(shared_data("structured-data", "schemaorg_examples.json").read_text())
    wanted = {"JobPosting", "Organization", "Person", "LocalBusiness", "Restaurant"}
    asked = agreed = 0
    for example in examples:
        said, other = _facts(example.get("jsonld") or "", wanted), _facts(example.get(form) or "", wanted)
        if other:  # some examples have one form only
            asked += len(said)
            agreed += len(said & other)
    assert asked >= 20
    assert agreed / asked >= 0.9


BEYOND_REASON = {
    "too deep": "<div>" * (MOST_DEPTH * 5),
    "markup in the title of a drawing": "<svg><title><!----></title></svg>" + "<!-- x -->" * 4_000,
    "deep and unclosed in the item": "",
}
MARKED = """<table><tr><td itemscope itemtype="https://schema.org/Product">{deep}<h1 itemprop="name">Kettle</h1>
<p itemprop="description">Boils<p><img itemprop="image" src="/k.jpg"><time itemprop="releaseDate" datetime="2026-03-04">
yesterday</time><div itemprop="offers" itemscope itemtype="https://schema.org/Offer"><b>Only</b>
<span itemprop="price">20.50</span><em itemprop="priceCurrency" content="EUR">€</em></div>
<li itemprop="brand" itemscope itemtype="https://schema.org/Brand"><i itemprop="name">Acme</i></table>
<p itemscope itemtype="https://schema.org/Person"><b itemprop="name">Jo</b>"""


@pytest.mark.parametrize("reason", BEYOND_REASON)
@pytest.mark.parametrize("form", ["microdata", "rdfa"])
def test_a_page_that_is_read_flat_keeps_its_microdata_and_rdfa(reason: str, form: str) -> None:
    deep = "<div><b>" * MOST_DEPTH * 3 if not BEYOND_REASON[reason] else ""
    marked = MARKED.format(deep=deep)
    if form == "rdfa":
        marked = re.sub(r'itemscope itemtype="https://schema.org/(\w+)"', r'typeof="schema:\1"', marked)
        marked = marked.replace("itemprop=", "property=")
    page = f"<title>T</title>{BEYOND_REASON[reason]}{marked}"
    document = Document(page, "https://a.example/")
    assert document.bounded != document.source
    (product,) = of_type(things(document), "Product")
    assert product.source == form
    assert product.text("name") == "Kettle"
    assert product.text("description") == "Boils"
    assert product.get("image") == "https://a.example/k.jpg"
    assert product.get("releaseDate") == "2026-03-04"
    assert product.text("brand") == "Acme"
    (offer,) = of_type(things(document), "Offer")
    assert (offer.text("price"), offer.text("priceCurrency")) == ("20.50", "EUR")
    (person,) = of_type(things(document), "Person")
    assert person.text("name") == "Jo"


def test_endless_microdata_in_a_page_that_is_read_flat_is_limited() -> None:
    page = "<div itemscope><span itemprop=a>x" * 60_000
    flat = Document(page).bounded
    assert flat.count("<span") <= MOST_MARKED_DEPTH
    assert bounded("<div>" * (MOST_DEPTH * 5) + "<i itemprop=a>x</i>" * 60_000).count("<span") == MOST_MARKED


def _facts(html: str, wanted: set[str]) -> set[tuple[str, str]]:
    page = html if "<" in html else f'<script type="application/ld+json">{html}</script>'
    found = [thing for thing in things(Document(page, "http://example.com/")) if thing.types & wanted]
    return {
        (name, text)
        for thing in found
        for name in ("name", "title", "telephone", "jobTitle")
        if (text := thing.text(name))
    }


def test_nested_things_belong_to_their_owner_and_comments_to_no_thing() -> None:
    page = """<div itemscope itemtype="http://schema.org/Organization"><b itemprop="name">A</b>
    <!-- <b itemprop="name">X</b> --><div itemprop="address" itemscope itemtype="http://schema.org/PostalAddress">
    <i itemprop="addressLocality">Ghent</i></div>
    <a itemprop="url" href="/home">h</a><meta itemprop="telephone" content=" 1 "></div>"""
    (thing,) = of_type(things(Document(page, "https://a.example/")), "Organization")
    assert thing.text("name") == "A"
    assert thing.data["address"]["addressLocality"] == "Ghent"
    assert (thing.data["url"], thing.data["telephone"]) == ("https://a.example/home", "1")


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("<p>Größe".encode(), "Größe"),
        ('<meta charset="latin-1"><p>Größe'.encode(), "Größe"),
        ('<meta charset="latin-1"><p>Größe'.encode("latin-1"), "Größe"),
        ('<meta charset="windows-1251"><p>Часы'.encode("cp1251"), "Часы"),
        ("<p>Größe".encode("utf-8-sig"), "Größe"),
        ("<p>Größe".encode("cp1252"), "Größe"),
    ],
)
def test_a_page_is_decoded_by_its_bytes_rather_than_by_its_declaration(body: bytes, text: str) -> None:
    assert text in Document(body).text
    assert text in decoded(body)


def test_lines_are_what_a_reader_sees() -> None:
    page = """<body><nav>Menu</nav><h1>Title <b>bold</b></h1><p>one<br>two</p><script>no</script><p hidden>no</p>
    <table><tr><th>Label</th><td>value <a href="javascript:x()">Map</a></td></tr></table><footer>© A</footer>"""
    lines = Document(page).lines
    assert [line.text for line in lines] == ["Menu", "Title bold", "one", "two", "Label", "value", "Map", "© A"]
    assert [line.area for line in lines if line.area] == ["nav", "footer"]
    assert [line.tag for line in lines if line.text in ("Label", "Map")] == ["th", "button"]


@pytest.mark.parametrize(
    "page",
    [
        "<dl><dt>Location<dd>Oban</dl>",
        "<p>Location: Oban</p>",
        "<p><b>Location</b></p><p>Oban</p>",
        "<h3>Location:</h3><p>Oban</p>",
        "<table><tr><th>Location (main)</th><td><a href='javascript:m()'>Map</a> Oban</td></tr></table>",
    ],
)
def test_a_label_is_known_in_many_layouts(page: str) -> None:
    found = list(labelled(Document(page), "location"))
    assert [(one.value, one.sure) for one in found] == [("Oban", True)]


def test_a_headline_or_another_label_is_no_value() -> None:
    assert list(labelled(Document("<h3>Location</h3><h3>Salary</h3>"), "location")) == []
    assert list(labelled(Document("<dt>Location<dt>Salary:"), "location")) == []


def test_values_are_found_by_the_names_of_their_keys_outer_first() -> None:
    tree: Any = {"x": {"JobTitle": "inner", "y": [{"job_title": "deeper"}]}, "job-title": "outer", "Name": 1}
    assert list(values_by_key(tree, "jobTitle")) == [
        ("job-title", "outer"),
        ("x.JobTitle", "inner"),
        ("x.y.job_title", "deeper"),
    ]


DATA = (
    '{"@type": "Product", "name": "Oak table", "offers": {"@type": "Offer", "price": "12.50", "priceCurrency": "EUR"}}'
)
SCRIPT = f'<script type="application/ld+json">{DATA}</script>'


@pytest.mark.parametrize(
    "before",
    [
        '<svg><title><!----></title></svg><iframe src="/map"></iframe>',
        "<svg><title><!----></title></svg><textarea>words</textarea>",
        "<svg><title><!----></svg><iframe>x</iframe><noframes>y</noframes><xmp>z</xmp>",
        "<div>" * 3_000,
        "<p " + " ".join(f"a{n}=1" for n in range(5_000)) + ">",
    ],
    ids=["frame", "field", "open title", "deep", "attributes"],
)
def test_json_ld_is_read_from_a_page_that_is_made_flat__PR_10(before: str) -> None:
    page = f"<html><head><title>Shop</title></head><body>{before}{'<p>words</p>' * 3_000}{SCRIPT}<h1>Oak table</h1>"
    document = Document(page, "https://shop.example/")
    assert document.bounded != page
    (product,) = of_type(things(document), "Product")
    assert product.text("name") == "Oak table"
    found = base.read(document)
    assert (str(found.get("price")), found.get("currency")) == ("12.50", "EUR")


def test_json_ld_in_a_comment_of_a_flat_page_is_not_read() -> None:
    page = "<div>" * 3_000 + f"<!-- {SCRIPT} -->" + "<p>words</p>" * 3_000
    document = Document(page, "https://shop.example/")
    assert document.bounded != page
    assert things(document) == ()


def test_json_ld_beyond_the_largest_page_is_read__PR_10() -> None:
    page = "<h1>Oak table</h1>" + "<p>words words</p>" * 400_000 + SCRIPT
    assert [thing.text("name") for thing in of_type(things(Document(page)), "Product")] == ["Oak table"]


@pytest.mark.parametrize("form", ["microdata", "rdfa"])
def test_microdata_beyond_the_largest_page_is_read__PR_10(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(care, "is_needed", False)  # as at a reader's first attempt
    item = '<div itemscope itemtype="https://schema.org/Product"><h2 itemprop="name">Oak table</h2></div>'
    if form == "rdfa":
        item = '<div typeof="schema:Product"><h2 property="name">Oak table</h2></div>'
    document = Document("<h1>Oak table</h1>" + "<p>words words</p>" * 400_000 + item)
    assert [thing.text("name") for thing in of_type(things(document), "Product")] == ["Oak table"]


def test_a_flat_page_keeps_the_text_behind_a_frame() -> None:
    page = "<div>" * 3_000 + "<iframe src=x></iframe><textarea>x</textarea><p>seen</p>" + "<p>words</p>" * 3_000
    assert "seen" in [line.text for line in Document(page).lines]
