"""A page made harmless before it is parsed: no depth, no number of attributes, no size beyond what real pages have.

An HTML5 parser takes quadratic time and memory over some pages of a few hundred kilobytes: 100,000 open <div>, tags
of 100,000 attributes, formatting elements that are opened again in every paragraph. Such a page is read flat: its
text, its links, its headings, its scripts and meta tags stay, the rest of its tags goes.

Reading a page tag by tag costs more than parsing it, so readers do it only at the second attempt at a page, after one
has used up its time or ended its process (`core.reading.care`). Elsewhere every page passes here: a small page can do
harm with formatting elements alone, and one search counts those; only a page that is bigger, or has many of them, is
read tag by tag.
"""

import re
from collections import Counter

# The depth to which a parser nests, counted from tags alone.
#
# `Depth` follows the rules by which HTML5 parsers open and close elements. It errs on the safe side: an end tag that
# might close nothing closes nothing here, so a sloppy page may be counted deeper than it is, and a hostile one is not
# counted flatter by more than a small factor (a property test compares it with the real parser). It never looks at text
# and keeps only the names of what is open.


MOST_DEPTH = 400
"""Browsers stop at 512."""
MOST_REOPENED = 150_000
"""Formatting elements that a page may make the parser open again, in every block in which they were not closed."""
MOST_ONCE = 20
"""A second <body> gives its attributes to the first, at the cost of a comparison with each of its own."""
_FAR = 30
_BLOCKS_REPAIRED = 3
"""A parser moves a formatting element out of eight blocks at most, some of which are not on our stack."""

_VOID = frozenset(
    "area base br col embed hr img input link meta param source track wbr basefont bgsound frame keygen image".split()
)
# An element of these ends where the next of its kind begins, or its table ends; they nest only in what is counted.
_IMPLIED = frozenset("p option tr td th tbody thead tfoot html head body colgroup caption".split())
_ITEMS = frozenset(("li", "dd", "dt"))
_HEADINGS = frozenset("h1 h2 h3 h4 h5 h6".split())
_FORMATTING = frozenset("b big code em font i nobr s small strike strong tt u".split())
# An end tag of an element that is not special closes whatever is open in it, up to the first special one.
_SPECIAL = _ITEMS | frozenset(
    "address applet article aside blockquote button center details dialog dir div dl fieldset figcaption figure footer "
    "form h1 header hgroup listing main marquee menu nav noscript object ol plaintext pre search section select "
    "summary table template ul svg math mi mo mn ms mtext annotation-xml foreignobject desc "
    "ruby rb rt rtc rp".split()
)
# The next item of a list ends the one before it through these as well.
_NOT_IN_ITEM = _SPECIAL - {"div", "address"}
# One of these ends another one that is open, in one way or another.
_ALONE = frozenset(("a", "nobr", "button", "select", "h1"))
_ENDED = "†"
"""Stands for an element that may be over: no end tag closes it, and it may be closed with what it is in."""
# Behind these, an end tag does not reach the formatting elements that were opened before.
_HIDING = frozenset("table td th caption object applet marquee template select svg math".split())
_FOREIGN = frozenset(("svg", "math"))
# Elements that end an <svg>; inside of the last three is HTML again.
_LEAVES_DRAWING = frozenset(
    "b big blockquote body br center code dd div dl dt em embed h1 head hr i img li listing menu meta "
    "nobr ol p pre ruby s small span strong strike sub sup table tt u ul var font foreignobject desc title".split()
)
# Elements at which the end tags of blocks stop; other end tags stop at any special element.
_DEEP_BLOCKS = (
    "address article aside blockquote button center details dialog dir div dl fieldset figcaption figure footer header "
    "hgroup listing main menu nav ol pre search section summary ul"
)
_SCOPES = _HIDING | frozenset("mi mo mn ms mtext annotation-xml foreignobject desc".split())
_STOPS = {
    **dict.fromkeys(_DEEP_BLOCKS.split(), _SPECIAL - _ITEMS),
    "li": _SCOPES | {"ul", "ol"},
    "dd": _SCOPES,
    "dt": _SCOPES,
}
_ONCE = frozenset(("html", "body"))
# Their content is not markup, so they begin and end between two tags and are never on the stack.
_RAW = frozenset("script style textarea title xmp iframe noembed noframes".split())


