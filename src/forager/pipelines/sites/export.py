"""Pages as files: the name of each, its front matter, and one long text with a table of contents. Pure."""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

ENDINGS = {"markdown": "md", "text": "txt", "html": "html", "fields": "json"}
LONGEST_SEGMENT = 80
MOST_SEGMENTS = 12
_UNSAFE = re.compile(r"[^\w.-]+")
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.IGNORECASE)
_FRONT = (
    "url title language page_kind duplicate_of links_out links_in content_hash first_seen_at last_seen_at changed_at"
)
_HEADING = re.compile(r"^(#{1,5})(?=\s)", re.MULTILINE)
_FENCE = re.compile(r"^(?:```|~~~)", re.MULTILINE)


def file_name(url: str, form: str) -> str:
    """Return the path of a page's file below the folder: host, then the path of its address.

    Every segment is made safe, so that no page can name a file outside the folder. Where that loses something (a query,
    a long or odd segment), a hash of the address makes the name unique.
    """
    parts = urlsplit(url)
    segments = [unquote(segment) for segment in parts.path.split("/") if segment]
    if not segments or parts.path.endswith("/"):
        segments.append("index")
    safe = [_safe(segment) for segment in segments[:MOST_SEGMENTS]]
    stem = re.sub(r"\.(?:html?|php|aspx?|md)\Z", "", safe[-1], flags=re.IGNORECASE) or "index"
    if parts.query or safe != segments or stem != safe[-1]:
        stem = f"{stem}-{hashlib.sha256(url.encode()).hexdigest()[:8]}"
    return "/".join([_safe(parts.netloc), *safe[:-1], f"{stem}.{ENDINGS[form]}"])


def _safe(segment: str) -> str:
    text = _UNSAFE.sub("-", segment).strip("-.")[:LONGEST_SEGMENT] or "-"
    return f"_{text}" if _RESERVED.fullmatch(text) else text


def file_text(page: Mapping[str, Any]) -> str:
    """Return the content of a page's file: front matter and text; HTML and fields as they are."""
    form = page.get("form") or "markdown"
    if form == "html":
        return page.get("content") or ""
    if form == "fields":
        told = {name: page.get(name) for name in ("url", "fields", "sources")}
        return json.dumps(told, ensure_ascii=False, indent=2) + "\n"
    return f"{front_matter(page)}\n{page.get('content') or ''}\n"


def front_matter(page: Mapping[str, Any]) -> str:
    """Return the facts of a page as YAML between two lines of dashes. Each value is written as JSON, which is YAML."""
    lines = [f"{name}: {json.dumps(page[name], ensure_ascii=False)}" for name in _FRONT.split() if page.get(name)]
    return "\n".join(("---", *lines, "---", ""))


def contents(pages: Iterable[Mapping[str, Any]], site: str) -> Iterator[str]:
    """Yield the beginning of the one file: a title and a table of contents, in the order of the pages."""
    yield f"# {site}\n\n## Contents\n\n"
    for number, page in enumerate(pages, 1):
        title = " ".join((page.get("title") or page["url"]).split()).replace("[", "(").replace("]", ")")
        yield f"{number}. [{title}](#page-{number}) — {page['url']}\n"


def chapter(number: int, page: Mapping[str, Any]) -> str:
    """Return one page of the one file. Its headings are one level lower, so that the page's own title is the highest;
    code is left as it is."""
    title = " ".join((page.get("title") or page["url"]).split())
    text = page.get("content") or ""
    if page.get("form") == "fields":
        text = f"```json\n{json.dumps(page.get('fields'), ensure_ascii=False, indent=2)}\n```"
    elif page.get("form") == "markdown":
        text = _lowered(text)
    return f'\n\n---\n\n<a id="page-{number}"></a>\n\n## {title}\n\nSource: {page["url"]}\n\n{text}\n'


def _lowered(text: str) -> str:
    """Return Markdown with each heading one level lower, outside of fenced code."""
    parts, inside, start = [], False, 0
    for fence in _FENCE.finditer(text):
        piece = text[start : fence.start()]
        parts.append(piece if inside else _HEADING.sub(r"#\1", piece))
        inside, start = not inside, fence.start()
    rest = text[start:]
    return "".join((*parts, rest if inside else _HEADING.sub(r"#\1", rest)))
