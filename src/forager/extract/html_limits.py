"""A page made harmless before it is parsed: no depth, no number of attributes, no size beyond what real pages have.

An HTML5 parser takes quadratic time and memory over some pages of a few hundred kilobytes: 100,000 open <div>, tags
of 100,000 attributes, formatting elements that are opened again in every paragraph. Such a page is read flat: its
text, its links, its headings, its scripts and meta tags stay, the rest of its tags goes.

Every page passes here, so an ordinary one must cost next to nothing: a small page can do harm with formatting elements
alone, and one search counts those. Only a page that is bigger, or has many of them, is read tag by tag.
"""

import re

from forager.extract.html_depth import Depth

MOST_CHARACTERS = 6_000_000
MOST_TAGS = 150_000
MOST_ATTRIBUTES = 150
LONG_TAG = 1_024
LONGEST_TAG = 128 * 1_024
SMALL_PAGE = 32 * 1_024
FEW_TAGS = 1_500
"""Within SMALL_PAGE characters and FEW_TAGS tags, neither depth nor attributes cost more than a tenth of a second."""
FEW_REOPENED = 20_000
"""Formatting elements times tags: more are never opened again."""

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
# Formatting elements that can pile up: they have attributes, since a parser keeps three at most that are alike, and do
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
_VAST = re.compile(r"<[^<>]{131072,}+>")
_BLOCKS = frozenset(
    "div p li tr td th dt dd ul ol dl table section article header footer main nav address form".split()
)


def bounded(html: str) -> str:
    """Return the page as it is if it is like other pages; else flat, and without what is beyond reading."""
    if len(html) > MOST_CHARACTERS:
        html = _VAST.sub("", html)[:MOST_CHARACTERS]
    if "\0" in html:
        html = html.replace("\0", "")
    return html if _is_small(html) or _is_reasonable(html) else _flat(html)


def end_of_tag(html: str, start: int) -> int:
    """Return where the tag ends that begins at `start`; `start` itself if none begins there."""
    tag = _TAG.match(html, start)
    return tag.end() if tag else start


def _is_small(html: str) -> bool:
    """Whether the page is too small to do harm."""
    if len(html) > SMALL_PAGE:
        return False
    tags = html.count("<")
    return tags <= FEW_TAGS and tags * len(_PILING_UP.findall(html)) <= FEW_REOPENED


def _is_reasonable(html: str) -> bool:
    """Whether nothing is nested too deep, opened too often or too long, and nothing plays with what is markup."""
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
    """In <svg> and <math> a <style> or <title> holds markup, and <![CDATA[ text; a script may hide its own end."""
    if token[1]:
        depth.raw()
        return not (depth.foreign and _MARKUP.search(token[2])) and not _hides_its_end(token[2])
    return not (depth.foreign and token[0].startswith("<!["))


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
        # Of the others the end tag is dropped below: the rest of the page would become their text.
        is_kept = token[1] and token[1].lower() in _KEPT
        return token[0] if is_kept and _attributes_are_few(token[0].partition(">")[0]) else ""
    name = token[4].lower()
    if name in _KEPT and _attributes_are_few(token[0]):
        return token[0]
    return "<br>" if name in _BLOCKS else " "
