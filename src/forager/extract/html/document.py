"""An HTML page, decoded, bounded and parsed once, and the ways in which it is read. Pure."""

import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE, getincrementaldecoder
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeVar
from urllib.parse import unquote, urljoin

from selectolax.lexbor import LexborHTMLParser, LexborNode
from w3lib.encoding import html_to_unicode

from forager.core.reading import care
from forager.extract.html.limits import LONG_TAG, MOST_CHARACTERS, bounded, end_of_tag, within_size
from forager.extract.text.strings import one_line

T = TypeVar("T")

# The beginning of a page's tree, if that is enough to read its markup. Pure.
#
# An HTML parser works from the beginning to the end, so a page whose meta tags, JSON-LD and headline end after a tenth
# of it needs only a tenth of the time. Their places are found by searching the text, which may also find one inside of
# a script, a comment or an attribute, or an end tag without its start tag.
#
# So a comment is appended to the beginning, and the tree shows how the parser has read it: inside every element that is
# still open, or as something other than a comment. The rest of the page can change its beginning in three ways only: by
# adding to an open element (more text for a headline, content that is moved out of a table), by a second <html>, whose
# attributes are added to the first, or by a <frameset>, which replaces the body. In all these cases, and whenever it is
# not certain, the whole page is parsed.


WORTH = 0.6
"""Share of a page up to which its beginning is parsed by itself: the limit of the cost of parsing it twice."""
LARGE = 64 * 1024
"""Characters of a page above which its beginning is not looked for. The search costs half of a parse, and of the large
pages of real shops one in eleven needs no more than its beginning."""
END = "end of the beginning"
"""Text of the comment that shows the elements open at the end."""
_GROWING = frozenset(("h1", "title", "script", "table"))
"""Elements to which what follows adds text, or, for a table, before which it puts elements. An open <script> can have a
comment only in <svg>."""
_CHANGING = re.compile(r"<(?:html|frameset|script)")
_SIGN = re.compile(r"[\t\n\f\r ]*=")
_TYPE_WITH_AN_ENTITY = re.compile(r"type[\t\n\f\r ]*=[\t\n\f\r ]*(?:\"[^\"]*&|'[^']*&|[^\t\n\f\r \"'>]*&)")


class Marks:
    """Ways of marking data in a page. Each is searched at its first use: in the tree, if the whole page has
    been parsed, else by a search of its text, which costs more and may also find the word elsewhere."""

    def __init__(self, document: "Document") -> None:
        self._document = document

    @cached_property
    def json_ld(self) -> int:
        """Position of its last name in the text; -1 without one."""
        return self._document.lowered.rfind("ld+json")

    @cached_property
    def microdata(self) -> bool:
        return self._has("itemscope")

    @cached_property
    def loose(self) -> bool:
        """True if it has properties, inside or outside of an item."""
        return self._has("itemprop")

    @cached_property
    def rdfa(self) -> bool:
        return self._has("typeof") if self._document.is_parsed else _has_types(self._document.lowered)

    @cached_property
    def _is_in_tree(self) -> bool:
        """True if the tree has any of these attributes: most pages have none, and one search is enough for them."""
        return self._document.marked_tree.css_first("[itemscope], [itemprop], [typeof]") is not None

    def _has(self, attribute: str) -> bool:
        if self._document.is_parsed:
            return self._is_in_tree and self._document.marked_tree.css_first(f"[{attribute}]") is not None
        return self._document.lowered.rfind(attribute) >= 0


def _has_types(lowered: str) -> bool:
    """Return whether an attribute `typeof` may be in the page. `typeof` without the sign is a word of many scripts."""
    place = lowered.rfind("typeof")
    while place >= 0 and not _SIGN.match(lowered, place + len("typeof")):
        place = lowered.rfind("typeof", 0, place)
    return place >= 0