class Depth:
    """Counts the open elements while the tags of a page go by, never too low."""

    def __init__(self) -> None:
        self._stack: list[str] = []
        self._walls: list[int] = []
        """For each open element, how many hiding elements had been opened before it."""
        self._wall = 0
        self._active: dict[str, list[int]] = {}
        """Formatting elements that may still be opened again, each with its number of hiding elements."""
        self._piled = 0
        self._reopened = 0
        self._once = 0
        self._foreign = 0
        self._paragraph: int | None = None
        """Number of open elements at the start of the last <p> that is still open."""
        self._choosing = False
        """In a <select> that contains only options: there, <optgroup> ends the one before it."""
        self.drawing = False
        """Surely inside <svg>, where `/>` closes an element."""

    @property
    def foreign(self) -> bool:
        """Return whether the position may be inside <svg> or <math>, where other rules apply."""
        return self._foreign > 0

    def open(self, name: str, *, itself_closed: bool) -> bool:
        """Count a start tag; False if the page goes beyond a limit."""
        if name in _HEADINGS:
            name = "h1"
        self._reopened += self._piled
        if name in _FORMATTING:
            self._active.setdefault(name, []).append(self._wall)
            self._piled += 1
        elif name in _ONCE:
            self._once += 1
        if self._reopened > MOST_REOPENED or self._once > MOST_ONCE or name == "frameset":
            return False
        if self._foreign:
            return self._open_in_foreign(name, itself_closed)
        if self._choosing and name in ("option", "optgroup"):
            return True
        self._choosing = name == "select"
        if name == "p" or (self._paragraph is not None and name in _SPECIAL):
            self._end_paragraph(name)
        if name in _VOID or name in _IMPLIED:
            self._wall += name in _HIDING
            return True
        if name in _ITEMS:
            self._end_item(name)
        elif name in _ALONE or name == "table":
            self._end_others(name)
        elif name in _FOREIGN:
            self._foreign += 1
            self.drawing = name == "svg"
            if itself_closed:
                self._foreign -= 1
                self.drawing = False
                return True
        return self._push(name)

    def close(self, name: str) -> None:
        """Count an end tag: it closes its element unless an open element may prevent that."""
        if name in _HEADINGS:
            name = "h1"
        self._reopened += self._piled
        if name in _FORMATTING:
            self._end_formatting(name)
        elif name == "p":
            self._paragraph = None
        elif name in _RAW:
            return
        if self.drawing:
            self._close_in_drawing(name)
        elif self._foreign:
            if self._stack[-1] == name:
                self._pop(1)
        else:
            self._choosing = self._choosing and name in ("option", "optgroup")
            self._close_in_html(name)

    def raw(self) -> None:
        """Count an element whose content is not markup."""
        self._choosing = False

    def _close_in_html(self, name: str) -> None:
        stops = _STOPS.get(name, _SPECIAL)
        for back, each in enumerate(reversed(self._stack[-_FAR:]), 1):
            if each == name:
                if name == "form" or self._is_kept_by_paragraph(name, len(self._stack) - back):
                    self._stack[-back] = _ENDED
                else:
                    self._pop(back)
                return
            if each in stops:
                return

    def _is_kept_by_paragraph(self, name: str, index: int) -> bool:
        """Return whether an end tag may not reach its element, because of a paragraph that began in it."""
        if self._paragraph is None or self._paragraph <= index:
            return False
        return name not in _STOPS and name not in _FORMATTING and name != "a"

    def _open_in_foreign(self, name: str, itself_closed: bool) -> bool:
        """Elements that are empty or end by themselves in HTML hold others in a drawing or a formula."""
        if name in _LEAVES_DRAWING:
            self.drawing = False
        if itself_closed and (self.drawing or name in _VOID):
            return True
        if name in _VOID and name in _LEAVES_DRAWING:
            return True
        if name in _FOREIGN:
            self._foreign += 1
        return self._push(name)

    def _close_in_drawing(self, name: str) -> None:
        """Inside <svg> an end tag closes whatever is open in its element; any other may have ended the drawing."""
        for back, each in enumerate(reversed(self._stack), 1):
            if each == name:
                self._pop(back)
                self.drawing = self.drawing and each != "svg"
                return
            if each == "svg":
                break
        self.drawing = False
        for back, each in enumerate(reversed(self._stack), 1):
            if each == name:
                self._stack[-back] = _ENDED
                return

    def _end_paragraph(self, name: str) -> None:
        """End the paragraph around a block, if there is one, with all open elements in it."""
        if self._paragraph is not None:
            for back, each in enumerate(reversed(self._stack), 1):
                if each in _SPECIAL:
                    break
                self._stack[-back] = _ENDED
        self._paragraph = len(self._stack) if name == "p" else None

    def _end_item(self, name: str) -> None:
        ended = ("li",) if name == "li" else ("dd", "dt")
        for back, each in enumerate(reversed(self._stack[-_FAR:]), 1):
            if each in ended:
                self._pop(back)
                return
            if each in _NOT_IN_ITEM:
                return

    def _end_others(self, name: str) -> None:
        """End the open table: a table ends another one unless it is in a cell of it."""
        if name in self._stack:
            for number, each in enumerate(self._stack):
                if each == name and (name != "table" or self._walls[number] + 1 == self._wall):
                    self._stack[number] = _ENDED

    def _end_formatting(self, name: str) -> None:
        """End the last formatting element of this name, unless something hides it from its end tag."""
        active = self._active.get(name)
        if not active or active[-1] != self._wall or self._foreign:
            return
        blocks = 0
        for each in reversed(self._stack[-_FAR:]):
            if each == name:
                break
            blocks += each in _SPECIAL
            if blocks > _BLOCKS_REPAIRED:
                return
        active.pop()
        self._piled -= 1

    def _push(self, name: str) -> bool:
        self._stack.append(name)
        self._walls.append(self._wall)
        self._wall += name in _HIDING
        return len(self._stack) <= MOST_DEPTH

    def _pop(self, count: int) -> None:
        if self._foreign:
            self._foreign -= sum(each in _FOREIGN for each in self._stack[-count:])
        self._wall = self._walls[-count]
        del self._stack[-count:], self._walls[-count:]


