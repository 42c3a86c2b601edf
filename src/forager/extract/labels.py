"""Values that a page gives after a label: `Location: Berlin`, or a heading and what stands under it. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from forager.extract.document import Document, Line

LONGEST_VALUE = 300
LONGEST_LABEL = 30
_LABEL_TAGS = frozenset("dt th h1 h2 h3 h4 h5 h6 label".split())


@dataclass(frozen=True, slots=True)
class Labelled:
    label: str
    value: str
    line: int
    sure: bool
    """By a colon, by a tag that is made for labels, or as two cells of a table."""


def labelled(document: Document, words: str, *, most: int = LONGEST_VALUE) -> Iterator[Labelled]:
    """What follows a label that these words (a pattern) make up, in page order."""
    pattern = re.compile(
        rf"^\W{{0,3}}(?P<label>(?:{words})(?:\s*[:：]?\s*\([^)]{{0,40}}\))?)\s*(?P<colon>[:：]+)?\s*(?P<value>.*)$",
        re.IGNORECASE,
    )
    lines = document.shown
    for at, line in enumerate(lines):
        if len(line.text) > most + 60:
            continue
        match = pattern.match(line.text)
        if not match:
            continue
        value = match["value"].strip(" :|*")
        if value and match["colon"]:
            yield Labelled(match["label"], value, at, True)
        elif not value:
            after = next(
                (
                    at + ahead
                    for ahead in (1, 2)
                    if lines[at + ahead : at + ahead + 1] != () and lines[at + ahead].tag != "button"
                ),
                None,
            )
            if after is not None and _is_value(lines[after], most):
                in_table = line.tag == "td" == lines[after].tag and len(line.text) <= LONGEST_LABEL
                sure = bool(match["colon"]) or line.bold or line.tag in _LABEL_TAGS or in_table
                yield Labelled(match["label"], lines[after].text.strip(), after, sure)


def _is_value(line: Line, most: int) -> bool:
    """Neither the next label nor the next headline."""
    ended = line.text.rstrip().endswith((":", "*"))
    return len(line.text) <= most and not ended and line.tag not in _LABEL_TAGS