def beginning_of(source: str, lowered: str, marks: Marks) -> LexborHTMLParser | None:
    """Return the tree of the page's beginning, with all meta tags, JSON-LD scripts and <base> and the first headline.

    `lowered` is the page in lower case, each character in its place. An element of these kinds, a <title> or a <link>
    that is the first one here is the first one of the whole page, with the same text, and so is the language of the
    root. One exception: if the page has to be made flat because of what follows (see `html_limits`), its beginning is
    still read as it was written.

    Returns None if the whole page is to be parsed: there is no JSON-LD, which makes the rest unnecessary; other markup
    is in use; the end is too near to the end of the page; or what follows may change the beginning.
    """
    if not 0 <= marks.json_ld <= len(source) * WORTH:
        return None
    if len(source) > MOST_CHARACTERS or source.rfind("\0") >= 0:
        return None  # the places in the text would not be those of what is parsed
    end = _end_of_markup(source, lowered, marks.json_ld)
    if end is None or end > len(source) * WORTH or marks.microdata or marks.loose or marks.rdfa:
        return None
    if _changes_what_precedes(lowered, end):
        return None
    start = f"{source[:end]}<!--{END}-->"
    tree = LexborHTMLParser(bounded(start) if care.is_needed else start)
    return tree if _is_complete(tree) else None


def _end_of_markup(source: str, lowered: str, json_ld: int) -> int | None:
    """Return where the last meta tag, base, JSON-LD script and first headline have ended, whichever is last."""
    headline = lowered.find("<h1")
    ends = [lowered.find("</script", json_ld), lowered.find("</h1", headline) if headline >= 0 else 0]
    if min(ends) < 0:
        return None
    ends += [lowered.rfind("<meta"), lowered.rfind("<base")]
    return max(end_of_tag(source, place) for place in ends if place >= 0)


def _changes_what_precedes(lowered: str, end: int) -> bool:
    """Return whether the rest of the page has JSON-LD under an escaped name, or a tag that changes the root or the
    body."""
    for found in _CHANGING.finditer(lowered, end):
        if found[0] != "<script":
            return True
        tag = lowered[found.start() : end_of_tag(lowered, found.start())]
        if "<" in tag[1:] or ("&" in tag and (len(tag) > LONG_TAG or _TYPE_WITH_AN_ENTITY.search(tag))):
            return True
    return False


def _is_complete(tree: LexborHTMLParser) -> bool:
    """Return whether the comment at the end is one, and is in no element that may still grow."""
    body = tree.body
    # The parser adds an empty body if the text has ended before it.
    node = body.prev if body is not None and body.child is None else tree.root
    while node is not None and node.tag not in _GROWING:
        if node.is_comment_node:
            return node.comment_content == END
        node = node.last_child
    return False


MOST_LINES = 20_000
MOST_SHOWN = 4_000
MOST_TEXT = 400_000
MOST_LINKS = 3_000
MOST_HEADLINES = 10
MOST_PLACES, A_TEXT = 20, 200
"""Places of a text that are examined, and characters of the text around it."""
A_PIECE = 8_192
"""Bytes before a place in which a script's tags are looked for first."""
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
_MAYBE_UNSEEN = "[hidden], [aria-hidden], [style*='display' i], [style*='visibility' i]"
_MAYBE_PRESSED = "a[href*='javascript:' i]"
_CENTS = re.compile(r"cent|deci|frac|\bsup\b|small", re.IGNORECASE)
_UNSEEN = re.compile(r"display\s*+:\s*+none|visibility\s*+:\s*+hidden", re.IGNORECASE)
_MAY_HIDE = re.compile(r"hidden|display\s*+:\s*+none", re.IGNORECASE)


class VisibleLine(NamedTuple):
    """Visible text between two line breaks. A tuple, because a page has thousands of them."""

    text: str
    tag: str
    """The block that it is in: h1, p, li, dt …"""
    area: str
    """The part of the page: header, footer, nav, aside, form, main, or nothing."""
    bold: bool = False
    """True if all of it is set apart, as labels often are."""


@dataclass(frozen=True, slots=True)
class Link:
    url: str
    text: str


def decoded(body: bytes, content_type: str | None = None) -> str:
    """Return text of a page. Bytes that are valid UTF-8 are UTF-8, whatever their label: a wrong label is more
    common."""
    return _read_text(body, content_type)[0]


def _read_text(body: bytes, content_type: str | None = None) -> tuple[str, bytes | None]:
    """Return the text of a page, and its bytes in UTF-8 if it came in that encoding."""
    plain = body.removeprefix(BOM_UTF8)
    try:
        return plain.decode(), plain
    except UnicodeDecodeError:
        pass
    try:
        return str(html_to_unicode(content_type, body, default_encoding="cp1252")[1]), None
    except (LookupError, UnicodeError, ValueError):
        return body.decode("utf-8", "replace"), None