MOST_CHARACTERS = 6_000_000
MOST_TAGS = 150_000
MOST_ATTRIBUTES = 150
LONG_TAG = 1_024
LONGEST_TAG = 128 * 1_024
SMALL_PAGE = 32 * 1_024
FEW_TAGS = 1_500
"""Within SMALL_PAGE characters and FEW_TAGS tags, neither depth nor attributes cost more than a tenth of a second."""
FEW_REOPENED = 20_000
"""Limit for formatting elements times tags, which is an upper bound on the elements that the parser opens again."""

_SPACE = r"[\t\n\f\r ]"
_ATTRIBUTES = (
    rf"(?:[\t\n\f\r /]++|[^\t\n\f\r />][^\t\n\f\r />=]*+"
    rf"(?:{_SPACE}*+={_SPACE}*+(?:\"[^\"]*+\"?+|'[^']*+'?+|[^\t\n\f\r >]*+))?+)*+"
)
# The tokenizer of the HTML standard, near enough that no tag hides from it: possessive, so that it reads once. Groups:
# 1 an element whose content is not markup, and 2 that content; 3 the slash and 4 the name of any other tag.
_TOKEN = re.compile(
    r"<!--(?:-?>|(?:[^-]++|-(?!-!?>))*+(?:--!?>)?+)"
    r"|<(script|style|textarea|title|xmp|iframe|noembed|noframes)(?=[\t\n\f\r />])" + _ATTRIBUTES + r">?+"
    r"((?:[^<]++|<(?!/\1[\t\n\f\r />]))*+)"
    r"|<(/?)([a-z][^\t\n\f\r />]*+)" + _ATTRIBUTES + r">?+"
    r"|<(?:[!?]|/(?=[^a-z>]))[^>]*+>?+",
    re.IGNORECASE,
)
_TAG = re.compile(r"</?[a-z][^\t\n\f\r />]*+" + _ATTRIBUTES + r">?+", re.IGNORECASE)
# Formatting elements that can pile up: they have attributes, since a parser keeps at most three equal ones, and do
# not end behind their own text. <a> ends the one before it. Without IGNORECASE, which is slower; it also finds a few
# names that do not exist.
_PLAIN_ATTRIBUTES = r"(?:[^<>\"'=]++|=(?:\"[^<>\"']*+\"|[^\t\n\f\r <>\"'=]++))*+"
_PILING_UP = re.compile(
    r"<([bBcCeEfFiInNsStTuU](?:[iI][gG]|[oO][dD][eE]|[mM](?:[aA][lL][lL])?+|[oO][nN][tT]|[oO][bB][rR]"
    rf"|[tT](?:[rR](?:[iI][kK][eE]|[oO][nN][gG]))?+)?+)[\t\n\f\r /](?!{_PLAIN_ATTRIBUTES}>[^<]*+</\1>)"
)
_MARKUP = re.compile(r"<[a-z/!]", re.IGNORECASE)
_QUOTED = re.compile(r"\"[^\"]*+\"|'[^']*+'")
_KEPT = frozenset("title meta link base script style a h1 h2 h3 br".split())
_MARKED = re.compile(r"[\t\n\f\r /\"'](?:itemscope|itemprop|typeof|property)[\t\n\f\r =/>]", re.IGNORECASE)
"""A tag with an attribute of microdata or RDFa."""
_OWN_VALUE = frozenset("img source audio video area time data meter".split())
"""Elements whose value as a property is in an attribute of their own; <a>, <link> and <meta> stay in any case."""
MOST_MARKED = 20_000
MOST_MARKED_DEPTH = 50
"""Elements with structured data, in all and inside of one another, that stay in a page that is read flat."""
_VAST = re.compile(r"<[^<>]{131072,}+>")
_BLOCKS = frozenset(
    "div p li tr td th dt dd ul ol dl table section article header footer main nav address form".split()
)


