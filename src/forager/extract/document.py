"""An HTML page, decoded, bounded and parsed once, and the ways in which it is read. Pure."""

import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE, getincrementaldecoder
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from urllib.parse import unquote, urljoin

from selectolax.lexbor import LexborHTMLParser, LexborNode
from w3lib.encoding import html_to_unicode

from forager.extract.beginning import Marks, beginning_of
from forager.extract.html_limits import bounded, end_of_tag
from forager.extract.text import one_line

MOST_LINES = 20_000
MOST_SHOWN = 4_000
MOST_TEXT = 400_000
MOST_LINKS = 3_000
MOST_MARKED = 200
"""JSON-LD scripts of a page that was made flat, those in comments included."""
FORM_SHARE = 0.6
"""A form that holds more of a page's text than this is the page itself: some frameworks put one around everything."""
_HIDDEN = frozenset("script style noscript template svg head title iframe object select textarea datalist".split())
_INLINE = frozenset(
    "a abbr acronym b bdi bdo big cite code data del dfn em font i img ins kbd label mark nobr o:p q s samp small span "
    "strike strong sub sup time tt u var wbr".split()
)
_AREAS = frozenset("header footer nav aside main form".split())
_NEEDS_A_LOOK = re.compile(r"[#\[\]\s]")
_ENCODED_WHOLE = re.compile(r"https?%3a%2f%2f", re.IGNORECASE)
_FILES = (
    b"%PDF-",
    b"\x89PNG\r\n",
    b"\xff\xd8\xff",
    b"GIF87a",
    b"GIF89a",
    b"PK\x03\x04",
    b"\x1f\x8b",
    b"RIFF",
    b"\x7fELF",
)
_SAMPLE = 16 * 1024
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\f\r\x1b"))
"""Bytes that text has next to none of. Some Asian encodings use the escape character."""
_CENTS = re.compile(r"cent|deci|frac|\bsup\b|small", re.IGNORECASE)
_UNSEEN = re.compile(r"display\s*+:\s*+none|visibility\s*+:\s*+hidden", re.IGNORECASE)
_MAY_HIDE = re.compile(r"hidden|display\s*+:\s*+none", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Line:
    """What a reader sees between two line breaks."""

    text: str
    tag: str
    """The block that it stands in: h1, p, li, dt …"""
    area: str
    """The part of the page: header, footer, nav, aside, form, main, or nothing."""
    bold: bool = False
    """Whether all of it is set apart, as labels often are."""


@dataclass(frozen=True, slots=True)
class Link:
    url: str
    text: str


def decoded(body: bytes, content_type: str | None = None) -> str:
    """Text of a page. Bytes that are valid UTF-8 are UTF-8, whatever is said of them: a wrong label is more common."""
    try:
        return body.removeprefix(BOM_UTF8).decode()
    except UnicodeDecodeError:
        pass
    try:
        return str(html_to_unicode(content_type, body, default_encoding="cp1252")[1])
    except (LookupError, UnicodeError, ValueError):
        return body.decode("utf-8", "replace")


def is_binary(body: bytes, content_type: str = "") -> bool:
    """Return whether a body is a file or noise, not text in any encoding, whatever its content type says of it."""
    if body.startswith(_FILES):
        return True
    if body.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) or "utf-16" in content_type.lower():
        return False
    sample = body[:_SAMPLE]
    controls = len(sample) - len(sample.translate(None, _CONTROLS))
    try:
        getincrementaldecoder("utf-8")().decode(sample)
    except UnicodeDecodeError:
        return controls > len(sample) * 0.01
    return controls > len(sample) * 0.1


