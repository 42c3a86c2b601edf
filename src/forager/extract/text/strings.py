"""Plain text out of text that may hold HTML, entities and odd blanks. Pure, linear, never raises."""

import html
import re

MOST_CHARACTERS = 200_000
"""Most characters of a field. A longer one is cut, after tags are gone."""
MOST_SOURCE = 1_000_000
"""Most characters of a text with tags that are read."""
_ROUNDS = 4
"""Entities hide tags, and those hide entities: `&amp;lt;b&amp;gt;`. Number of rounds in which they are removed."""

_RAW = re.compile(r"<(script|style|template|noscript)\b[^<]*+(?:<(?!/\1)[^<]*+)*+(?:</\1[^>]*+>|\Z)", re.IGNORECASE)
_COMMENT = re.compile(r"<!--(?:[^-]++|-(?!->))*+(?:-->|\Z)")
_BREAK = re.compile(
    r"<(?:br|/?(?:p|div|li|[uod]l|d[td]|h[1-6]|t[rdh]|table|section|article|blockquote))\b[^<>]*+>", re.IGNORECASE
)
TAG = re.compile(r"<[/!?]?[a-zA-Z][^<>]*+>|<[!?][^<>]*+>")
# Control and format characters but tab and line ends; the joiners of scripts and emoji stay.
_INVISIBLE = re.compile(
    r"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff]"
)
_LINE_ENDS = re.compile(r"[\n\r\x0b\x0c\x85\u2028\u2029]+")


def one_line(value: str) -> str:
    """Return the text without tags, entities and invisible characters, and with single blanks as white space."""
    if value.isprintable() and "<" not in value and "&" not in value and len(value) <= MOST_CHARACTERS:
        # The only white space that is printable is the blank. Most values are clean, and read several times.
        return " ".join(value.split()) if "  " in value or value[:1] == " " or value[-1:] == " " else value
    return " ".join(_without_tags(_bounded(value), " ").split())[:MOST_CHARACTERS].rstrip()


def paragraphs(value: str) -> str:
    """Return the same as `one_line`, but keep the line breaks between paragraphs."""
    lines = (" ".join(line.split()) for line in _LINE_ENDS.split(_without_tags(_bounded(value), "\n")))
    return "\n".join(line for line in lines if line)[:MOST_CHARACTERS].rstrip()


def _bounded(value: str) -> str:
    """Return a text that is not too long; one that is cut does not end in the middle of a tag."""
    if len(value) <= MOST_SOURCE:
        return value
    cut = value[:MOST_SOURCE]
    begun, ended = cut.rfind("<"), cut.rfind(">")
    return cut[:begun] if begun > ended else cut


def _without_tags(value: str, gap: str) -> str:
    if "<" not in value and "&" not in value:
        return value if value.isprintable() else _INVISIBLE.sub("", value)  # no invisible character is printable
    for _ in range(_ROUNDS):
        if "<" not in value and "&" not in value:
            break
        before = value
        if "<" in value:
            value = TAG.sub(" ", _BREAK.sub(gap, _RAW.sub(gap, _COMMENT.sub("", value))))
        value = html.unescape(value)
        if value == before:
            break
    value = _INVISIBLE.sub("", value)
    while TAG.search(value):  # markup that was escaped several times, or hidden by an invisible character
        value = TAG.sub(" ", value)
    return value


# Confidence in all extractors: the probability that a value is right, from 0 to 1.


DISAGREED = 0.6
"""The part of a value's confidence that is left when another reliable source has another value."""
