"""The main text of any page, without menus, banners and footers, as Markdown or plain text. Pure."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import urlsplit

from forager.extract.html.document import Document, VisibleLine
from forager.extract.html.main_content import PageHints, keep_main_content
from forager.extract.html.markdown import MarkdownOptions, escaped, footnotes, plain_text, write_markdown
from forager.extract.html.structured_data import Thing, text_of, things
from forager.extract.html.visible_tree import Body, Element, texts, visible_tree
from forager.extract.text.strings import one_line

Form = Literal["markdown", "text"]

SOURCE: Final = "text:main"
"""Source of a page's main text in results."""
_MOST_TEXT: Final = 1_000_000
_LONGEST_TITLE: Final = 300
_MOST_HEADLINES: Final = 10
_PERMALINK: Final = re.compile(r"\s+[#¶§🔗]+$")
_NOTES: Final = re.compile(r"href=[\"']?#[^\"'>]{0,20}(?:fn|note|cite|ref)", re.IGNORECASE)
_BEHIND: Final = re.compile(r"\s[|–—·•»-]\s")
"""Signs between a page's title and the name of its site."""
_DECLARED = re.compile(r'"@type"\s{0,4}:\s{0,4}\[?\s{0,4}"(?:https?://schema\.org/)?([A-Za-z]{3,40})"')
_OF_FORUMS = re.compile(
    r"forum|thread|topic|discussion|community|communaut|question|showpost|viewpost|/t/|/r/|comments/|/d/", re.IGNORECASE
)
_OF_DOCUMENTATION = re.compile(r"docs?[./]|/api|/reference|/manual|/guide|/wiki|readthedocs|/help/|/kb/", re.IGNORECASE)
_FORUM_PROGRAMS = re.compile(
    r"discourse|phpbb|vbulletin|xenforo|flarum|nodebb|invision|mybb|smf|vanilla", re.IGNORECASE
)
_DOC_PROGRAMS = re.compile(
    r"docusaurus|sphinx|mkdocs|hugo|vuepress|vitepress|gitbook|doxygen|mdbook|starlight|antora", re.IGNORECASE
)
_ARTICLES = frozenset(
    "Article NewsArticle BlogPosting TechArticle Report ScholarlyArticle Recipe ReportageNewsArticle".split()
)
_COLLECTIONS = frozenset("CollectionPage ItemList SearchResultsPage OfferCatalog".split())
_FORUMS = frozenset("DiscussionForumPosting QAPage Question".split())


def main_text(document: Document, form: Form, options: MarkdownOptions | None = None) -> str | None:
    """Return the main text of a page, or None if it shows none.

    Markdown begins with the page's headline as a heading, or with its title if it has none; with `front_matter`, with a
    block of YAML before that.
    """
    body = visible_tree(document.tree)
    try:
        return _written(document, body, form, options or MarkdownOptions())
    finally:
        body.release()


def _written(document: Document, body: Body, form: Form, options: MarkdownOptions) -> str | None:
    headlines = headlines_of(body) if form == "markdown" else {}  # before the choice, which may leave them out
    notes = footnotes(body) if form == "markdown" and _NOTES.search(document.source) else None
    if not keep_main_content(body, page_hints(document)):
        return None
    if form == "text":
        return plain_text(body)[:_MOST_TEXT].strip() or None
    title = title_of(document, [*headlines])
    written = write_markdown(body, document.absolute, options, notes, headlines.get(title or ""))
    if not written.blocks:
        return None
    heading = f"# {escaped(title)}" if title and not _has_title(written.blocks, title) else None
    text = written.within(options.max_tokens, first=heading)[:_MOST_TEXT].strip()
    return f"{front_matter(document)}\n{text}" if options.front_matter else text


def headlines_of(body: Body) -> dict[str, Element]:
    """Return the headlines that a page shows, by their text."""
    found: dict[str, Element] = {}
    for element in [each for each in body.every if each.tag == "h1"][:_MOST_HEADLINES]:
        text = _PERMALINK.sub("", " ".join("".join(texts(element)).split()))
        if text:
            found.setdefault(text[:_LONGEST_TITLE], element)
    return found


def title_of(document: Document, headlines: Sequence[str]) -> str | None:
    """Return the title of a page as it shows it: its headline, or else the declared title without the name of the site.

    Of several headlines it is the one that shares most words with the declared title. A headline that is only the name
    of the site, as in a logo, is none.
    """
    site = _site_names(document)
    of_page = [text for text in headlines if _letters(text) not in site]
    if not of_page:
        return declared_title(document)
    known = _words(document.metas.get("og:title") or document.title or "")
    return max(of_page, key=lambda text: len(_words(text) & known))


def declared_title(document: Document) -> str | None:
    """Return the title that a page declares, without the name of the site."""
    site, headline = _site_names(document), document.headline
    declared = document.metas.get("og:title") or document.title or ""
    if headline and _letters(headline) not in site and headline.lower() in declared.lower():
        return headline[:_LONGEST_TITLE]
    parts = [part.strip() for part in _BEHIND.split(declared)]
    own = [part for part in parts if part and _letters(part) not in site] or parts
    return (own[0] if len(own) < len(parts) else parts[0])[:_LONGEST_TITLE] or headline