def bounded(html: str) -> str:
    """Return the page as it is if it is like other pages; else flat, and without what is beyond reading."""
    html = within_size(html)
    return html if _is_small(html) or _is_reasonable(html) else _flat(html)


def within_size(html: str) -> str:
    """Return the page without NUL characters, and without what is beyond reading."""
    if len(html) > MOST_CHARACTERS:
        html = _VAST.sub("", html)[:MOST_CHARACTERS]
    if "\0" in html:
        html = html.replace("\0", "")
    return html


def end_of_tag(html: str, start: int) -> int:
    """Return where the tag ends that begins at `start`; `start` itself if none begins there."""
    tag = _TAG.match(html, start)
    return tag.end() if tag else start


def _is_small(html: str) -> bool:
    """Return whether the page is too small to do harm."""
    if len(html) > SMALL_PAGE:
        return False
    tags = html.count("<")
    return tags <= FEW_TAGS and tags * len(_PILING_UP.findall(html)) <= FEW_REOPENED


def _is_reasonable(html: str) -> bool:
    """Return whether nothing is nested too deep, opened too often or too long, and nothing plays with what is
    markup."""
    depth, tags = Depth(), 0
    for token in _TOKEN.finditer(html):
        name = token[4]
        if not name:
            if not _is_plain(token, depth):
                return False
            continue
        tags += 1
        if tags > MOST_TAGS or (token.end() - token.start() > LONG_TAG and not _attributes_are_few(token[0])):
            return False
        if token[3]:
            depth.close(name.lower())
        elif not depth.open(name.lower(), itself_closed=html[token.end() - 2] == "/"):
            return False
    return True


def _is_plain(token: re.Match[str], depth: Depth) -> bool:
    """Return whether a page has no markup with other rules: <style> or <title> inside <svg> or <math> holds markup,
    <![CDATA[ holds text, and a script may hide its own end."""
    if token[1]:
        depth.raw()
        return not (depth.foreign and _MARKUP.search(token[2])) and not _hides_its_end(token[2])
    return not (depth.foreign and token[0].startswith("<!["))


def _hides_its_end(script: str) -> bool:
    """Return whether `<!--<script>` is open at the end of a script's content: then the next </script> does not end
    it.

    `-->` ends both, so only the text after the last one counts: templates kept in a script have many comments.
    """
    tail = script[script.rfind("-->") + 1 :].lower()
    opened = tail.find("<!--")
    return opened >= 0 and tail.find("<script", opened) >= 0


def _attributes_are_few(tag: str) -> bool:
    return len(tag) <= LONGEST_TAG and len(_QUOTED.sub("", tag).split()) <= MOST_ATTRIBUTES


def _flat(html: str) -> str:
    return _TOKEN.sub(_Flattening().replaced, html)


class _Flattening:
    """Replaces the tags of a page that is read flat.

    Elements with structured data stay, because an item consists of the properties inside of it. They become <span>,
    which needs no parent and ends nowhere but at its end tag, unless their name decides where their value is. Their
    number and depth are limited, so that the result is harmless.
    """

    def __init__(self) -> None:
        self._open: list[tuple[str, str]] = []
        """Name of each open element, and the name under which it stays; an empty text if it does not."""
        self._counts: Counter[str] = Counter()
        self._depth = 0
        self._left = MOST_MARKED

    def replaced(self, token: re.Match[str]) -> str:
        if token[4] is None:
            # The end tag of the others is dropped below, so the rest of the page would become their text.
            is_kept = token[1] and token[1].lower() in _KEPT
            return token[0] if is_kept and _attributes_are_few(token[0].partition(">")[0]) else ""
        name = token[4].lower()
        if name in _KEPT and _attributes_are_few(token[0]):
            return token[0]
        blank = "<br>" if name in _BLOCKS else " "
        if token[3]:
            return self._end(name) + blank
        return (self._end(name) if name == "p" else "") + blank + self._start(name, token)

    def _start(self, name: str, token: re.Match[str]) -> str:
        tag = token[0]
        stays = self._depth < MOST_MARKED_DEPTH and self._left and _MARKED.search(tag) and _attributes_are_few(tag)
        kept = (name if name in _OWN_VALUE else "span") if stays else ""
        if name not in _VOID:
            self._open.append((name, kept))
            self._counts[name] += 1
            self._depth += bool(kept)
        self._left -= bool(kept)
        return f"<{kept}{tag[1 + len(token[4]) :]}" if kept else ""

    def _end(self, name: str) -> str:
        """End the last element of this name, with all that is open in it. Nothing, if none is open."""
        ends = ""
        while self._counts[name]:
            each, kept = self._open.pop()
            self._counts[each] -= 1
            self._depth -= bool(kept)
            ends += f"</{kept}>" if kept else ""
            if each == name:
                break
        return ends
