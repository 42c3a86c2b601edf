"""The beginning of a page's tree, if that is enough to read its markup. Pure.

An HTML parser works from the beginning to the end, so a page whose meta tags, JSON-LD and headline end after a tenth of
it needs only a tenth of the time. Their places are found by searching the text, which may also find one inside of a
script, a comment or an attribute, or the end of an element that is not the one that began.

So a comment is appended to the beginning, and the tree shows how the parser has read it: inside every element that is
still open, or as something other than a comment. The rest of the page can change its beginning in three ways only: by
adding to an open element (more text for a headline, content that is moved out of a table), by a second <html>, whose
attributes are added to the first, or by a <frameset>, which replaces the body. In all these cases, and whenever it is
not certain, the whole page is parsed.
"""

import re
from typing import NamedTuple

from selectolax.lexbor import LexborHTMLParser

from forager.extract.html_limits import LONG_TAG, MOST_CHARACTERS, bounded, end_of_tag

WORTH = 0.6
"""Share of a page up to which its beginning is parsed by itself: what is parsed twice costs at most that much more."""
END = "end of the beginning"
"""Text of the comment that shows what is open at the end."""
_GROWING = frozenset(("h1", "title", "script", "table"))
"""Elements to which what follows adds text, or, for a table, before which it puts elements. An open <script> can have a
comment only in <svg>."""
_CHANGING = re.compile(r"<(?:html|frameset|script)")
_SIGN = re.compile(r"[\t\n\f\r ]*=")
_TYPE_WITH_AN_ENTITY = re.compile(r"type[\t\n\f\r ]*=[\t\n\f\r ]*(?:\"[^\"]*&|'[^']*&|[^\t\n\f\r \"'>]*&)")


class Marks(NamedTuple):
    """Which ways of marking data a page uses, by a search of its text."""

    json_ld: int
    """Where its name stands last; -1 if nowhere."""
    microdata: bool
    loose: bool
    """Whether it has properties, inside or outside of an item."""
    rdfa: bool
    base: int
    """Where a <base> begins last; -1 if nowhere."""

    @classmethod
    def of(cls, lowered: str) -> "Marks":
        """Search a page in lower case. A search costs a fifth of a look through the tree, and `rfind` less than
        `in`."""
        find = lowered.rfind
        items, properties = find("itemscope"), find("itemprop")
        return cls(find("ld+json"), items >= 0, properties >= 0, _has_types(lowered), find("<base"))


def _has_types(lowered: str) -> bool:
    """Whether an attribute `typeof` may be in the page. `typeof` without the sign is a word of many scripts."""
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
    if marks.json_ld < 0 or marks.microdata or marks.loose or marks.rdfa:
        return None
    if len(source) > MOST_CHARACTERS or source.rfind("\0") >= 0:
        return None  # the places in the text would not be those of what is parsed
    end = _end_of_markup(source, lowered, marks)
    if end is None or end > len(source) * WORTH or _changes_what_precedes(lowered, end):
        return None
    tree = LexborHTMLParser(bounded(f"{source[:end]}<!--{END}-->"))
    return tree if _is_complete(tree) else None


def _end_of_markup(source: str, lowered: str, marks: Marks) -> int | None:
    """Where the last meta tag, base, JSON-LD script and first headline have ended, whichever is last."""
    headline = lowered.find("<h1")
    ends = [lowered.find("</script", marks.json_ld), lowered.find("</h1", headline) if headline >= 0 else 0]
    if min(ends) < 0:
        return None
    ends += [lowered.rfind("<meta"), marks.base]
    return max(end_of_tag(source, place) for place in ends if place >= 0)


def _changes_what_precedes(lowered: str, end: int) -> bool:
    """Whether the rest of the page has JSON-LD under an escaped name, or a tag that changes the root or the body."""
    for found in _CHANGING.finditer(lowered, end):
        if found[0] != "<script":
            return True
        tag = lowered[found.start() : end_of_tag(lowered, found.start())]
        if "<" in tag[1:] or ("&" in tag and (len(tag) > LONG_TAG or _TYPE_WITH_AN_ENTITY.search(tag))):
            return True
    return False


def _is_complete(tree: LexborHTMLParser) -> bool:
    """Whether the comment at the end is one, and stands in no element that may still grow."""
    body = tree.body
    # The parser adds an empty body if the text has ended before it.
    node = body.prev if body is not None and body.child is None else tree.root
    while node is not None and node.tag not in _GROWING:
        if node.is_comment_node:
            return node.comment_content == END
        node = node.last_child
    return False
