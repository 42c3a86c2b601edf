"""How far a page must be parsed to read its markup. Pure.

An HTML parser works from the beginning to the end: the tree of a page's beginning is the beginning of the page's tree.
So a page whose meta tags, JSON-LD and headline end after a tenth of it needs only a tenth of the time. The places are
found by searching the text, which may also find one inside of a script or an attribute: then more is parsed than
necessary, never less.
"""

from typing import NamedTuple

from forager.extract.html_limits import end_of_tag

WORTH = 0.6
"""Share of a page up to which its beginning is parsed by itself: what is parsed twice costs at most that much more."""


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
        """Search a page in lower case. A search costs a fifth of a look through the tree, and `rfind` less than `in`.
        `typeof` without the sign is a word of many scripts."""
        find = lowered.rfind
        items, properties, types = find("itemscope"), find("itemprop"), find("typeof=")
        return cls(find("ld+json"), items >= 0, properties >= 0, types >= 0, find("<base"))


def end_of_markup(source: str, lowered: str, marks: Marks) -> int | None:
    """Return where the last meta tag, base, JSON-LD script and first headline have ended, whichever is last.

    `lowered` is the page in lower case. Returns None if the whole page is to be parsed: there is no JSON-LD, which
    makes the rest unnecessary; other markup is in use; or the end is too near to the end of the page.
    """
    if marks.json_ld < 0 or marks.microdata or marks.loose or marks.rdfa:
        return None
    if len(lowered) != len(source) or lowered.rfind("ld&#") >= 0:
        return None  # letters that are longer in lower case; JSON-LD under an escaped name
    headline = lowered.find("<h1")
    ends = [lowered.find("</script", marks.json_ld), lowered.find("</h1", headline) if headline >= 0 else 0]
    if min(ends) < 0:
        return None
    ends += [lowered.rfind("<meta"), marks.base]
    end = max(end_of_tag(source, place) for place in ends if place >= 0)
    return end if end <= len(source) * WORTH else None
