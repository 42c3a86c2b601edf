"""Observe a watched page, and compare two observations by word and by field. Pure.

A text is compared line by line. Dates and counters can be masked, and the places that differ at every check are learnt
as noise: the gap after a line that stays is noise once it has differed in `NOISY` checks in a row.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any, Literal

from forager.extract.html.document import Document, decoded
from forager.extract.html.main_text import main_text
from forager.extract.schemas.read import read_schema
from forager.extract.schemas.spec import PageSchema
from forager.extract.text.strings import one_line

Mode = Literal["text", "select", "schema"]
Ignored = Literal["dates", "counters"]
LONGEST_TEXT = 50_000
MOST_LINES = 2_000
MOST_SHOWN = 20
NOISY = 3
MOST_NOISE = 200
LONGEST_SHOWN = 500
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\.?"
_DATES = re.compile(
    r"\b\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?(?:\.\d+)?(?:Z|[+-]\d{2}:?\d{2})?)?"
    rf"|\b{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?(?:,? \d{{4}})?\b|\b\d{{1,2}}\.? {_MONTH}(?: \d{{4}})?\b"
    r"|\b\d{1,2}[./]\d{1,2}[./]\d{2,4}\b|\b\d{1,2}:\d{2}(?::\d{2})?(?: ?[ap]m)?\b"
    r"|\b(?:an?|\d{1,4}) (?:second|minute|hour|day|week|month|year)s? ago\b|\b(?:just now|yesterday|today)\b",
    re.IGNORECASE,
)
_COUNTED = (
    "views?|visits?|visitors?|likes?|shares?|comments?|replies|followers?|subscribers?|downloads?|votes?|points?"
    "|reads?|people|users?|online|stars?|ratings?|reviews?|sold|watching"
)
_COUNTERS = re.compile(rf"\b\d[\d.,]{{0,14}}[km]? (?:{_COUNTED})\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Observation:
    """One look at a page."""

    title: str | None
    text: str | None
    fields: dict[str, Any] | None = None
    sources: dict[str, Any] | None = None
    missing: str | None = None
    """Why there is nothing to compare: no element matches the selector."""


def observe(
    body: bytes, content_type: str | None, url: str, mode: Mode, select: str | None, schema: PageSchema | None
) -> Observation:
    """Read what a watch is about. Everything needed is an argument, because a big page is read in another process."""
    document = Document(decoded(body, content_type), url)
    title = (document.title or document.headline or "")[:500] or None
    if schema is not None:
        read = read_schema(schema, document)
        values: dict[str, Any] = {name: each.value for name, each in read.values.items()}
        if read.items:
            values["items"] = read.items
        told = {name: {"source": each.source, "confidence": each.confidence} for name, each in read.values.items()}
        missing = None if values else "no field of the schema was found"
        return Observation(title, None, values, told, missing)
    if select is not None:
        lines = [one_line(node.text(separator=" ")) for node in document.tree.css(select)[:MOST_LINES]]
        found = [line for line in lines if line]
        missing = None if found else f"no element matches {select}"
        return Observation(title, "\n".join(found)[:LONGEST_TEXT] or None, missing=missing)
    text = main_text(document, "text")
    whole = text or document.text
    lines = [one_line(line) for line in whole.splitlines()]
    return Observation(title, "\n".join([line for line in lines if line][:MOST_LINES])[:LONGEST_TEXT] or None)


def masked(text: str, ignored: Sequence[str]) -> str:
    """Return a text without what is ignored in it."""
    if "dates" in ignored:
        text = _DATES.sub("·", text)
    if "counters" in ignored:
        text = _COUNTERS.sub("·", text)
    return text


@dataclass(slots=True)
class Difference:
    """The difference between an observation and the one before."""

    summary: str = ""
    lines: list[dict[str, str]] = field(default_factory=list)
    """Changed places of a text: `before`, `after`, and `words` with `[-removed-]` and `{+added+}`."""
    fields: dict[str, dict[str, Any]] = field(default_factory=dict)
    added: int = 0
    removed: int = 0
    """Words."""

    def __bool__(self) -> bool:
        return bool(self.lines or self.fields)

    def as_json(self) -> dict[str, Any]:
        return {
            **({"lines": self.lines[:MOST_SHOWN], "added": self.added, "removed": self.removed} if self.lines else {}),
            **({"fields": self.fields} if self.fields else {}),
        }


def gaps(before: str, after: str, ignored: Sequence[str]) -> list[tuple[str, list[str], list[str]]]:
    """Return the places at which two texts differ: (mark of the place, lines before, lines after)."""
    old, new = before.splitlines()[:MOST_LINES], after.splitlines()[:MOST_LINES]
    plain_old, plain_new = [masked(line, ignored) for line in old], [masked(line, ignored) for line in new]
    found = []
    for how, i, j, k, m in SequenceMatcher(None, plain_old, plain_new, autojunk=False).get_opcodes():
        if how != "equal":
            anchor = plain_old[i - 1] if i else ""
            found.append((hashlib.sha256(anchor.encode("utf-8", "replace")).hexdigest()[:12], old[i:j], new[k:m]))
    return found


def learnt(noise: Mapping[str, int], places: Sequence[str]) -> dict[str, int]:
    """Return the checks in a row in which each place has differed, after another check. A noisy place that then stays
    the same for `NOISY` checks is no longer noise."""
    now = {place: min(noise.get(place, 0) + 1, 2 * NOISY) for place in places}
    for place, count in noise.items():
        if place not in now and count >= NOISY:
            now[place] = count - 1
    ordered = sorted(now.items(), key=lambda each: -each[1])
    return {place: count for place, count in ordered[:MOST_NOISE] if count > 0}


def compare_texts(before: str, after: str, ignored: Sequence[str], noise: Mapping[str, int]) -> Difference:
    """Compare two texts. Ignored differences and noisy places are left out."""
    difference = Difference()
    for place, old, new in gaps(before, after, ignored):
        if noise.get(place, 0) >= NOISY:
            continue
        words, added, removed = by_word(" ".join(old), " ".join(new))
        difference.added += added
        difference.removed += removed
        shown = {"before": " ".join(old)[:LONGEST_SHOWN], "after": " ".join(new)[:LONGEST_SHOWN], "words": words}
        difference.lines.append(shown)
    if difference.lines:
        first = difference.lines[0]
        more = f" and {len(difference.lines) - 1} more" if len(difference.lines) > 1 else ""
        counts = f"{difference.added} {_words(difference.added)} added, {difference.removed} removed"
        difference.summary = f"{counts}: {first['words'][:300]}{more}"
    return difference


def by_word(before: str, after: str) -> tuple[str, int, int]:
    """Return the difference of two lines with its words marked, and how many words were added and removed."""
    old, new = before.split()[:MOST_LINES], after.split()[:MOST_LINES]
    parts, added, removed = [], 0, 0
    for how, i, j, k, m in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if how == "equal":
            same = old[i:j]
            parts.append(" ".join(same if len(same) <= 8 else [*same[:3], "…", *same[-3:]]))
            continue
        if j > i:
            parts.append(f"[-{' '.join(old[i:j])}-]")
        if m > k:
            parts.append(f"{{+{' '.join(new[k:m])}+}}")
        added, removed = added + m - k, removed + j - i
    return " ".join(parts)[:LONGEST_SHOWN], added, removed


def compare_fields(before: Mapping[str, Any], after: Mapping[str, Any]) -> Difference:
    """Return the fields whose values differ."""
    difference = Difference()
    for name in dict.fromkeys([*before, *after]):
        if before.get(name) != after.get(name):
            difference.fields[name] = {"before": before.get(name), "after": after.get(name)}
    told = [f"{name}: {_shown(each['before'])} → {_shown(each['after'])}" for name, each in difference.fields.items()]
    difference.summary = "; ".join(told)[:LONGEST_SHOWN]
    return difference


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, list):
        return "1 item" if len(value) == 1 else f"{len(value)} items"
    return str(value)[:80]


def _words(count: int) -> str:
    return "word" if count == 1 else "words"
