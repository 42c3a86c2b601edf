"""Markdown of pages: every kind of element, hidden text, options, and text that a CommonMark parser reads as meant."""

import gc
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from forager.core.reading import care
from forager.extract.html.document import Document
from forager.extract.html.main_text import main_text
from forager.extract.html.markdown import MarkdownOptions, footnotes, write_markdown
from forager.extract.html.visible_tree import visible_tree

URL = "https://site.example/guide/page.html"
PROSE = (
    "<p>The heron stands in the shallow water for an hour without a move, and then it strikes faster than an eye can "
    "follow. Fishermen by the river have watched it for years, and none of them has seen it miss.</p>"
)

PLAIN_PROSE = PROSE.removeprefix("<p>").removesuffix("</p>")


def written(html: str, options: MarkdownOptions | None = None) -> str:
    """All of a page as Markdown, without the choice of its main content."""
    document = Document(html, URL)
    body = visible_tree(document.tree)
    parts = write_markdown(body, document.absolute, options or MarkdownOptions(), footnotes(body))
    return parts.within(options.max_tokens if options else None)


def test_links_and_pictures_are_resolved_against_the_page_and_its_base() -> None:
    assert (
        written('<p>See <a href="next.html">the next</a>.') == "See [the next](https://site.example/guide/next.html)."
    )
    page = '<base href="/other/"><p>See <a href="next.html">it</a> <img src="a (1).png" alt="A [b]">'
    assert written(page) == (
        "See [it](https://site.example/other/next.html) ![A \\[b\\]](https://site.example/other/a%20%281%29.png)"
    )


def test_headings_keep_their_level_and_empty_ones_are_left_out() -> None:
    page = '<h1>One</h1><h2></h2><h2><img src="data:x"></h2><h3>Three <a href="#three">#</a></h3>'
    assert written(page) == "# One\n\n### Three"


def test_lists_are_nested_and_two_neighbours_stay_two_lists() -> None:
    page = "<ul><li>a<ul><li>b</ul><li>c</ul><ul><li>d</ul><ol start=3><li><p>x<p>y<li>z</ol>"
    assert written(page) == "- a\n  - b\n- c\n\n* d\n\n3. x\n\n   y\n\n4. z"


def test_a_table_keeps_links_lists_and_spans_in_its_cells() -> None:
    page = (
        "<table><tr><th>Name<th>What<tr><td><a href=/a>A</a><td><ul><li>one<li>two|three</ul>"
        "<tr><td colspan=2>both</table>"
    )
    assert written(page) == (
        "| Name | What |\n| --- | --- |\n| [A](https://site.example/a) | - one<br>- two\\|three |\n| both |  |"
    )


def test_a_table_that_arranges_the_page_is_written_as_its_content() -> None:
    assert written("<table><tr><td><h2>Head</h2><p>Text<td>Side</table>") == "## Head\n\nText\n\nSide"


def test_quotes_code_and_rules_are_kept() -> None:
    page = (
        "<blockquote><p>One<p>Two</blockquote><hr>"
        '<div class="highlight-python"><pre><span class="lineno">1</span>def f():\n    return "```"\n</pre></div>'
        '<pre><code class="language-js">a\nb</code></pre><p>Use <code>x`y</code>.'
    )
    assert written(page) == (
        '> One\n>\n> Two\n\n---\n\n````python\ndef f():\n    return "```"\n````\n\n```js\na\nb\n```\n\nUse ``x`y``.'
    )


def test_code_whose_lines_are_elements_keeps_its_lines() -> None:
    assert written("<pre><div>one</div><div>two</div></pre>") == "```\none\ntwo\n```"
    assert written("<pre>one<br>two</pre>") == "```\none\ntwo\n```"


def test_definition_lists_are_items_with_bold_terms() -> None:
    assert written("<dl><dt>Heron<dd>A bird.<dt>Carp<dd>A fish.</dl>") == "- **Heron**: A bird.\n- **Carp**: A fish."