def is_binary(body: bytes, content_type: str = "") -> bool:
    """Return whether a body is a file or noise, not text in any encoding, whatever its content type."""
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
    """A page to read. It makes no requests: `url` is only the base of relative links.

    With `markup_first` the caller expects that markup has all fields: then only the beginning of a page that is not
    large is parsed until something else is needed. Every answer is the same as without, but for a page that is made
    flat because of what follows its beginning (see `html_limits`): of that one the beginning is read as it was written.
    """

    def __init__(self, html: str | bytes, url: str = "", *, markup_first: bool = False) -> None:
        body = html if isinstance(html, bytes) else html.encode("utf-8", "replace")
        self.source, self._utf8 = _read_text(body)
        self.url = url
        self._markup_first = markup_first
        self._results: dict[Callable[[Document], Any], Any] = {}

    def once(self, read: Callable[["Document"], T]) -> T:
        """Return what `read` finds in this page, worked out at the first call: several rules need the same facts."""
        if read not in self._results:
            self._results[read] = read(self)
        found: T = self._results[read]
        return found

    @cached_property
    def bounded(self) -> str:
        """The page within its limits; the source itself if it is like other pages, or if a reader makes its first
        attempt at it."""
        if care.is_needed:
            return bounded(self.source)
        if self._utf8 is not None and b"\0" not in self._utf8 and len(self.source) <= MOST_CHARACTERS:
            return self.source  # the same question about a text costs 40 times as much as about its bytes
        return within_size(self.source)

    @cached_property
    def tree(self) -> LexborHTMLParser:
        """The whole page."""
        if self._utf8 is not None and self.bounded is self.source:
            return LexborHTMLParser(self._utf8)  # the parser would have to encode a text first
        return LexborHTMLParser(self.bounded)

    @cached_property
    def marked_tree(self) -> LexborHTMLParser:
        """The tree that is searched for microdata and RDFa: that of the whole source, also where the page is too big
        for its text to be read as a whole. A page that has to be made harmless is cut off here as well."""
        if len(self.source) <= MOST_CHARACTERS or care.is_needed:
            return self.tree
        return LexborHTMLParser(self.source.replace("\0", ""))

    @property
    def is_parsed(self) -> bool:
        """True if the whole page has been parsed."""
        return "tree" in vars(self)

    @property
    def has_lines(self) -> bool:
        """True if the visible text has been read."""
        return "lines" in vars(self)

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
        if not self.is_parsed or beginning is not self.tree or self.bounded is self.source:
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
        """The ways of marking data that the page uses."""
        return Marks(self)

    @cached_property
    def beginning(self) -> LexborHTMLParser:
        """The tree up to the end of all meta tags and JSON-LD and of the first headline, or the whole one.

        The first element of a kind here is the first one of the page."""
        is_worth_a_search = self._markup_first and len(self.source) <= LARGE
        tree = beginning_of(self.source, self.lowered, self.marks) if is_worth_a_search else None
        return tree or self.tree

    def shows(self, text: str, *, alone: bool = False, number: bool = False) -> bool:
        """Return whether a text is between tags somewhere as whole words, outside of scripts, in any case of its
        letters. `alone`: with nothing else between the two tags. `number`: letters may touch it, as those of a currency
        do. Cheaper than the visible lines."""
        touches = str.isdigit if number else str.isalnum
        wanted = text.encode("utf-8", "replace")
        lowered = wanted.lower()
        page = self._encoded if lowered == wanted.upper() else self._encoded_in_lower_case
        return self._shows_in(page, lowered, touches, alone=alone)

    def _shows_in(self, page: bytes, wanted: bytes, touches: Callable[[str], bool], *, alone: bool) -> bool:
        """Search the bytes of a page: that takes half the time of a text with letters beyond Latin-1."""
        place = -1
        for _ in range(MOST_PLACES):
            place = page.find(wanted, place + 1)
            if place < 0:
                return False
            end = place + len(wanted)
            before = page[max(0, place - 4 * A_TEXT) : place].decode("utf-8", "ignore")[-A_TEXT:]
            after = page[end : end + 4 * A_TEXT].decode("utf-8", "ignore")[:A_TEXT]
            if touches(before[-1:]) or touches(after[:1]):
                continue
            opened = before.rfind(">")
            if opened <= before.rfind("<") or self._is_in_a_script(place):
                continue
            if not alone or (not before[opened + 1 :].strip() and after.lstrip().startswith("<")):
                return True
        return False

    def _is_in_a_script(self, place: int) -> bool:
        """Return whether a place is behind a start tag <script> with no end tag between them. A start tag in the text
        of a script changes nothing: both have the same end."""
        end, size = place + len("</script"), A_PIECE
        while end > 0:
            piece = self._encoded[max(0, end - size) : end].lower()
            started, ended = piece.rfind(b"<script", 0, len(piece) - 1), piece.rfind(b"</script")
            if started >= 0 or ended >= 0:
                return started > ended
            end, size = end - size + len("</script"), size * 8
        return False

    @cached_property
    def _encoded(self) -> bytes:
        """The page's source in UTF-8."""
        return self.source.encode("utf-8", "replace") if self._utf8 is None else self._utf8

    @cached_property
    def _encoded_in_lower_case(self) -> bytes:
        """The same with ASCII letters in lower case, each in its place."""
        return self._encoded.lower()

    def _trees(self) -> Iterator[LexborHTMLParser]:
        """Yield the beginning, and the whole tree if what is searched is not there."""
        yield self.beginning
        yield self.tree

    @cached_property
    def base(self) -> str:
        element = next((node for node in self.beginning.tags("base") if "href" in node.attributes), None)
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
        """Meta tags by their name or property in lower case; the first with content holds."""
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
        """Return text and selector of the first of these that finds some."""
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
    def lines(self) -> tuple[VisibleLine, ...]:
        body = self.tree.body
        lines = tuple(_Reader(*_special_places(self.tree)).read(body)) if body else ()
        inside = sum(len(line.text) for line in lines if line.area == "form")
        if inside <= FORM_SHARE * sum(len(line.text) for line in lines):
            return lines
        return tuple(line._replace(area="") if line.area == "form" else line for line in lines)

    @staticmethod
    def lines_in(node: LexborNode) -> tuple[VisibleLine, ...]:
        """Return what a reader sees inside of one element."""
        return tuple(_Reader().read(node))

    @cached_property
    def text(self) -> str:
        """The visible text, up to a limit."""
        return "\n".join(line.text for line in self.lines)[:MOST_TEXT]

    @cached_property
    def shown(self) -> tuple[VisibleLine, ...]:
        """Lines to be searched one by one: of an endless page its beginning and its end, where imprints are."""
        if len(self.lines) <= MOST_SHOWN:
            return self.lines
        return self.lines[: MOST_SHOWN * 3 // 4] + self.lines[-MOST_SHOWN // 4 :]


def _own_title(tree: LexborHTMLParser) -> LexborNode | None:
    """Return the title of the page, not that of a picture in it."""
    return next((node for node in tree.tags("title") if node.parent is not None and node.parent.tag == "head"), None)


def _words_of(node: LexborNode) -> str:
    return one_line(node.text(separator=" ", strip=False))


def _decoded_whole(url: str) -> str:
    """Return a URL that is percent-encoded as a whole (`https%3A%2F%2F…`), decoded; any other one as it is."""
    return unquote(url) if _ENCODED_WHOLE.match(url.strip()) else url


class _Reader:
    """Walks the tree once, without recursion: a page decides how deep it is."""

    def __init__(self, unseen: frozenset[int] | None = None, pressed: frozenset[int] | None = None) -> None:
        self.unseen = unseen
        """Hidden elements of the page by `mem_id`; None: each element is examined."""
        self.pressed = pressed
        """Links of the page that run a script, by `mem_id`; None: each link is examined."""

    def read(self, body: LexborNode) -> list[VisibleLine]:
        """Return the lines of an element, in page order.

        This loop visits every node of a page, so it is written for speed: a property of a node is read once, and
        nothing is called that the node at hand does not need.
        """
        lines: list[VisibleLine] = []
        words: list[str] = []
        # None while the line has no words; True while all of them are set apart.
        all_bold: bool | None = None
        stack: list[tuple[LexborNode | None, str, str, bool]] = [(body.child, "body", "", False)]
        pop, push = stack.pop, stack.append
        unseen, pressed = self.unseen, self.pressed

        while stack:
            node, tag, area, bold = pop()
            # A line ends at the end of a block (no node), at a <br>, and before a block or a control begins.
            name = "" if node is None else node.tag or "-"
            while name == "-text" and node is not None:
                text = node.text_content or ""
                if not text.isspace():
                    words.append(text)
                    all_bold = bold if all_bold is None else all_bold and bold
                elif words:  # a line does not begin with blanks
                    words.append(text)
                node = node.next
                name = "-" if node is None else node.tag or "-"
            if node is not None:
                if (following := node.next) is not None:
                    push((following, tag, area, bold))
                if name in _HIDDEN or name[0] in "_!-":
                    continue
                if name != "br" and (_is_unseen(node) if unseen is None else node.mem_id in unseen):
                    continue
                is_control = name == "button" or (
                    name == "a" and (_runs_script(node) if pressed is None else node.mem_id in pressed)
                )
                if name in _INLINE and not is_control:
                    if words and words[-1][-1:].isdigit() and _is_cents(node, name):
                        words.append(".")
                    if (child := node.child) is not None:
                        push((child, tag, area, bold or name in ("b", "strong")))
                    if name == "img":
                        words.append(" ")
                    continue
            elif name == "-":  # the last sibling was a text: the block around it ends with its own entry
                continue
            if words:
                text = " ".join("".join(words).split())
                if text:
                    lines.append(VisibleLine(text, tag, area, bool(all_bold)))
                    if len(lines) >= MOST_LINES:
                        return lines
                words.clear()
                all_bold = None
            if node is None or name == "br":
                continue
            if is_control:
                push((None, "button", area, False))
                if (child := node.child) is not None:
                    push((child, "button", area, False))
            else:
                inner = name if name in _AREAS else area
                push((None, name, inner, False))
                if (child := node.child) is not None:
                    push((child, name, inner, bold or name == "th"))
        if words and (text := " ".join("".join(words).split())):
            lines.append(VisibleLine(text, "body", "", bool(all_bold)))
        return lines


def _runs_script(link: LexborNode) -> bool:
    """Return whether a link is a control, whose words do not belong to the line around it."""
    return (link.attributes.get("href") or "").lstrip()[:11].lower() == "javascript:"


def _is_cents(node: LexborNode, name: str) -> bool:
    """Return whether an element that follows a digit shows the decimals of a price: `19<sup>99</sup>`."""
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


def _special_places(tree: LexborHTMLParser) -> tuple[frozenset[int], frozenset[int]]:
    """Return the hidden elements of a page and its links that run a script, by `mem_id`: one search, instead of the
    attributes of every element.

    `aria-hidden` around the headline or the main element hides nothing: scripts set it on the whole page while a dialog
    is open, such as the one that asks about cookies.
    """
    nodes = tree.css(f"{_MAYBE_UNSEEN}, {_MAYBE_PRESSED}")
    pressed = frozenset(node.mem_id for node in nodes if node.tag == "a" and _runs_script(node))
    unseen = [node for node in nodes if _is_unseen(node)]
    if not unseen:
        return frozenset(), pressed
    centres = [*tree.tags("h1")[:MOST_HEADLINES], *tree.tags("main")[:1]]
    around = {above.mem_id for node in centres for above in _ancestors(node)}
    hidden = (node.mem_id for node in unseen if node.mem_id not in around or not _is_for_readers_only(node))
    return frozenset(hidden), pressed


def _ancestors(node: LexborNode) -> Iterator[LexborNode]:
    above = node.parent
    while above is not None and above.tag != "-document":
        yield above
        above = above.parent


def _is_for_readers_only(node: LexborNode) -> bool:
    """Return whether an element is hidden from screen readers, and shown to everybody else."""
    attributes = node.attributes
    return "hidden" not in attributes and not _UNSEEN.search(attributes.get("style") or "")


def _is_unseen(node: LexborNode) -> bool:
    attributes = node.attributes
    if not attributes:
        return False
    return (
        "hidden" in attributes
        or attributes.get("aria-hidden") == "true"
        or bool(_UNSEEN.search(attributes.get("style") or ""))
    )
