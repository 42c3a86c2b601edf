"""One page of a site, read: title, language, kind, content, links and the fingerprint of its text. Pure."""

import hashlib
import re
from dataclasses import dataclass
from typing import Any, Literal

from selectolax.lexbor import LexborHTMLParser

from forager.extract.html.document import Document, decoded
from forager.extract.html.main_text import main_text
from forager.extract.html.markdown import MarkdownOptions
from forager.extract.html.page_kind import page_kind
from forager.extract.schemas.read import read_schema
from forager.extract.schemas.spec import PageSchema
from forager.extract.sitemaps import is_index, locations
from forager.pipelines.sites.addresses import each_once, one_address
from forager.pipelines.sites.fingerprint import fingerprint

Form = Literal["markdown", "text", "html"]
SiteKind = Literal["home", "article", "product", "list", "form", "error", "page"]
MOST_LINKS = 3_000
MOST_CONTENT = 1_000_000
LONGEST_TITLE = 500
LEAST_PROSE, PROSE_SHARE = 200, 0.6
"""Characters, and share of a page's text, from which its prose alone is compared."""
_AROUND = ["script", "style", "noscript", "template", "svg", "iframe", "header", "footer", "nav", "aside"]
_LISTS = frozenset(("collection", "postings", "listings"))
_PLAIN = re.compile(r"/(?:[A-Za-z0-9_~-][A-Za-z0-9_~.-]*+/?+)*+")
"""A link from the root of its host, without anything that would need a closer look."""
_ERROR = re.compile(r"\b(?:404|page not found|not found|error 5\d\d)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SitePageRead:
    """The contents of one page."""

    title: str | None
    language: str | None
    kind: SiteKind
    content: str | None
    """In the requested form."""
    content_hash: str
    """Hash of the title and the text: the same for every form of a page."""
    text_print: int
    links: tuple[str, ...]
    """The addresses of all links, in one spelling, each once. Empty if the page is marked `nofollow`."""
    canonical: str | None
    """The address that the page declares as its own, if it is another one."""
    indexed: bool = True
    """False if the page is marked `noindex`."""
    fields: dict[str, Any] | None = None
    """With a schema: its values; what the page does not show is null."""
    sources: dict[str, Any] | None = None


def read_page(
    body: bytes,
    content_type: str | None,
    url: str,
    form: Form | None,
    schema: PageSchema | None = None,
    markdown: MarkdownOptions | None = None,
) -> SitePageRead:
    """Read a page. Everything needed is an argument, because pages are read in another process. Without a form,
    only its links are read."""
    document = Document(decoded(body, content_type), url)
    robots = (document.metas.get("robots") or "").lower()
    links = () if "nofollow" in robots or "none" in robots.split(",") else tuple(links_of(document))
    canonical = one_address(document.canonical) if document.canonical else None
    content = _content(document, form, markdown)
    kind_of = _kind(document, url, len(links)) if form is not None else "page"
    title = (document.title or document.headline or "")[:LONGEST_TITLE] or None
    text, prose = own_text(document)
    fields, sources = _fields(document, schema) if schema is not None else (None, None)
    return SitePageRead(
        title=title,
        language=_language(document),
        kind=kind_of,
        content=content,
        content_hash=hashlib.sha256(f"{title}\n{' '.join(text.split())}".encode("utf-8", "replace")).hexdigest(),
        text_print=fingerprint(prose),
        links=links,
        canonical=canonical if canonical != url else None,
        indexed="noindex" not in robots,
        fields=fields,
        sources=sources,
    )


def _fields(document: Document, schema: PageSchema) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the values of a schema, and where each was found."""
    read = read_schema(schema, document)
    values: dict[str, Any] = {name: read.values[name].value if name in read.values else None for name in schema.fields}
    if schema.items is not None:
        values["items"] = read.items
    told = {name: {"source": each.source, "confidence": each.confidence} for name, each in read.values.items()}
    return values, told


def read_sitemap(body: bytes, start: int, most: int) -> tuple[bool, list[str], int | None]:
    """Return whether a sitemap lists other sitemaps, its next addresses in one spelling, and where the rest begins;
    None at its end."""
    index = is_index(body)
    found: dict[str, None] = {}
    for end, link in locations(body, start):
        url = one_address(link)
        if url is not None:
            found[url] = None
        if len(found) == most:
            return index, list(found), end
    return index, list(found), None


def links_of(document: Document) -> list[str]:
    """Return the addresses of a page's links that may be followed, in one spelling, each once."""
    found: list[str] = []
    root = "/".join(document.base.split("/", 3)[:3])
    for node in document.tree.css("a[href], area[href], link[rel=next][href]")[:MOST_LINKS]:
        attributes = node.attributes
        href = attributes.get("href") or ""
        if not href or href.startswith(("#", "javascript:", "mailto:", "tel:", "data:")):
            continue
        if "nofollow" in (attributes.get("rel") or "").lower():
            continue
        absolute = root + href if _PLAIN.fullmatch(href) else document.absolute(href)
        if absolute is not None and absolute.startswith(("http://", "https://")):
            found.append(absolute)
    return each_once(found)


def own_text(document: Document) -> tuple[str, str]:
    """Return the text of a page without its header, menus and footer, or all of it if nothing is left; and the same
    without the words of links, if most of the page is prose.

    The second is what pages are compared by: a copy for printing has the same prose and fewer links. A list has no
    prose, so its links are compared, because they are what it is about.
    """
    tree = LexborHTMLParser(document.bounded)
    tree.strip_tags(_AROUND)
    text = (tree.body.text(separator=" ", strip=True) if tree.body is not None else "") or document.text
    tree.strip_tags(["a"])
    prose = tree.body.text(separator=" ", strip=True) if tree.body is not None else ""
    return text, prose if len(prose) >= max(LEAST_PROSE, PROSE_SHARE * len(text)) else text


def _content(document: Document, form: Form | None, markdown: MarkdownOptions | None) -> str | None:
    if form is None:
        return None
    if form == "html":
        return document.source[:MOST_CONTENT]
    found = main_text(document, form, markdown)
    return found[:MOST_CONTENT] if found else None


def _language(document: Document) -> str | None:
    declared = document.language or document.metas.get("content-language") or document.metas.get("og:locale")
    return declared.replace("_", "-")[:35] if declared else None


def _kind(document: Document, url: str, links: int) -> SiteKind:
    """Return the kind of page."""
    if url.count("/") == 3 and url.endswith("/"):
        return "home"
    if document.title and _ERROR.search(document.title):
        return "error"
    kind = page_kind(document).kind
    if kind in ("product", "article"):
        return "product" if kind == "product" else "article"
    if kind in _LISTS:
        return "list"
    if document.tree.css_first("article") is not None:
        return "article"
    if links >= 40:
        return "list"
    return "form" if document.tree.css_first("input[type=password]") is not None else "page"
