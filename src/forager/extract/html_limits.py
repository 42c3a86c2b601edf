"""A page made harmless before it is parsed: no depth, no number of attributes, no size beyond what real pages have.

An HTML5 parser takes quadratic time and memory over some pages of a few hundred kilobytes: 100,000 open <div>, tags
of 100,000 attributes, formatting elements that are opened again in every paragraph. Such a page is read flat: its
text, its links, its headings, its scripts and meta tags stay, the rest of its tags goes. Nothing is ever nested
deeper than it is counted here.
"""

import re

MOST_CHARACTERS = 6_000_000
MOST_DEPTH = 400
"""Browsers stop at 512."""
MOST_FORMATTING = 60
"""Open <b>, <font> …: a parser opens all of them anew in every block."""
MOST_TAGS = 150_000
MOST_ATTRIBUTES = 150
LONG_TAG = 1_024
LONGEST_TAG = 128 * 1_024
FEW_TAGS = 800
"""So few cannot hurt, whatever they are."""

_SPACE = r"[\t\n\f\r ]"
_ATTRIBUTES = (
    rf"(?:[\t\n\f\r /]++|[^\t\n\f\r />][^\t\n\f\r />=]*+"
    rf"(?:{_SPACE}*+={_SPACE}*+(?:\"[^\"]*+\"?+|'[^']*+'?+|[^\t\n\f\r >]*+))?+)*+"
)
# The tokenizer of the HTML standard, near enough that no tag hides from it: possessive, so that it reads once. Groups:
# 1 an element whose content is no markup, and 2 that content; 3 the slash and 4 the name of any other tag.
_TOKEN = re.compile(
    r"<!--(?:-?>|(?:[^-]++|-(?!-!?>))*+(?:--!?>)?+)"
    r"|<(script|style|textarea|title|xmp|iframe|noembed|noframes)(?=[\t\n\f\r />])" + _ATTRIBUTES + r">?+"
    r"((?:[^<]++|<(?!/\1[\t\n\f\r />]))*+)"
    r"|<(/?)([a-z][^\t\n\f\r />]*+)" + _ATTRIBUTES + r">?+"
    r"|<(?:[!?]|/(?=[^a-z>]))[^>]*+>?+",
    re.IGNORECASE,
)
_MARKUP = re.compile(r"<[a-z/!]", re.IGNORECASE)
_QUOTED = re.compile(r"\"[^\"]*+\"|'[^']*+'")
_VOID = frozenset("area base br col embed hr img input link meta param source track wbr basefont bgsound frame".split())
# An element of these ends where the next of its kind begins; what they nest in is counted.
_IMPLIED = frozenset("p li dt dd option optgroup tr td th tbody thead tfoot html head body colgroup caption".split())
_FORMATTING = frozenset("a b big code em font i nobr s small strike strong tt u".split())
_ORDINARY = _FORMATTING | frozenset(
    "span label abbr cite q sub sup time mark var kbd samp ins del bdi bdo data".split()
)
# What an <svg> cannot hold ends it; inside of the last three is HTML again.
_LEAVES_DRAWING = frozenset(
    "b big blockquote body br center code dd div dl dt em embed h1 h2 h3 h4 h5 h6 head hr i img li listing menu meta "
    "nobr ol p pre ruby s small span strong strike sub sup table tt u ul var font foreignobject desc title".split()
)
_ONCE = frozenset(("html", "body"))
MOST_ONCE = 20
"""A second <body> gives its attributes to the first, which compares them with all that are there."""
_KEPT = frozenset("title meta link base script style a h1 h2 h3 br".split())
_VAST = re.compile(r"<[^<>]{131072,}+>")
_BLOCKS = frozenset(
    "div p li tr td th dt dd ul ol dl table section article header footer main nav address form".split()
)


