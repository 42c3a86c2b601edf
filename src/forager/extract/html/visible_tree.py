"""The visible elements of a page as a light tree of our own, without what the page hides. Pure.

The parser's nodes are read once, in one walk without recursion; everything after that (finding the main content,
writing Markdown) reads plain Python objects of limited depth. The walk never changes the parser's tree, so that other
readers of the same page may use it.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from selectolax.lexbor import LexborHTMLParser, LexborNode

MOST_DEPTH: Final = 150
"""Elements below this depth are joined with their ancestor there. Real pages have fewer than 80 levels."""
MOST_NODES: Final = 250_000
MOST_STYLES: Final = 1_000_000
"""Characters of the page's own style sheets that are searched for rules that hide something."""
LONG_TEXT: Final = 100
"""Characters from which the text of an element with aria-hidden is content: a closed tab, not an icon."""
LONG_LABEL: Final = 16
"""Characters from which the text of a button is content: the question of an accordion, not `Copy` or `Add to cart`."""
HIDDEN_SHARE: Final = 0.6
"""If style rules hide more of the text than this, scripts show it later: then such rules are not applied."""

INLINE: Final = frozenset(
    "a abbr acronym b bdi bdo big br button cite code data del dfn em font i img input ins kbd label mark math nobr "
    "o:p output picture q rp rt ruby s samp small span strike strong sub sup time tt u var wbr".split()
)
_DROPPED: Final = frozenset(
    "script style template svg head title iframe object embed select textarea datalist canvas video audio map "
    "meta link base input progress meter param source track frame frameset noembed noframes".split()
)
_CONTROLS: Final = frozenset(("button", "dialog"))
_UNSEEN: Final = re.compile(r"display\s*+:\s*+none|visibility\s*+:\s*+hidden", re.IGNORECASE)
_FOR_READERS_ALOUD: Final = frozenset(
    "sr-only visually-hidden visuallyhidden screen-reader-text screen-reader-only screenreader u-visually-hidden "
    "element-invisible assistive-text a11y-hidden sr-text show-for-sr is-sr-only cdk-visually-hidden "
    "govuk-visually-hidden hidden-visually visually-hidden-focusable".split()
)
"""Classes by custom of text for screen readers: `opens in a new window`."""
_PLAIN_SELECTOR: Final = re.compile(r"[a-z][a-z0-9]*+|(?:[a-z][a-z0-9]*+)?+[.#](?:[a-z_-][a-z0-9_-]*+)", re.IGNORECASE)


class Element:
    """A visible element. Text is a plain string among its children."""

    __slots__ = (
        "attributes",
        "children",
        "depth",
        "has_blocks",
        "kept",
        "linked",
        "muted",
        "parent",
        "prose",
        "size",
        "tag",
    )

    def __init__(self, tag: str, attributes: Mapping[str, str | None], parent: "Element | None") -> None:
        self.tag = tag
        self.attributes = attributes
        self.parent = parent
        self.depth: int = parent.depth + 1 if parent is not None else 0
        self.children: list[Element | str] = []
        self.has_blocks = tag not in INLINE
        """True if it is a block or holds one: a link around a card is then treated as a block."""
        self.muted: bool = parent.muted if parent is not None else False
        """True inside of an element with aria-hidden that is shown all the same."""
        self.size = self.linked = self.prose = 0
        """Words below it, those in links, and those in sentences: counted by the choice of the main content."""
        self.kept = False
        """Set by the choice of the main content: it, or something inside of it, belongs to it."""

    def get(self, name: str) -> str:
        return self.attributes.get(name) or ""

    def words(self) -> str:
        """Return all text below this element, with single blanks."""
        return " ".join(" ".join(texts(self)).split())


class Body(Element):
    """The root of a page's visible tree."""

    __slots__ = ("every",)

    def __init__(self, attributes: Mapping[str, str | None]) -> None:
        super().__init__("body", attributes, None)
        self.every: list[Element] = []
        """All elements of the tree as it was read, in page order, but the root."""

    def release(self) -> None:
        """Forget the parents, when the tree is needed no more: what is not a cycle is freed without a search for it."""
        for element in self.every:
            element.parent = None


