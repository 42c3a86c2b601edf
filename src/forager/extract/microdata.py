"""Microdata and RDFa Lite, in the shape of JSON-LD: nested mappings with `@type`. Pure, one walk, no recursion."""

from dataclasses import dataclass, field
from typing import Any

from selectolax.lexbor import LexborNode

from forager.extract.document import Document
from forager.extract.text import one_line, paragraphs

MOST_THINGS = 500
_URLS = {"a": "href", "area": "href", "link": "href", "img": "src", "source": "src", "video": "src", "audio": "src"}
_SKIPPED = frozenset(("script", "style", "template", "noscript"))


@dataclass(frozen=True, slots=True)
class _Syntax:
    """Which attributes say what."""

    name: str
    scope: str
    type: str
    prop: str


_MICRODATA = _Syntax("microdata", "itemscope", "itemtype", "itemprop")
_RDFA = _Syntax("rdfa", "typeof", "typeof", "property")


@dataclass(slots=True)
class _Gathering:
    things: list[dict[str, Any]] = field(default_factory=list)
    seen: int = 0


def microdata(document: Document) -> list[dict[str, Any]]:
    if document.tree.css_first("[itemscope]") is None:
        return []
    return _gather(document, _MICRODATA)


def rdfa(document: Document) -> list[dict[str, Any]]:
    if document.tree.css_first("[typeof]") is None:
        return []
    return _gather(document, _RDFA)


def _gather(document: Document, syntax: _Syntax) -> list[dict[str, Any]]:
    """Collect the top-level items in page order, each with its nested items."""
    gathering = _Gathering()
    root = document.tree.root
    stack: list[tuple[LexborNode, dict[str, Any] | None]] = [(root, None)] if root else []
    while stack and gathering.seen < MOST_THINGS:
        node, owner = stack.pop()
        if node.next:
            stack.append((node.next, owner))
        if (node.tag or "-").startswith(("-", "_", "!")) or (
            node.tag in _SKIPPED and "itemprop" not in node.attributes
        ):
            continue
        inner = _take(document, node, owner, syntax, gathering) or owner
        if node.child:
            stack.append((node.child, inner))
    return gathering.things


def _take(
    document: Document, node: LexborNode, owner: dict[str, Any] | None, syntax: _Syntax, gathering: _Gathering
) -> dict[str, Any] | None:
    """The thing that begins here, if one does; a property goes to the thing it stands in."""
    attributes = node.attributes
    prop = attributes.get(syntax.prop)
    begins = syntax.scope in attributes
    if not begins and (not prop or owner is None):
        return None
    names = [name.rpartition("/")[2].rpartition(":")[2] for name in (prop or "").split()[:10]]
    if not begins:
        if owner is not None:
            _add(owner, names, _value(document, node))
        return None
    gathering.seen += 1
    thing: dict[str, Any] = {"@type": _types(attributes.get(syntax.type) or "")}
    if owner is not None and names:
        _add(owner, names, thing)
        words = attributes.get("content")
        if words:
            thing.setdefault("name", one_line(words))
    else:
        gathering.things.append(thing)
    thing["@text"] = node
    return thing


def _add(owner: dict[str, Any], names: list[str], value: Any) -> None:
    if value in ("", None):
        return
    for name in names:
        if name in owner:
            held = owner[name]
            owner[name] = [*held, value][:100] if isinstance(held, list) else [held, value]
        else:
            owner[name] = value


def _types(text: str) -> list[str]:
    return [name.rstrip("/").rpartition("/")[2].rpartition(":")[2].rpartition("#")[2] for name in text.split()[:5]]


def _value(document: Document, node: LexborNode) -> str | None:
    attributes = node.attributes
    content = attributes.get("content")
    if content is not None:
        return one_line(content)
    tag = node.tag or ""
    if tag in _URLS and attributes.get(_URLS[tag]) is not None:
        return document.absolute(attributes.get(_URLS[tag]) or "")
    if tag in ("time", "data", "meter") and (attributes.get("datetime") or attributes.get("value")):
        return one_line(attributes.get("datetime") or attributes.get("value") or "")
    return paragraphs(node.html or "")
