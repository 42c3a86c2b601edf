"""The main text of any page, without menus, banners and footers, as Markdown or plain text. Pure.

trafilatura finds it best, and is an extra because it brings 60 MB of libraries: `pip install 'forager-data[text]'`.
Without it a page is read by simple rules: everything outside of its header, footer, menus, side bars and forms.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any, Literal

from forager.extract.document import Document, Line

Form = Literal["markdown", "text"]

TRAFILATURA = "text:trafilatura"
SIMPLE_RULES = "text"
_AROUND = frozenset(("header", "footer", "nav", "aside", "form"))
_HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}
_MOST_TEXT = 1_000_000
_MOST_TAGS = 20_000
"""What a page made to hurt may cost trafilatura grows with its tags; so many take a second at most."""


def main_text(document: Document, form: Form) -> tuple[str, str] | None:
    """Return the text and how it was found (`TRAFILATURA` or `SIMPLE_RULES`), or None if the page has none."""
    for method, read in ((TRAFILATURA, _by_trafilatura), (SIMPLE_RULES, _by_simple_rules)):
        text = (read(document, form) or "").strip()[:_MOST_TEXT]
        if text:
            return text, method
    return None


def _by_trafilatura(document: Document, form: Form) -> str | None:
    library = _trafilatura()
    if library is None or document.bounded.count("<") > _MOST_TAGS:
        return None
    try:
        text = library.extract(
            document.visible,  # lxml, which reads it there, has no limit of depth, and no rule for hidden elements
            url=document.url or None,
            output_format="markdown" if form == "markdown" else "txt",
            include_links=form == "markdown",
            include_tables=True,
            include_comments=False,
        )
    except Exception:  # noqa: BLE001 - a library's fault over an odd page: our own rules read it then
        return None
    return text if isinstance(text, str) else None


@cache
def _trafilatura() -> Any:
    try:
        import trafilatura
    except ImportError:
        return None
    return trafilatura


def _by_simple_rules(document: Document, form: Form) -> str:
    inner = [line for line in document.lines if line.area not in _AROUND]
    lines = inner or list(document.lines)
    return "\n\n".join(_marked(lines)) if form == "markdown" else "\n".join(line.text for line in lines)


def _marked(lines: list[Line]) -> Iterator[str]:
    """Headings and lists with their marks; entries of one list stand together."""
    entries: list[str] = []
    for line in lines:
        if line.tag == "li":
            entries.append(f"- {line.text}")
            continue
        if entries:
            yield "\n".join(entries)
            entries = []
        yield _HEADINGS.get(line.tag, "") + line.text
    if entries:
        yield "\n".join(entries)