def bounded(html: str) -> str:
    """The page, as it is if it is like other pages; else flat, and without what is beyond reading."""
    if len(html) > MOST_CHARACTERS:
        html = _VAST.sub("", html)[:MOST_CHARACTERS]
    if "\0" in html:
        html = html.replace("\0", "")
    if html.count("<") <= FEW_TAGS and len(html) < FEW_TAGS * LONG_TAG:
        return html if _tags_are_short(html) else _flat(html)
    return html if _is_reasonable(html) else _flat(html)


def _tags_are_short(html: str) -> bool:
    return all(len(piece) < LONG_TAG for piece in html.split("<")) or _is_reasonable(html)


def _is_reasonable(html: str) -> bool:
    """Whether nothing is nested too deep, opened too often or too long, and nothing plays with what is markup."""
    depth, tags = _Depth(), 0
    for token in _TOKEN.finditer(html):
        name = (token[4] or "").lower()
        if not name:
            if not depth.is_plain(token):
                return False
            continue
        tags += 1
        if tags > MOST_TAGS or (token.end() - token.start() > LONG_TAG and not _attributes_are_few(token[0])):
            return False
        if token[3]:
            depth.close(name)
        elif not depth.open(name, itself_closed=token[0].endswith("/>")):
            return False
    return True


class _Depth:
    """What is open, never counted too low: an end tag that might close nothing closes nothing here."""

    def __init__(self) -> None:
        self.stack: list[str] = []
        self.counts: dict[str, int] = {}
        self.drawing = False
        """Surely inside <svg>, where `/>` closes an element."""

    def is_plain(self, token: re.Match[str]) -> bool:
        """In <svg> and <math> a <style> or <title> holds markup, and <![CDATA[ text; a script may hide its own end."""
        foreign = "svg" in self.stack or "math" in self.stack
        if token[1]:
            return not (foreign and _MARKUP.search(token[2])) and not _hides_its_end(token[2])
        return not (foreign and token[0].startswith("<!["))

    def open(self, name: str, *, itself_closed: bool) -> bool:
        if name in _FORMATTING or name in _ONCE:
            self.counts[name] = self.counts.get(name, 0) + 1
            if self.counts[name] > (MOST_ONCE if name in _ONCE else MOST_FORMATTING):
                return False
        if name in _LEAVES_DRAWING:
            self.drawing = False
        if name in _VOID or name in _IMPLIED or (self.drawing and itself_closed):
            return True
        self.drawing = self.drawing or name == "svg"
        self.stack.append(name)
        return len(self.stack) <= MOST_DEPTH

    def close(self, name: str) -> None:
        """It closes what is open above its element only if that is ordinary."""
        if name in _FORMATTING:
            self.counts[name] = max(0, self.counts.get(name, 0) - 1)
        if name in ("svg", "p", "br"):
            self.drawing = False
        for back in range(1, min(len(self.stack), 30) + 1):
            if self.stack[-back] == name:
                del self.stack[-back:]
                return
            if self.stack[-back] not in _ORDINARY:
                return


def _hides_its_end(script: str) -> bool:
    """Whether `<!--<script>` stands open at the end of a script's content: then the next </script> does not end it.

    `-->` ends both, so that only what follows the last one counts: templates kept in a script have many comments.
    """
    tail = script[script.rfind("-->") + 1 :].lower()
    opened = tail.find("<!--")
    return opened >= 0 and tail.find("<script", opened) >= 0


def _attributes_are_few(tag: str) -> bool:
    return len(tag) <= LONGEST_TAG and len(_QUOTED.sub("", tag).split()) <= MOST_ATTRIBUTES


def _flat(html: str) -> str:
    return _TOKEN.sub(_flattened, html)


def _flattened(token: re.Match[str]) -> str:
    if token[4] is None:
        return token[0] if token[1] and _attributes_are_few(token[0].partition(">")[0]) else ""
    name = token[4].lower()
    if name in _KEPT and _attributes_are_few(token[0]):
        return token[0]
    return "<br>" if name in _BLOCKS else " "