def test_footnotes_are_references_and_notes_at_the_end() -> None:
    page = (
        '<p>Herons wait<sup><a href="#fn1">1</a></sup> long.'
        '<ol><li id="fn1"><p>As seen in 1998. <a href="#r1">↩</a></ol>'
    )
    assert written(page) == "Herons wait[^1] long.\n\n[^1]: As seen in 1998."


def test_formulas_are_text() -> None:
    page = (
        "<p>So <math><semantics><mi>x</mi><annotation encoding='application/x-tex'>x^2</annotation></semantics></math>."
    )
    assert written(page) == "So $x^2$."
    assert written("<p><math><mi>a</mi><mo>+</mo><mi>b</mi></math>") == "$a + b$"
    half = "<math><mfrac><mrow><mi>a</mi><mo>+</mo><mi>b</mi></mrow><mn>2</mn></mfrac></math>"
    assert written(f"<p>{half}") == "$(a + b)/2$"
    assert (
        written("<p><math><msup><mi>x</mi><mn>2</mn></msup><mo>=</mo><msqrt><mi>y</mi></msqrt></math>")
        == "$x^2 = √(y)$"
    )
    assert written("<p><math>" + "<mrow>" * 3_000 + "<mi>x</mi></math> end").endswith(" end")


def test_powers_and_indexes_stay_what_they_are() -> None:
    assert written("<p>10<sup>6</sup> l of H<sub>2</sub>O") == "10<sup>6</sup> l of H<sub>2</sub>O"
    assert written("<p>the 4<sup>th</sup> and ®<sup>®</sup>") == "the 4th and ®®"


def test_a_table_keeps_its_caption() -> None:
    page = "<table><caption>Prices</caption><tr><th>A<th>B<tr><td>1<td>2</table>"
    assert written(page) == "Prices\n\n| A | B |\n| --- | --- |\n| 1 | 2 |"


def test_the_question_of_an_accordion_is_bold() -> None:
    assert written("<details><summary>How <b>long</b>?</summary><p>Two days.</details>") == (
        "**How long?**\n\nTwo days."
    )


def test_who_is_quoted_stands_in_a_line_of_its_own() -> None:
    page = "<blockquote><cite>ann wrote:</cite>It is loud</blockquote>"
    assert written(page) == "> *ann wrote:*\n>\n> It is loud"
    assert written("<blockquote><cite>Ulysses</cite> is long</blockquote>") == "> *Ulysses* is long"


@pytest.mark.parametrize(
    "hidden",
    [
        "<p hidden>secret",
        "<p style='color:red; display : none'>secret",
        "<p style='visibility:hidden'>secret",
        "<span aria-hidden=true>secret</span>",
        "<p class='note away'>secret",
        "<p id=gone>secret",
        "<span class='sr-only'>secret</span>",
        "<dialog>secret</dialog>",
        "<template><p>secret</template>",
        "<button>secret</button>",
    ],
)
def test_hidden_text_is_left_out(hidden: str) -> None:
    style = "<style>/* x */ .away , #gone{display:none} @media print{.shown{display:none}} .back{display:none} "
    page = f"{style}.back{{display:block}}</style><div>{hidden}</div><p class=shown>seen<p class=back>again"
    assert written(page) == "seen\n\nagain"


def test_a_page_that_scripts_would_show_is_not_hidden_by_its_style() -> None:
    assert written(f"<div style='visibility:hidden'>{PROSE}</div><p>x").startswith("The heron")


