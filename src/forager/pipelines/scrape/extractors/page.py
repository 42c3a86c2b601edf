"""Any page: title, language, main text as Markdown, links, metadata and structured data; on request more formats."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, StringConstraints

from forager.core.visit import Click, Scroll, WaitFor, WaitQuiet
from forager.extract.document import Document
from forager.extract.main_text import TRAFILATURA, Form, main_text
from forager.extract.normalise import As, Line, Prose
from forager.extract.structured_data import text_of, things
from forager.pipelines.scrape.consent import CONSENT, CONSENT_WAIT
from forager.pipelines.scrape.extractor import SCREENSHOT, Extracted, Extractor, Found, Page

NAME = "page"
MOST_LINKS = 1_000
MOST_METADATA = 200
MOST_THINGS = 100


def _as_it_is(text: str) -> str:
    return text


Raw = Annotated[str, As(_as_it_is), StringConstraints(min_length=1)]
"""Text whose line breaks and blanks matter."""


class AnyPage(BaseModel):
    title: Line | None = None
    language: Line | None = None
    description: Prose | None = None
    markdown: Raw | None = None
    text: Raw | None = None
    html: Raw | None = None
    links: list[dict[str, str]] | None = None
    metadata: dict[str, str] | None = None
    structured_data: list[dict[str, Any]] | None = None
    screenshot: Raw | None = None


def parse(page: Page, wanted: frozenset[str]) -> Extracted:
    document = Document(page.html, page.url)
    values = {name: _READERS[name](document) for name in _READERS.keys() & wanted}
    return Extracted({name: value for name, value in values.items() if value is not None})


def _title(document: Document) -> Found | None:
    if title := document.metas.get("og:title"):
        return Found(title, "meta:og:title", 0.9)
    if document.title:
        return Found(document.title, "css:title", 0.9)
    heading = document.first_text("h1")
    return Found(heading[0], f"css:{heading[1]}", 0.7) if heading else None


def _language(document: Document) -> Found | None:
    if document.language:
        return Found(document.language, "css:html[lang]", 0.9)
    declared = document.metas.get("content-language") or document.metas.get("og:locale")
    return Found(declared.replace("_", "-"), "meta", 0.7) if declared else None


def _description(document: Document) -> Found | None:
    for name in ("description", "og:description", "twitter:description"):
        if description := document.metas.get(name):
            return Found(description, f"meta:{name}", 0.9)
    return None


def _main(form: Form) -> Callable[[Document], Found | None]:
    def read(document: Document) -> Found | None:
        text = main_text(document, form)
        return Found(text[0], text[1], 0.9 if text[1] == TRAFILATURA else 0.6) if text else None

    return read


def _html(document: Document) -> Found | None:
    """Return the HTML, or None if the page shows no text: then it is rendered in a browser."""
    return Found(document.source, "css:html", 1.0) if document.text.strip() else None


def _links(document: Document) -> Found | None:
    """Each address once, with the words of its first link."""
    words: dict[str, str] = {}
    for link in document.links:
        if link.url.startswith(("http://", "https://")):
            words[link.url] = words.get(link.url) or link.text
    links = [{"url": url, "text": text} for url, text in list(words.items())[:MOST_LINKS]]
    return Found(links, "css:a[href]", 1.0) if links else None


def _metadata(document: Document) -> Found | None:
    metas = dict(list(document.metas.items())[:MOST_METADATA])
    if document.canonical:
        metas["canonical"] = document.canonical
    return Found(metas, "meta", 1.0) if metas else None


def _structured_data(document: Document) -> Found | None:
    outer = [thing for thing in things(document) if thing.depth == 0][:MOST_THINGS]
    data = [{"source": thing.source, **_as_json(thing.data)} for thing in outer]
    return Found(data, outer[0].source, 1.0) if outer else None


def _as_json(value: Any) -> Any:
    """The value as JSON has it: microdata names elements of the page, of which the text is meant."""
    if isinstance(value, Mapping):
        return {str(name): _as_json(each) for name, each in value.items() if name != "@text"}
    if isinstance(value, list | tuple):
        return [_as_json(each) for each in value]
    return value if value is None or isinstance(value, str | int | float) else text_of(value)


_READERS: Mapping[str, Callable[[Document], Found | None]] = {
    "title": _title,
    "language": _language,
    "description": _description,
    "markdown": _main("markdown"),
    "text": _main("text"),
    "html": _html,
    "links": _links,
    "metadata": _metadata,
    "structured_data": _structured_data,
}

page = Extractor(
    name=NAME,
    output=AnyPage,
    script=(
        WaitFor("body *", timeout=10.0),
        WaitQuiet(5.0),
        Click(CONSENT, timeout=CONSENT_WAIT),
        Scroll(),
        WaitQuiet(2.0),
    ),
    parse=parse,
    by_default=tuple(name for name in AnyPage.model_fields if name not in ("text", "html", SCREENSHOT)),
)