class Document:
    """A page to be asked. It holds no place in the network: `url` is only what relative links are relative to.

    With `markup_first` the caller expects that markup has all that is asked for: then only the beginning of the page is
    parsed until something else is needed. Every answer is the same as without, but for a page that is made flat because
    of what follows its beginning (see `html_limits`): of that one the beginning is read as it was written.
    """

    def __init__(self, html: str | bytes, url: str = "", *, markup_first: bool = False) -> None:
        self.source = decoded(html) if isinstance(html, bytes) else html.encode("utf-8", "replace").decode("utf-8")
        self.url = url
        self._markup_first = markup_first

    @cached_property
    def bounded(self) -> str:
        """The page within its limits; the source itself if it is like other pages."""
        return bounded(self.source)

    @cached_property
    def tree(self) -> LexborHTMLParser:
        """The whole page."""
        return LexborHTMLParser(self.bounded)

    @cached_property
    def visible(self) -> str:
        """The page within its limits, without the elements that it hides."""
        if not _MAY_HIDE.search(self.bounded):
            return self.bounded
        tree = LexborHTMLParser(self.bounded)
        for node in list(_unseen_in(tree.body)):
            node.decompose()
        return tree.html or ""

    def json_ld(self) -> Iterator[str]:
        """Yield the text of each JSON-LD script. A page that was made flat is searched as it was written: its tree may
        lack them."""
        beginning = self.beginning
        if "tree" not in vars(self) or beginning is not self.tree or self.bounded is self.source:
            for node in beginning.tags("script"):
                if "ld+json" in (node.attributes.get("type") or "").lower():
                    yield node.text()
            return
        place, marked = self.lowered.find("<script"), 0
        while place >= 0 and marked < MOST_MARKED:
            start = end_of_tag(self.source, place)
            end = self.lowered.find("</script", start)
            if "ld+json" in self.lowered[place:start]:
                marked += 1
                if not self._is_comment(place):
                    yield self.source[start : end if end >= 0 else None]
            place = self.lowered.find("<script", end) if end >= 0 else -1

    def _is_comment(self, place: int) -> bool:
        return self.source.rfind("<!--", 0, place) > self.source.rfind("-->", 0, place)

    @cached_property
    def lowered(self) -> str:
        """The page's source with ASCII letters in lower case, as HTML compares names, and a `?` for what is beyond
        Latin-1: every character keeps its place, and a page in Chinese is searched as fast as one in English."""
        return self.source.encode("latin-1", "replace").lower().decode("latin-1")

    @cached_property
    def marks(self) -> Marks:
        """Which ways of marking data the page uses."""
        return Marks.of(self.lowered)

    @cached_property
    def beginning(self) -> LexborHTMLParser:
        """The tree up to the end of all meta tags and JSON-LD and of the first headline, or the whole one.

        What is the first of its kind here is the first one of the page."""
        tree = beginning_of(self.source, self.lowered, self.marks) if self._markup_first else None
        return tree or self.tree

    def _trees(self) -> Iterator[LexborHTMLParser]:
        """The beginning, and the whole tree if what is searched is not there."""
        yield self.beginning
        yield self.tree

    @cached_property
    def base(self) -> str:
        element = self.beginning.css_first("base[href]") if self.marks.base >= 0 else None
        return self.absolute_to(self.url, element.attributes.get("href") or "") or self.url if element else self.url

    def absolute(self, href: str) -> str | None:
        return self.absolute_to(self.base, href)

    @staticmethod
    def absolute_to(base: str, href: str) -> str | None:
        text = href.strip()
        if text.startswith(("https://", "http://")) and text.isascii() and not _NEEDS_A_LOOK.search(text):
            return text  # most are absolute already; urljoin would take them apart and put them together again
        try:
            return urljoin(base, text)
        except ValueError:
            return None

    @cached_property
    def title(self) -> str | None:
        element = _own_title(self.beginning) or _own_title(self.tree) or self.tree.css_first("title")
        return (one_line(element.text()) or None) if element else None

    @cached_property
    def language(self) -> str | None:
        root = self.beginning.root
        return ((root.attributes.get("lang") or root.attributes.get("xml:lang")) if root else None) or None

    @cached_property
    def metas(self) -> dict[str, str]:
        """Meta tags by their name or property in lower case; the first that says something holds."""
        metas: dict[str, str] = {}
        for node in self.beginning.tags("meta"):  # the first search by a selector costs more than all of this
            attributes = node.attributes
            name = attributes.get("property") or attributes.get("name") or attributes.get("itemprop")
            content = one_line(attributes.get("content") or "")
            if name and content:
                metas.setdefault(name.strip().lower(), content)
        return metas

    @cached_property
    def canonical(self) -> str | None:
        for tree in self._trees():
            for node in tree.css("link[rel][href]"):
                if (node.attributes.get("rel") or "").lower() == "canonical":
                    return self.absolute(_decoded_whole(node.attributes.get("href") or ""))
        declared = self.metas.get("og:url")
        return self.absolute(_decoded_whole(declared)) if declared else None

    @cached_property
    def links(self) -> tuple[Link, ...]:
        links: list[Link] = []
        for node in self.tree.css("a[href]")[:MOST_LINKS]:
            url = self.absolute(node.attributes.get("href") or "")
            if url:
                links.append(Link(url, one_line(node.text(separator=" "))))
        return tuple(links)

    @cached_property
    def headline(self) -> str | None:
        """The text of the first <h1> that has some."""
        for tree in self._trees():
            for node in tree.tags("h1"):
                if words := _words_of(node):
                    return words
        return None

    def first_text(self, *selectors: str) -> tuple[str, str] | None:
        """Text and selector of the first of these that finds some."""
        for selector in selectors:
            first = self.tree.css_first(selector)  # stops there, and mostly that one shows some text
            if first is None:
                continue
            if words := _words_of(first):
                return words, selector
            for node in self.tree.css(selector)[1:]:
                if words := _words_of(node):
                    return words, selector
        return None

    @cached_property
    def lines(self) -> tuple[Line, ...]:
        body = self.tree.body
        lines = tuple(_Reader().read(body)) if body else ()
        inside = sum(len(line.text) for line in lines if line.area == "form")
        if inside <= FORM_SHARE * sum(len(line.text) for line in lines):
            return lines
        return tuple(replace(line, area="") if line.area == "form" else line for line in lines)

    @staticmethod
    def lines_in(node: LexborNode) -> tuple[Line, ...]:
        """What a reader sees inside of one element."""
        return tuple(_Reader().read(node))

    @cached_property
    def text(self) -> str:
        """The visible text, up to a limit."""
        return "\n".join(line.text for line in self.lines)[:MOST_TEXT]

    @cached_property
    def shown(self) -> tuple[Line, ...]:
        """Lines to be searched one by one: of an endless page its beginning and its end, where imprints are."""
        if len(self.lines) <= MOST_SHOWN:
            return self.lines
        return self.lines[: MOST_SHOWN * 3 // 4] + self.lines[-MOST_SHOWN // 4 :]


def _own_title(tree: LexborHTMLParser) -> LexborNode | None:
    """The page's title; pictures in it may have one, too."""
    return next((node for node in tree.tags("title") if node.parent is not None and node.parent.tag == "head"), None)


def _words_of(node: LexborNode) -> str:
    return one_line(node.text(separator=" ", strip=False))


def _decoded_whole(url: str) -> str:
    """A URL that is percent-encoded as a whole (`https%3A%2F%2F…`), decoded; any other one as it is."""
    return unquote(url) if _ENCODED_WHOLE.match(url.strip()) else url


class _Reader:
    """Walks the tree once, without recursion: a page decides how deep it is."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.bold: list[bool] = []
        self.count = 0

    def read(self, body: LexborNode) -> Iterator[Line]:
        stack: list[tuple[LexborNode | None, str, str, bool]] = [(body.child, "body", "", False)]
        while stack and self.count < MOST_LINES:
            node, tag, area, bold = stack.pop()
            if node is None:
                if self.words:  # most elements begin or end without any: this saves their generators
                    yield from self._line(tag, area)
                continue
            name = node.tag or ""
            if name == "-text":
                self._say(node.text_content or "", bold)
                stack.append((node.next, tag, area, bold)) if node.next else None
                continue
            if node.next:
                stack.append((node.next, tag, area, bold))
            if name == "br":
                if self.words:
                    yield from self._line(tag, area)
            elif name in _HIDDEN or name.startswith(("_", "!", "-")) or _is_unseen(node):
                continue
            elif _is_control(node, name):
                if self.words:
                    yield from self._line(tag, area)
                stack.append((None, "button", area, False))
                if node.child:
                    stack.append((node.child, "button", area, False))
            elif name in _INLINE:
                if self.words and self.words[-1][-1:].isdigit() and _is_cents(node, name):
                    self.words.append(".")
                if node.child:
                    stack.append((node.child, tag, area, bold or name in ("b", "strong")))
                self.words.append(" ") if name == "img" else None
            else:
                if self.words:
                    yield from self._line(tag, area)
                inner = name if name in _AREAS else area
                stack.append((None, name, inner, False))
                if node.child:
                    stack.append((node.child, name, inner, bold or name == "th"))
        if self.words:
            yield from self._line("body", "")

    def _say(self, words: str, bold: bool) -> None:
        if not words.isspace():
            self.words.append(words)
            self.bold.append(bold)
        elif self.words:  # a line does not begin with blanks
            self.words.append(words)

    def _line(self, tag: str, area: str) -> Iterator[Line]:
        text = " ".join("".join(self.words).split())
        bold = bool(self.bold) and all(self.bold)
        self.words, self.bold = [], []
        if text:
            self.count += 1
            yield Line(text, tag, area, bold)


def _is_control(node: LexborNode, name: str) -> bool:
    """What is there to be clicked says nothing about the rest of its line."""
    if name == "button":
        return True
    return name == "a" and (node.attributes.get("href") or "").lstrip()[:11].lower() == "javascript:"


def _is_cents(node: LexborNode, name: str) -> bool:
    """Whether an element that follows a digit shows the decimals of a price: `19<sup>99</sup>`."""
    if name != "sup" and not _CENTS.search(node.attributes.get("class") or ""):
        return False
    digits = node.text()
    return len(digits) == 2 and digits.isdigit()


def _unseen_in(body: LexborNode | None) -> Iterator[LexborNode]:
    """Yield the outermost hidden elements below `body`, without recursion."""
    stack = [body.child] if body is not None else []
    while stack:
        node = stack.pop()
        if node is None:
            continue
        stack.append(node.next)
        if node.is_element_node and _is_unseen(node):
            yield node
        else:
            stack.append(node.child)


def _is_unseen(node: LexborNode) -> bool:
    attributes = node.attributes
    if not attributes:
        return False
    return (
        "hidden" in attributes
        or attributes.get("aria-hidden") == "true"
        or bool(_UNSEEN.search(attributes.get("style") or ""))
    )