@pytest.mark.parametrize("care_is_needed", [True, False])
def test_a_page_that_scripts_draw_is_read_from_what_it_shows_without_them(
    care_is_needed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(care, "is_needed", care_is_needed)
    posts = f"<div class=post>{PROSE}</div><div class=post>{PROSE}</div>"
    page = f"<title>Herons</title><body><div id=app></div><noscript><main>{posts}</main></noscript>"

    assert main_text(Document(page, URL), "text") == "\n".join([PLAIN_PROSE] * 2)
    assert (main_text(Document(page, URL), "markdown") or "").startswith("# Herons\n\nThe heron stands")


def test_a_request_to_switch_scripts_on_is_no_text() -> None:
    pixel = "<noscript><img src=/pixel.gif></noscript>"
    assert written(f"<p>Text of the page.</p><noscript>Please switch JavaScript on.</noscript>{pixel}") == (
        "Text of the page."
    )


def test_text_that_is_no_markup_stays_text() -> None:
    text = "# 1. *a* _b_ [c](d) `e` <f> &amp;amp; ~~g~~ \\h"
    assert "<p>" + MarkdownIt("commonmark").render(written(f"<p>{text.replace('<', '&lt;')}")).split("<p>")[1] == (
        "<p># 1. *a* _b_ [c](d) `e` &lt;f&gt; &amp;amp; ~~g~~ \\h</p>\n"
    )
    for line in ("- a", "+ a", "1. a", "2) a", "> a", "# a", "===", "---"):
        shown = MarkdownIt("commonmark").render(written(f"<p>{line.replace('>', '&gt;')}</p>"))
        assert shown == f"<p>{line.replace('>', '&gt;')}</p>\n"


def test_emphasis_is_written_where_markdown_can_express_it() -> None:
    assert written("<p>a <b>bold </b>word, <em>so</em>, <b>(x)</b>y, <b><b>twice</b></b> <b></b>.") == (
        "a **bold** word, *so*, (x)y, **twice** ."
    )


def test_a_card_that_is_a_link_links_its_title() -> None:
    assert written("<a href=/p><div><h3>Kettle</h3><p>20 €</div></a>") == (
        "### [Kettle](https://site.example/p)\n\n20 €"
    )


def test_options_for_links_pictures_and_size() -> None:
    page = '<p>a <a href="/x">b</a> <a href="/x">c</a> <img src="/i.png" alt="I"><p>second block<p>third'
    assert written(page, MarkdownOptions(links="references", images=False)).split("\n\n") == [
        "a [b][1] [c][1]",
        "second block",
        "third",
        "[1]: https://site.example/x",
    ]
    assert written(page, MarkdownOptions(links="none", images=False, max_tokens=5)) == "a b c\n\nsecond block"
    assert written("<p>one two three four", MarkdownOptions(max_tokens=2)) == "one two"
    with pytest.raises(ValueError, match="max_tokens"):
        MarkdownOptions(max_tokens=0)


def test_a_cut_text_keeps_the_addresses_and_notes_that_it_refers_to_and_no_others() -> None:
    page = (
        '<p>one <a href="/x">two</a><a href="#fn1">1</a></p><p>three <a href="/y">four</a></p><p>five</p>'
        '<ol><li id="fn1">The <a href="/z">note</a></li></ol>'
    )
    whole = written(page, MarkdownOptions(links="references"))
    assert whole.split("\n\n") == [
        "one [two][1][^1]",
        "three [four][2]",
        "five",
        "[^1]: The [note][3]",
        "[1]: https://site.example/x\n[2]: https://site.example/y\n[3]: https://site.example/z",
    ]
    cut = written(page, MarkdownOptions(links="references", max_tokens=28))
    assert cut.split("\n\n") == [
        "one [two][1][^1]",
        "[^1]: The [note][3]",
        "[1]: https://site.example/x\n[3]: https://site.example/z",
    ]
    assert written(page, MarkdownOptions(links="references", max_tokens=1_000)) == whole


def test_a_list_a_table_or_code_that_does_not_fit_keeps_the_lines_that_do() -> None:
    items = "".join(f"<li>item number {number}</li>" for number in range(100))
    assert (
        written(f"<p>A</p><ul>{items}</ul>", MarkdownOptions(max_tokens=10)) == "A\n\n- item number 0\n- item number 1"
    )
    rows = "".join(f"<tr><td>row {number}<td>{number}" for number in range(100))
    table = written(f"<table><tr><th>R<th>N{rows}</table>", MarkdownOptions(max_tokens=14))
    assert table == "| R | N |\n| --- | --- |\n| row 0 | 0 |\n| row 1 | 1 |"
    assert written(f"<p>A</p><table><tr><th>R<th>N{rows}</table>", MarkdownOptions(max_tokens=5)) == "A"
    lines = "\n".join(f"line {number}" for number in range(100))
    code = written(f"<p>A</p><pre>{lines}</pre>", MarkdownOptions(max_tokens=9))
    assert code == "A\n\n```\nline 0\nline 1\nline 2\n```"


@pytest.mark.parametrize("tokens", [3, 10, 25, 60, 120, 400])
def test_a_cut_text_is_no_longer_than_it_may_be(tokens: int) -> None:
    links = "".join(f"<p>Sentence {n} has <a href='/{n}'>a link</a> and some more words.</p>" for n in range(40))
    page = f"<h1>Title</h1>{links}<ul><li>a<li>b</ul><pre>x\ny\nz</pre>"
    for form in ("inline", "references", "none"):
        cut = written(page, MarkdownOptions(links=form, max_tokens=tokens))
        assert len(cut.encode()) <= 4 * tokens
        for number in re.findall(r"\]\[(\d+)\]", cut):
            assert f"\n[{number}]: https://site.example/" in cut


ARTICLE = (
    "<html lang=en><title>The heron - River News</title><meta name=description content='A bird.'>"
    "<meta name=author content='A. Writer'><meta property='article:published_time' content='2026-01-02'>"
    "<nav><ul><li><a href=/>Home</a><li><a href=/news>News</a></ul></nav>"
    f"<main><article><h2>At the river</h2>{PROSE}{PROSE}<h2>Related articles</h2></article></main>"
    "<footer><p>© 2026 River News. <a href=/imprint>Imprint</a></footer>"
)


def test_the_title_is_the_first_heading_and_what_surrounds_the_article_is_left_out() -> None:
    text = main_text(Document(ARTICLE, URL), "markdown")
    assert text is not None
    assert text.startswith("# The heron\n\n## At the river\n\nThe heron stands")
    assert "News" not in text
    assert "Imprint" not in text
    plain = main_text(Document(ARTICLE, URL), "text")
    assert plain is not None
    assert plain.startswith("At the river\nThe heron stands")


@pytest.mark.parametrize(
    ("title", "headlines", "heading"),
    [
        ("How to see a heron | River News", "<h1>Herons: the whole guide</h1>", "Herons: the whole guide"),
        ("The heron - River News", "<h1>River News</h1>", "The heron"),
        ("The heron", "<h1><a href=/>River News</a></h1><h1>The patient heron</h1>", "The patient heron"),
        ("The heron", "<h1 hidden>Menu</h1>", "The heron"),
        ("River News", "<h1>River News</h1>", "River News"),
        ("", "", None),
        ("", "<h1>Herons * and others</h1>", "Herons \\* and others"),
    ],
)
def test_the_heading_is_the_headline_of_the_page_wherever_it_stands(
    title: str, headlines: str, heading: str | None
) -> None:
    head = f"<title>{title}</title><meta property=og:site_name content='River News'>"
    page = f"{head}<header>{headlines}</header><main><article>{PROSE}{PROSE}</article></main>"

    text = main_text(Document(page, URL), "markdown", MarkdownOptions(front_matter=True))

    assert text is not None
    front, _, body = text.partition("\n---\n")
    assert body.strip().startswith(f"# {heading}\n\nThe heron" if heading else "The heron")
    assert body.count("# ") == (heading is not None)
    assert ("title:" in front) == (heading is not None)


def test_a_headline_in_the_text_stands_there_once() -> None:
    headline = "<h1>10<sup>6</sup> <a href='/herons'>herons</a> <a href='#top'>#</a></h1>"
    page = f"<title>Many herons</title><main><article>{headline}{PROSE}{PROSE}</article></main>"

    text = main_text(Document(page, URL), "markdown") or ""

    assert text.startswith("# 10<sup>6</sup> [herons](https://site.example/herons)\n")
    assert text.count("# ") == 1


def test_signs_that_lead_to_a_heading_are_no_text() -> None:
    page = f"<main><article><h2>River <a href='#river'>#</a></h2>{PROSE}{PROSE}</article></main>"
    assert (main_text(Document(page, URL), "text") or "").startswith("River\nThe heron")


def test_reading_a_page_leaves_nothing_for_the_collector_of_garbage() -> None:
    main_text(Document(ARTICLE, URL), "markdown")  # what is made once
    gc.collect()
    gc.disable()
    try:
        for form in ("markdown", "text"):
            main_text(Document(ARTICLE, URL), form)
        assert not any(type(each).__name__ == "Element" for each in gc.get_objects())
    finally:
        gc.enable()


@pytest.mark.parametrize(
    "page",
    [
        "<header><nav><a href=/>Home</a></nav><h1>The grey heron</h1></header><main>{}</main>",
        "<main><h1>The grey heron</h1>{}</main>",
        "<div class=hero><h1>The grey heron</h1><a href=/x>Visit</a></div><div>{}</div>",
        "<h1>The grey heron</h1><main><h2>Birds of the river</h2>{}</main>",
    ],
    ids=["in the header", "in the text", "in a banner", "title as second heading"],
)
def test_a_headline_that_differs_from_the_title_is_the_first_heading(page: str) -> None:
    declared = "<title>Birds of the river | River News</title>"
    text = main_text(Document(declared + page.format(PROSE * 2), URL), "markdown", MarkdownOptions(front_matter=True))
    assert text is not None
    front, _, body = text.removeprefix("---\n").partition("---\n")
    assert body.strip().startswith("# The grey heron\n")
    assert 'title: "Birds of the river"' in front, "the front matter has the title that the page declares"


def test_a_headline_that_is_the_name_of_the_site_is_no_heading() -> None:
    head = "<title>The heron</title><meta property='og:site_name' content='River News'><h1>River News</h1>"
    text = main_text(Document(f"{head}<main>{PROSE * 2}</main>", URL), "markdown")
    assert text is not None
    assert text.startswith("# The heron\n")


def test_front_matter_names_the_page() -> None:
    text = main_text(Document(ARTICLE, URL), "markdown", MarkdownOptions(front_matter=True))
    assert text is not None
    assert text.split("\n---\n")[0].split("\n") == [
        "---",
        'title: "The heron"',
        f'url: "{URL}"',
        'date: "2026-01-02"',
        'author: "A. Writer"',
        'language: "en"',
        'description: "A bird."',
    ]


def test_a_page_of_few_words_is_kept_without_what_surrounds_it() -> None:
    assert main_text(Document("<nav>Menu</nav><p>Just this.", URL), "text") == "Just this."
    assert main_text(Document("<nav></nav>", URL), "text") is None


_TAGS = st.sampled_from("p div ul ol li b em a h2 blockquote pre code table tr td dl dt dd br span".split())
_TEXT = st.text(alphabet="ab *_`[]()<>#-+.1|\\~&!\n", max_size=12)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(_TAGS, _TEXT), max_size=12))
def test_any_tree_becomes_markdown_with_the_same_words(pieces: list[tuple[str, str]]) -> None:
    """A CommonMark parser reads the page's letters from the Markdown, in their order."""
    page = "".join(f"<{tag}>{text.replace('&', '&amp;').replace('<', '&lt;')}" for tag, text in pieces)
    markdown = written(page)
    tokens = MarkdownIt("commonmark").enable("table").enable("strikethrough").parse(markdown)
    found = "".join(
        child.content
        for token in tokens
        for child in (token.children or [token])
        if child.type in ("text", "code_inline", "fence", "code_block")
    )
    body = Document(page).tree.body
    expected = body.text() if body is not None else ""  # the parser moves what a table may not hold
    assert [sign for sign in found if sign in "ab"] == [sign for sign in expected if sign in "ab"]