def texts(element: Element) -> Iterator[str]:
    """Yield the pieces of text below an element, in page order."""
    stack: list[Element | str] = [element]
    while stack:
        node = stack.pop()
        if isinstance(node, str):
            yield node
        else:
            if node.tag == "br" or (node.has_blocks and node is not element):
                yield " "
            stack.extend(reversed(node.children))


def visible_tree(tree: LexborHTMLParser) -> Body:
    """Return the body of a page with its visible elements.

    Hidden are: the attributes `hidden` and `aria-hidden` (of decoration: short text), a closed <dialog>, the inline
    styles `display: none` and `visibility: hidden`, the same in plain rules of the page's own style sheets (one class,
    id or element, outside of @media), and classes that by custom are for screen readers. The content of <noscript> is
    left out unless it is most of the page: forums that scripts draw have their posts there.
    """
    body = tree.body
    if body is None:
        return Body({})
    hiding = _hiding_rules(tree)
    walk = _Walk(hiding)
    found = walk.read(body)
    if walk.without_scripts > max(walk.shown, LONG_TEXT):
        found.release()
        walk = _Walk(hiding, scripts=False)
        found = walk.read(body)
    if walk.hidden_by_style > HIDDEN_SHARE * (walk.hidden_by_style + walk.shown):
        found.release()
        found = _Walk(frozenset(), styles=False, scripts=walk.scripts).read(body)
    return found


class _Walk:
    def __init__(self, hiding: frozenset[str], *, styles: bool = True, scripts: bool = True) -> None:
        self.hiding = hiding
        self.styles = styles
        self.scripts = scripts
        self.without_scripts = 0
        """Characters in <noscript>, if they are left out."""
        self.shown = 0
        """Characters of visible text."""
        self.hidden_by_style = 0

    def read(self, body: LexborNode) -> Body:
        root = Body(body.attributes)
        every = root.every
        parent: Element = root
        node = body.child
        waiting: list[tuple[LexborNode | None, Element]] = []
        left = MOST_NODES
        while left:
            if node is None:
                if not waiting:
                    break
                node, parent = waiting.pop()
                continue
            left -= 1
            following = node.next
            tag = node.tag or "-"
            if tag == "-text":
                text = node.text_content or ""
                self.shown += len(text)
                parent.children.append(text)
            elif tag == "noscript" and self.scripts:
                self.without_scripts += len(node.text(strip=True))
            elif tag not in _DROPPED and tag[0] not in "-!_":
                attributes = node.attributes
                if (not attributes and tag not in _CONTROLS) or not self._hides(node, tag, attributes, parent.muted):
                    element = Element(tag, attributes, parent)
                    element.muted = element.muted or attributes.get("aria-hidden") == "true"
                    parent.children.append(element)
                    every.append(element)
                    if element.has_blocks:
                        _mark_blocks(parent)
                    if tag == "math":
                        element.children.append(_formula(node))
                        node = following
                        continue
                    child = node.child
                    if child is not None:
                        waiting.append((following, parent))
                        node = child
                        if element.depth < MOST_DEPTH:
                            parent = element
                        continue
            node = following
        return root

    def _hides(self, node: LexborNode, tag: str, attributes: Mapping[str, str | None], muted: bool) -> bool:
        if "hidden" in attributes and attributes["hidden"] != "until-found":
            return True
        if tag == "dialog" and "open" not in attributes:
            return True
        if tag == "button" and len(node.text(strip=True)) < LONG_LABEL:
            return True
        if not muted and attributes.get("aria-hidden") == "true" and _is_decoration(node, tag):
            return True
        if self.styles:
            style = attributes.get("style")
            if (style and _UNSEEN.search(style)) or (self.hiding and self._is_ruled_out(tag, attributes)):
                self.hidden_by_style += len(node.text())
                return True
        classes = attributes.get("class")
        return bool(classes) and not _FOR_READERS_ALOUD.isdisjoint(classes.split())  # type: ignore[union-attr]

    def _is_ruled_out(self, tag: str, attributes: Mapping[str, str | None]) -> bool:
        hiding = self.hiding
        if tag in hiding:
            return True
        for name in (attributes.get("class") or "").split():
            if f".{name}" in hiding or f"{tag}.{name}" in hiding:
                return True
        name = attributes.get("id") or ""
        return bool(name) and (f"#{name}" in hiding or f"{tag}#{name}" in hiding)


