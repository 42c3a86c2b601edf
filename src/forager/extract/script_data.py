"""JSON that a page's scripts hold: `<script type="application/json">`, and values that a script assigns. Pure."""

import re
from collections.abc import Iterator
from json import JSONDecoder
from typing import Any

from forager.extract.document import Document
from forager.extract.json_ld import loads_tolerantly

MOST_SCRIPTS = 40
LONGEST = 1_000_000
LEAST = 40
"""A shorter script holds no data."""
_ASSIGNED = re.compile(r"[\w$.\]\"']\s*=\s*(?=[\[{]\s*[\"{\[])")
MOST_VALUES = 5
_DECODER = JSONDecoder(strict=False)


def script_data(document: Document) -> Iterator[Any]:
    """Every JSON value in the page's scripts, in page order; structured data (JSON-LD) is left out."""
    for node in document.tree.css("script")[:MOST_SCRIPTS]:
        kind = (node.attributes.get("type") or "").lower()
        text = node.text()
        if not LEAST <= len(text) <= LONGEST or "ld+json" in kind:
            continue
        if "json" in kind:
            value = loads_tolerantly(text)
            if value is not None:
                yield value
        elif not kind or "javascript" in kind or kind == "module":
            yield from _assigned(text)


def _assigned(script: str) -> Iterator[Any]:
    at = 0
    for _ in range(MOST_VALUES):
        match = _ASSIGNED.search(script, at)
        if match is None:
            return
        at = match.end()
        try:
            value, at = _DECODER.raw_decode(script, match.end())
        except (ValueError, RecursionError):
            continue
        yield value
