"""Pages made to hurt: nested, endless, bombed, mislabelled, cut anywhere. None crashes a reader, none takes long."""

import random
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from selectolax.lexbor import LexborHTMLParser

from forager.extract.html.document import Document, decoded
from forager.extract.html.limits import MOST_DEPTH, bounded
from forager.extract.text.normalise import normalise
from forager.extract.text.strings import one_line
from forager.pipelines.scrape.extractor import PageInput
from forager.pipelines.scrape.extractors import EXTRACTORS
from tests.support.shared_data import shared_data

AT = datetime(2026, 3, 4, tzinfo=UTC)
LONGEST = 5.0
"""CPU seconds a page: what the machine gives to others in between is not ours."""
MANY = 100_000

# Pages that hurt a parser before any extractor sees them: one extractor is enough.
MARKUP = {
    "nested": "<div>" * MANY,
    "nested and closed": "<div>" * MANY + "x" + "</div>" * MANY,
    "end tags in attributes": '<div x="</div>">' * MANY,
    "a quote that opens nothing": "<p '>" + "<div>" * MANY,
    "end tags of others": "<div></b>" * MANY,
    "end tags that a block hides": "<span><div></span>" * (MANY // 2),
    "end tags that a scope hides": "<div><object></div>" * (MANY // 2),
    "end tags in scripts": '<div><script>"</div>"</script>' * (MANY // 2),
    "end tags in comments": "<div><!--</div>-->" * (MANY // 2),
    "end tags in odd comments": "<div><!x</div>" * (MANY // 2),
    "end tags in no tags": "<div></5</div>" * (MANY // 2),
    "comments that are over at once": "<!-->" + "<div>" * MANY,
    "comments that end oddly": "<!-- --!>" + "<div>" * MANY,
    "markup in a title of svg": "<svg><title>" + "<div>" * MANY,
    "markup in a style of svg": "<svg><style>" + "<div>" * MANY,
    "text in svg": "<div><svg><![CDATA[</svg></div>]]></svg>" * (MANY // 2),
    "out of svg": "<svg>" + "<div/>" * MANY,
    "html in svg": "<svg><desc>" + "<path/>" * MANY,
    "html in math": "<math><mi>" + "<path/>" * MANY,
    "a script that hides its end": "<div><script><!--<script></script></div>--></script>" * (MANY // 5),
    "scripts in comments in a script": "<script>" + "<!--<script" * MANY + "-->",
    "in noscript": "<noscript>" + "<div>" * MANY,
    "misnested formatting": "<b><div></b>" * (MANY // 2),
    "formatting of many kinds": "".join(f"<b id={n}>" for n in range(5_000)) + "<p>x" * 5_000,
    "formatting left open": "<p>" + "".join(f"<b id={n}>" for n in range(5_000)) + "<p>x" * 5_000,
    "a little formatting, often": "<p>" + "".join(f"<b id={n}>" for n in range(59)) + "<p>x" * 140_000,
    "formatting of all kinds": "".join(f"<div><{t} id={n}></div>" for t in "biusb" for n in range(59)) + "<p>x" * 9_000,
    "formatting in few tags": "<p>" + "".join(f"<b id={n}>" for n in range(700)) + "<p>x" * 700,
    "formatting that a table keeps": "".join(f"<div><b id={n}><table></b></table></div>" for n in range(2_000))
    + "<p>x" * 5_000,
    "formatting that a cell keeps": "".join(f"<table><b id={n}><td></b></table>" for n in range(2_000))
    + "<p>x" * 5_000,
    "formatting that a choice keeps": "".join(f"<div><b id={n}><select></b></select></div>" for n in range(2_000))
    + "<p>x" * 5_000,
    "formatting that blocks keep": "".join(f"<b id={n}>" + "<div>" * 10 + "</b>" + "</div>" * 10 for n in range(2_000))
    + "<p>x" * 5_000,
    "empty elements in svg": "<svg>" + "<link>" * MANY,
    "cells in svg": "<svg>" + "<tr>" * MANY,
    "text in math": "<math><mi><span></mi></math>" * (MANY // 4),
    "paragraphs in math": "<math><mi><p></mi></math>" * (MANY // 4),
    "no svg": "<select><svg></select>" + "<x/>" * MANY,
    "items in items": "<dd><li>" * (MANY // 2),
    "groups of no choice": "<optgroup>" * MANY,
    "forms that leave others open": "<form><span></form>" * (MANY // 3),
    "links that end links": "<a><a></a><q></a>" * (MANY // 5),
    "tables that end tables": "<table><table></table><q></table>" * (MANY // 5),
    "headings that end headings": "<h1></h2><q></h1>" * (MANY // 4),
    "frames": "<frameset>" * MANY,
    "nested links": "<a href=x>" * MANY,
    "nested tables": "<table><tr><td>" * (MANY // 3),
    "foster parents": "<table>" + "<div>x</div>" * (MANY // 2),
    "nested lists": "<ul><li>" * (MANY // 2),
    "nested svg": "<svg><g>" * (MANY // 2),
    "templates": "<template>" * MANY,
    "an attribute of 10 MB": '<p title="' + "x" * 10_000_000 + '">y</p>',
    "100,000 attributes": "<p " + " ".join(f"a{n}=1" for n in range(MANY)) + ">y</p>",
    "many attributes, many times": ("<p " + " ".join(f"a{n}" for n in range(2_000)) + ">y</p>") * 500,
    "attributes with brackets": "<p " + " ".join(f"a{n}<" if n % 100 == 0 else f"a{n}" for n in range(MANY)) + ">y</p>",
    "attributes behind quotes": "<p " + " ".join(f"a{n}='>' b<" if n % 99 == 0 else f"a{n}" for n in range(MANY)) + ">",
    "a body for every attribute": "".join(f"<body a{n}=1>" for n in range(MANY)),
    "entities": "&amp;" * 1_000_000,
    "entities of entities": "&" + "amp;" * 500_000 + "lt;b&gt;",
    "only brackets": "<" * 2_000_000,
    "unclosed tags": "<a " * 1_000_000,
    "unclosed quotes": '<a b="' * 1_000_000,
    "unclosed comments": "<!--" * MANY,
    "unclosed scripts": "<script>" * MANY,
    "unclosed titles": "<title>" * MANY,
}  # fmt: skip

# Parts that each extractor reads in its own way.
CONTENT = {
    "things in things": '<i itemscope itemtype="http://schema.org/Person" itemprop=x>' * 30_000,
    "rdfa in rdfa": "<i typeof=Person property=x>" * 30_000,
    "json in json": '<script type="application/ld+json">' + '{"@graph":[' * 50_000 + "</script>",
    "json lists": '<script type="application/ld+json">' + "[" * MANY + "]" * MANY + "</script>",
    "json strings": '<script type="application/ld+json">{"@type":"JobPosting","title":"' + "\\" * 999_999 + "</script>",
    "json comments": '<script type="application/ld+json">' + "/*" * 300_000 + "</script>",
    "one long line": "<p>" + "1 " * 2_000_000 + "</p>",
    "digits": "<p>" + "1" * 2_000_000 + "</p>",
    "phones": "<p>+49 30 901820 </p>" * 20_000,
    "addresses": "<p>12 Elm St</p><p>Dayton, OH 45402</p>" * 10_000,
    "mail": "<p>" + "a@b." * 200_000 + "</p>",
    "copyright": "<p>© 2026 " + "Inc. Ltd. " * 30_000 + "</p>",
    "labels": "<p>Location: " * 30_000,
    "title": "<title>" + "a - b | " * 200_000 + "</title><h1>a</h1>" + "<p>text</p>" * 200,
    "links": '<a href="/contact' + "?" * 500 + '">c</a>' * 10_000,
    "bad urls": '<base href="http://[::"><a href="http://[:::]/">x</a>' * 1_000,
    "nul": "\0<p>\0x\0</p>" * 10_000,
    "surrogates": "<p>\ud800\udfff</p>" * 1_000,
}  # fmt: skip


BOMBS = MARKUP | CONTENT


@pytest.mark.parametrize("name", BOMBS)
def test_a_page_made_to_hurt_is_read_in_time__S6(name: str) -> None:
    for extractor in EXTRACTORS[-1:] if name in MARKUP else EXTRACTORS:
        began = time.process_time()
        extracted = extractor.parse(PageInput("https://hostile.example/", BOMBS[name], 200, AT), extractor.fields)
        normalise(extractor.output, {field: found.value for field, found in extracted.fields.items()})
        assert time.process_time() - began <= LONGEST, f"{extractor.name} took too long"


SAMPLE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Fitter - Brass & Bell</title>
<script type="application/ld+json">{"@type":"JobPosting","title":"Fitter",
"hiringOrganization":{"name":"Brass"}}</script>
</head><body><div itemscope itemtype="https://schema.org/Organization"><b itemprop="name">Brass</b></div><h1>Fitter</h1>
<dl><dt>Location:<dd>Köln, Germany</dl><table><tr><td>Tel: +49 221 2210<td>a@brass.example</table><p>© Brass GmbH</p>"""


def damaged() -> Iterator[bytes]:
    """The sample cut, doubled, shuffled, with bytes of any value, in undeclared encodings."""
    dice = random.Random(6)
    whole = SAMPLE.encode()
    for _ in range(60):
        yield whole[: dice.randrange(len(whole))]
        yield whole[dice.randrange(len(whole)) :]
        wounded = bytearray(whole)
        for _ in range(dice.randrange(1, 80)):
            wounded[dice.randrange(len(whole))] = dice.randrange(256)
        yield bytes(wounded)
    for encoding in ("utf-16", "utf-32", "utf-7", "cp1251", "shift_jis", "koi8-r", "latin-1", "cp037", "gb18030"):
        yield SAMPLE.encode(encoding, "replace")
        yield b"\xef\xbb\xbf" + SAMPLE.encode(encoding, "replace")
        yield SAMPLE.replace("utf-8", encoding).encode("utf-8")
    yield SAMPLE.replace("utf-8", "no-such-encoding").encode("latin-1")
    yield bytes(dice.randrange(256) for _ in range(20_000))


def test_damaged_pages_crash_no_reader__S6() -> None:
    pages = list(damaged())
    assert len(pages) + len(BOMBS) >= 200
    for page in pages:
        for extractor in EXTRACTORS:
            extracted = extractor.parse(PageInput("https://hostile.example/", page, 200, AT), extractor.fields)
            normalise(extractor.output, {field: found.value for field, found in extracted.fields.items()})


def test_an_ordinary_page_costs_at_most_twice_what_parsing_it_costs() -> None:
    row = '<div class="row item"><a href="/p/1?a=2"><img src="/i.png"></a><i class="icon"></i><span>text</span></div>'
    page = "<html><body><script>" + "x = 1;" * 400 + "</script>" + row * 150 + "</body></html>"
    assert 18_000 < len(page) < 22_000
    checked, parsed = [], []
    for _ in range(50):
        began = time.process_time_ns()
        assert bounded(page) is page
        checked.append(time.process_time_ns() - began)
        LexborHTMLParser(page)
        parsed.append(time.process_time_ns() - began - checked[-1])
    assert min(checked) <= 2 * min(parsed)


def test_a_page_like_others_is_left_as_it_is() -> None:
    page = "<html><body>" + "<div><p>text <b>bold</b><ul><li>one<li>two</ul></div>" * 3_000 + "</body></html>"
    assert bounded(page) == page


def test_unclosed_paragraphs_cells_and_items_are_no_depth() -> None:
    page = "<table>" + "<tr><td>a<td><p>b<p>c<ul><li>d<li>e</ul>" * 2_000 + "</table>"
    assert bounded(page) == page


def test_drawings_and_scripts_that_write_scripts_are_no_depth() -> None:
    icon = '<svg><title>Icon</title><style>.a{}</style><g><path d="M0 0"/><circle r="1"/></g></svg>'
    script = '<script><!-- document.write("<script src=x><\\/script>") //--></script>'
    page = f"<div><a>{icon}</a><button>{icon} text</button>{script}</div>" * 1_000
    assert bounded(page) == page


def test_templates_with_comments_in_a_script_are_no_hidden_end() -> None:
    template = "<!-- state --><div></div><!-- end --><script src=x>"
    page = f"<div><script type=text/template>{template}</script></div>" * 1_000
    assert bounded(page) == page


def test_no_page_of_the_shared_set_is_taken_for_hostile() -> None:
    pages = sorted(shared_data("pages").glob("*/*.html"))
    assert len(pages) > 50
    for path in pages:
        text = decoded(path.read_bytes())
        assert bounded(text) == text, path.name


def test_a_page_beyond_reason_is_read_flat_and_keeps_its_words() -> None:
    page = "<title>T</title><h1>Head</h1>" + "<div>" * (MOST_DEPTH * 5) + "words<p>more</p><a href='/c'>link</a>"
    document = Document(page, "https://a.example/")
    assert document.title == "T"
    assert [line.text for line in document.lines] == ["Head", "words", "more", "link"]
    assert [link.url for link in document.links] == ["https://a.example/c"]


def test_text_that_hides_tags_in_entities_ends_up_without_any() -> None:
    hidden = "<b>x</b>"
    for _ in range(12):
        hidden = hidden.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        assert "<b>" not in one_line(hidden)
