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
# The tokenizer of the HTML standard, near enough that no tag hides from it: possessive, so that it reads once.
_TOKEN = re.compile(
    r"<!--(?:[^-]++|-(?!->))*+(?:-->)?+"
    r"|<(script|style|textarea|title|xmp|iframe|noembed|noframes|noscript)\b" + _ATTRIBUTES + r">?+"
    r"(?:[^<]++|<(?!/\1\b))*+"
    r"|<(/?)([a-z][^\t\n\f\r />]*+)" + _ATTRIBUTES + r">?+",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"\"[^\"]*+\"|'[^']*+'")
_VOID = frozenset("area base br col embed hr img input link meta param source track wbr basefont bgsound frame".split())
# An element of these ends where the next of its kind begins; what they nest in is counted.
_IMPLIED = frozenset("p li dt dd option optgroup tr td th tbody thead tfoot html head body colgroup caption".split())
_FORMATTING = frozenset("a b big code em font i nobr s small strike strong tt u".split())
_ORDINARY = _FORMATTING | frozenset(
    "span label abbr cite q sub sup time mark var kbd samp ins del bdi bdo data".split()
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
    """Whether nothing is nested too deep, opened too often or too long."""
    stack: list[str] = []
    counts: dict[str, int] = {}
    tags = 0
    for token in _TOKEN.finditer(html):
        name = token[3]
        length = token.end() - token.start()
        if name is None:
            continue
        tags += 1
        name = name.lower()
        if tags > MOST_TAGS or (length > LONG_TAG and not _attributes_are_few(token[0])):
            return False
        if name in _FORMATTING:
            counts[name] = max(0, counts.get(name, 0) + (-1 if token[2] else 1))
            if counts[name] > MOST_FORMATTING:
                return False
        if name in _ONCE:
            counts[name] = counts.get(name, 0) + 1
            if counts[name] > MOST_ONCE:
                return False
        if name in _VOID or name in _IMPLIED:
            continue
        if token[2]:
            _close(stack, name)
        else:
            stack.append(name)
            if len(stack) > MOST_DEPTH:
                return False
    return True


def _close(stack: list[str], name: str) -> None:
    """An end tag closes what is open above its element only if that is ordinary: so depth is never counted too low."""
    for back in range(1, min(len(stack), 30) + 1):
        if stack[-back] == name:
            del stack[-back:]
            return
        if stack[-back] not in _ORDINARY:
            return


def _attributes_are_few(tag: str) -> bool:
    return len(tag) <= LONGEST_TAG and len(_QUOTED.sub("", tag).split()) <= MOST_ATTRIBUTES


def _flat(html: str) -> str:
    return _TOKEN.sub(_flattened, html)


def _flattened(token: re.Match[str]) -> str:
    if token[3] is None:
        return token[0] if token[1] and _attributes_are_few(token[0].partition(">")[0]) else ""
    name = token[3].lower()
    if name in _KEPT and _attributes_are_few(token[0]):
        return token[0]
    return "<br>" if name in _BLOCKS else " "