def _mark_blocks(element: Element | None) -> None:
    """Mark inline elements around a block. Each is marked once: an element with the mark has marked ancestors."""
    while element is not None and not element.has_blocks:
        element.has_blocks = True
        element = element.parent


def _is_decoration(node: LexborNode, tag: str) -> bool:
    """Return whether hiding from screen readers means decoration: icons and marks, not the closed tab of a page."""
    return tag in INLINE or len(node.text(strip=True)) < LONG_TEXT


def _formula(node: LexborNode) -> str:
    """Return the text of MathML: its TeX if the page has it, else its signs in one line, such as `(a+b)/2`."""
    source = node.css_first("annotation[encoding='application/x-tex']")
    if source is not None:
        return " ".join(source.text().split())
    return " ".join((node.attributes.get("alttext") or _in_line(node, MOST_DEPTH)).split())


_BETWEEN: Final = {
    "mfrac": ("/",),
    "msup": ("^",),
    "msub": ("_",),
    "mover": ("^",),
    "munder": ("_",),
    "msubsup": ("_", "^"),
    "munderover": ("_", "^"),
}
"""Elements of MathML whose children are above or below one another, and the signs that part them in one line."""


def _in_line(node: LexborNode, depth: int) -> str:
    """Write MathML in one line. Depth is limited, because a page decides how deep it nests."""
    if node.tag == "-text":
        return (node.text_content or "").strip()
    if depth == 0 or node.tag in ("annotation", "annotation-xml"):
        return ""
    if node.tag == "mtext":
        return node.text() or ""
    parts = [text for child in node.iter(include_text=True) if (text := _in_line(child, depth - 1))]
    signs = _BETWEEN.get(node.tag or "")
    if signs and len(parts) == len(signs) + 1:
        grouped = [part if part.isalnum() or len(part) == 1 else f"({part})" for part in parts]
        return grouped[0] + "".join(sign + part for sign, part in zip(signs, grouped[1:], strict=True))
    if node.tag in ("msqrt", "mroot") and parts:
        degree = f"{parts[1]}" if node.tag == "mroot" and len(parts) == 2 else ""
        return f"√{degree}({parts[0] if degree else ' '.join(parts)})"
    if node.tag == "mtr":
        return f"{', '.join(parts)};"
    return " ".join(parts)


def _hiding_rules(tree: LexborHTMLParser) -> frozenset[str]:
    """Return the plain selectors that the page's own style sheets hide. A later rule that shows one takes it back."""
    hiding: set[str] = set()
    left = MOST_STYLES
    for node in tree.tags("style"):
        sheet = node.text()
        left -= len(sheet)
        if left < 0:
            break
        if _UNSEEN.search(sheet) and "print" not in (node.attributes.get("media") or ""):
            _read_rules(sheet, hiding)
    return frozenset(hiding)


def _read_rules(sheet: str, hiding: set[str]) -> None:
    """Add the selectors of rules that hide, outside of blocks such as @media, which apply only at times."""
    depth = 0
    for piece in sheet.split("}"):
        opened = piece.count("{")
        if opened == 1 and depth == 0:
            selectors, _, body = piece.partition("{")
            _apply(selectors, body, hiding)
        depth = max(0, depth + opened - 1)


def _apply(selectors: str, body: str, hiding: set[str]) -> None:
    hides = _UNSEEN.search(body) is not None
    if not hides and "display" not in body and "visibility" not in body:
        return
    for each in selectors.rpartition("*/")[2].split(","):
        selector = each.strip()
        if len(selector) <= LONG_TEXT and _PLAIN_SELECTOR.fullmatch(selector):
            if hides and selector not in ("html", "body", "main", "article"):
                hiding.add(selector)
            else:
                hiding.discard(selector)