def _site_names(document: Document) -> frozenset[str]:
    """Return the letters of the names of a site: the declared one, and that in its host (`bean-lab` of
    `www.bean-lab.co.uk`)."""
    labels = (urlsplit(document.url).hostname or "").removeprefix("www.").split(".")
    host = max(labels[:-1] or labels, key=len)
    return frozenset(("", _letters(host), _letters(document.metas.get("og:site_name") or "")))


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text.lower()))


def _has_title(blocks: Sequence[str], title: str) -> bool:
    """Return whether the text has a heading of the first level, or its title among its first headings."""
    plain = _letters(title)
    headings = [block for block in blocks if block.startswith("#")]
    return any(block.startswith("# ") for block in headings) or any(
        _letters(block.lstrip("# ")) == plain for block in headings[:3]
    )


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.lower()))


def front_matter(document: Document) -> str:
    """Return what is known of a page as YAML between two lines of dashes. Each value is written as JSON, which is
    YAML."""
    known = [thing for thing in things(document) if thing.types & _ARTICLES] or list(things(document))[:5]
    metas = document.metas
    values = {
        "title": declared_title(document),
        "url": document.canonical or document.url or None,
        "date": metas.get("article:published_time") or metas.get("date") or _declared(known, "datePublished"),
        "author": _declared(known, "author") or metas.get("author"),
        "language": document.language or metas.get("og:locale"),
        "description": metas.get("description") or metas.get("og:description"),
    }
    lines = [f"{name}: {json.dumps(one_line(value), ensure_ascii=False)}" for name, value in values.items() if value]
    return "\n".join(("---", *lines, "---", ""))


def _declared(known: list[Thing], name: str) -> str | None:
    return next((text for thing in known if (text := text_of(thing.get(name)))), None)


def page_hints(document: Document) -> PageHints:
    """Return what the page declares about its kind: structured data, meta tags, the program that made it, its URL."""
    types = set(_DECLARED.findall(document.source))
    metas = document.metas
    told = (metas.get("og:type") or "").lower()
    program = metas.get("generator") or ""
    return PageHints(
        article=float(bool(types & _ARTICLES)) + (told == "article"),
        product=float("Product" in types) + told.startswith("product") + ("product:price:amount" in metas),
        collection=float(bool(types & _COLLECTIONS)),
        forum=2.0 * bool(types & _FORUMS)
        + bool(_OF_FORUMS.search(document.url or ""))
        + bool(_FORUM_PROGRAMS.search(program)),
        faq=float("FAQPage" in types),
        documentation=float(bool(_OF_DOCUMENTATION.search(document.url or "")))
        + bool(_DOC_PROGRAMS.search(program))
        + ("TechArticle" in types),
    )


# Values that a page gives after a label: `Location: Berlin`, or a heading and the text under it. Pure.


LONGEST_VALUE = 300
LONGEST_LABEL = 30
_LABEL_TAGS = frozenset("dt th h1 h2 h3 h4 h5 h6 label".split())


@dataclass(frozen=True, slots=True)
class Labelled:
    label: str
    value: str
    line: int
    sure: bool
    """True if marked by a colon, by a tag for labels, or as two cells of a table."""


def labelled(document: Document, words: str, *, most: int = LONGEST_VALUE) -> Iterator[Labelled]:
    """Yield the texts after a label that matches this pattern, in page order."""
    pattern = re.compile(
        rf"^\W{{0,3}}(?P<label>(?:{words})(?:\s*[:：]?\s*\([^)]{{0,40}}\))?)\s*(?P<colon>[:：]+)?\s*(?P<value>.*)$",
        re.IGNORECASE,
    )
    lines = document.shown
    for at, line in enumerate(lines):
        if len(line.text) > most + 60:
            continue
        match = pattern.match(line.text)
        if not match:
            continue
        value = match["value"].strip(" :|*")
        if value and match["colon"]:
            yield Labelled(match["label"], value, at, True)
        elif not value:
            after = next(
                (
                    at + ahead
                    for ahead in (1, 2)
                    if lines[at + ahead : at + ahead + 1] != () and lines[at + ahead].tag != "button"
                ),
                None,
            )
            if after is not None and _is_value(lines[after], most):
                in_table = line.tag == "td" == lines[after].tag and len(line.text) <= LONGEST_LABEL
                sure = bool(match["colon"]) or line.bold or line.tag in _LABEL_TAGS or in_table
                yield Labelled(match["label"], lines[after].text.strip(), after, sure)


def _is_value(line: VisibleLine, most: int) -> bool:
    """Return whether a line is a value: neither the next label nor the next headline."""
    ended = line.text.rstrip().endswith((":", "*"))
    return len(line.text) <= most and not ended and line.tag not in _LABEL_TAGS
