"""Any page: title, language, main text as Markdown, links, metadata and structured data; on request more formats."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, StringConstraints

from forager.core.http import Click, Scroll, WaitFor, WaitQuiet
from forager.extract.html.document import Document
from forager.extract.html.main_text import SOURCE, Form, main_text
from forager.extract.html.markdown import MarkdownOptions
from forager.extract.html.structured_data import text_of, things
from forager.extract.text.normalise import As, Line, Prose
from forager.pipelines.scrape.extractor import Extracted, Extractor, FieldFound, PageInput
from forager.pipelines.scrape.job import CONSENT, CONSENT_WAIT, OF_BROWSER

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
    pdf: Raw | None = None
    captured: list[dict[str, Any]] | None = None


def parse(page: PageInput, wanted: frozenset[str]) -> Extracted:
    document = Document(page.html, page.url)
    values = {name: _READERS[name](document) for name in _READERS.keys() & wanted}
    if "markdown" in wanted:
        values["markdown"] = _main(document, "markdown", page.markdown)
    return Extracted({name: value for name, value in values.items() if value is not None})


def _title(document: Document) -> FieldFound | None:
    if title := document.metas.get("og:title"):
        return FieldFound(title, "meta:og:title", 0.9)
    if document.title:
        return FieldFound(document.title, "css:title", 0.9)
    heading = document.first_text("h1")
    return FieldFound(heading[0], f"css:{heading[1]}", 0.7) if heading else None


def _language(document: Document) -> FieldFound | None:
    if document.language:
        return FieldFound(document.language, "css:html[lang]", 0.9)
    declared = document.metas.get("content-language") or document.metas.get("og:locale")
    return FieldFound(declared.replace("_", "-"), "meta", 0.7) if declared else None


def _description(document: Document) -> FieldFound | None:
    for name in ("description", "og:description", "twitter:description"):
        if description := document.metas.get(name):
            return FieldFound(description, f"meta:{name}", 0.9)
    return None


def _main(document: Document, form: Form, options: MarkdownOptions | None = None) -> FieldFound | None:
    text = main_text(document, form, options)
    return FieldFound(text, SOURCE, 0.9) if text else None


def _html(document: Document) -> FieldFound | None:
    """Return the HTML, or None if the page shows no text: then it is rendered in a browser."""
    return FieldFound(document.source, "css:html", 1.0) if document.text.strip() else None


def _links(document: Document) -> FieldFound | None:
    """Return each address once, with the words of its first link."""
    words: dict[str, str] = {}
    for link in document.links:
        if link.url.startswith(("http://", "https://")):
            words[link.url] = words.get(link.url) or link.text
    links = [{"url": url, "text": text} for url, text in list(words.items())[:MOST_LINKS]]
    return FieldFound(links, "css:a[href]", 1.0) if links else None


def _metadata(document: Document) -> FieldFound | None:
    metas = dict(list(document.metas.items())[:MOST_METADATA])
    if document.canonical:
        metas["canonical"] = document.canonical
    return FieldFound(metas, "meta", 1.0) if metas else None


def _structured_data(document: Document) -> FieldFound | None:
    outer = [thing for thing in things(document) if thing.depth == 0][:MOST_THINGS]
    data = [{"source": thing.source, **_as_json(thing.data)} for thing in outer]
    return FieldFound(data, outer[0].source, 1.0) if outer else None


def _as_json(value: Any) -> Any:
    """Return the value as JSON has it: microdata names elements of the page, of which the text is meant."""
    if isinstance(value, Mapping):
        return {str(name): _as_json(each) for name, each in value.items() if name != "@text"}
    if isinstance(value, list | tuple):
        return [_as_json(each) for each in value]
    return value if value is None or isinstance(value, str | int | float) else text_of(value)


_READERS: Mapping[str, Callable[[Document], FieldFound | None]] = {
    "title": _title,
    "language": _language,
    "description": _description,
    "text": lambda document: _main(document, "text"),
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
    by_default=tuple(name for name in AnyPage.model_fields if name not in ("text", "html", *OF_BROWSER)),
)
