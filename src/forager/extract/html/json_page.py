"""A JSON answer as a page: what an application shows of it, in the order of the answer, for readers of pages. Pure.

Portals send a page's content to their own programs as JSON. Each text of it becomes an element whose class is its key,
so that an address is found by its name and a label is before its value, as on a page.
"""

import re
from html import escape
from typing import Any

MOST_NODES, DEEPEST, LONGEST = 20_000, 30, 4_000
_TITLES = ("title", "headline", "name", "heading")
_NOT_SHOWN = re.compile(r"(?:https?:)?//\S+|[A-Z][A-Z0-9_]+|#[0-9a-fA-F]{3,8}|[\w-]{40,}")
"""Addresses, names of constants, colours and keys: they are for programs."""
_NAME = re.compile(r"[^\w-]+")
LEAST_WORDS = 3
"""Words of a title; a heading of a section has fewer."""


def page_of_json(tree: Any) -> str:
    """Return a page with the texts of an answer. The first title of several words is its headline."""
    parts: list[str] = []
    titles: list[str] = []
    stack: list[tuple[str, Any, int]] = [("", tree, 0)]
    for _ in range(MOST_NODES):
        if not stack:
            break
        name, value, depth = stack.pop()
        if depth > DEEPEST:
            continue
        if isinstance(value, dict):
            stack += [(str(key), inner, depth + 1) for key, inner in reversed(value.items())]
        elif isinstance(value, list):
            stack += [(name, inner, depth + 1) for inner in reversed(value)]
        elif text := _shown(value):
            if name.lower() in _TITLES:
                titles.append(text)
            parts.append(f'<div class="{_NAME.sub("-", name)}">{escape(text)}</div>')
    title = next((text for text in titles if len(text.split()) >= LEAST_WORDS), titles[0] if titles else "")
    return f"<title>{escape(title)}</title><body><h1>{escape(title)}</h1><main>{''.join(parts)}</main>"


def _shown(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return ""
    text = str(value).strip()[:LONGEST]
    return "" if _NOT_SHOWN.fullmatch(text) else text
