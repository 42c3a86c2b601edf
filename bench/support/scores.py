"""Counts the values that were read right, wrong and not at all, by page and field."""

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Literal

from bench.support.held_out import is_held_out

Judge = Callable[[Any], bool]
"""Returns whether a value of ours is the right one."""
Verdict = Literal["right", "wrong", "missing"]


@dataclass(frozen=True, slots=True)
class Answer:
    """One asserted field of one page, and what was read there."""

    page: str
    name: str
    verdict: Verdict
    ours: str
    expected: str
    confidence: float | None = None
    """Confidence of the extractor in its value; None if it gave none."""


@dataclass(slots=True)
class Score:
    """The answers for the pages of one kind."""

    answers: list[Answer] = field(default_factory=list)
    milliseconds: list[float] = field(default_factory=list)
    """Reading time of each page."""

    @property
    def right(self) -> int:
        return self._count("right")

    @property
    def wrong(self) -> int:
        return self._count("wrong")

    @property
    def missing(self) -> int:
        return self._count("missing")

    @property
    def recall(self) -> float:
        """Return the share of the asserted fields that was read right."""
        return self.right / max(1, len(self.answers))

    @property
    def precision(self) -> float:
        """Return the share of the values given for asserted fields that is right."""
        return self.right / max(1, self.right + self.wrong)

    @property
    def milliseconds_a_page(self) -> float:
        return median(self.milliseconds) if self.milliseconds else 0.0

    def count(
        self, page: str, name: str, value: Any, expected: Any, judge: Judge, confidence: float | None = None
    ) -> None:
        """Judge one field. A value where the right answer is "not there" is wrong; no value there is right."""
        if value is None and expected is not None:
            verdict: Verdict = "missing"
        elif (expected is None and value is None) or (expected is not None and judge(value)):
            verdict = "right"
        else:
            verdict = "wrong"
        told = str(value)[:60], str(expected)[:60]
        self.answers.append(Answer(page, name, verdict, *told, confidence if value is not None else None))

    def held_out(self) -> "Score":
        """The answers of the held-out third alone."""
        return Score([answer for answer in self.answers if is_held_out(answer.page)])

    def by_field(self) -> dict[str, "Score"]:
        fields: dict[str, Score] = {}
        for answer in self.answers:
            fields.setdefault(answer.name, Score()).answers.append(answer)
        return fields

    def failures(self) -> Iterator[tuple[str, str, str, str]]:
        """Page, field, our value and the right one; only of pages that may be looked at."""
        for answer in self.answers:
            if answer.verdict != "right" and not is_held_out(answer.page):
                yield answer.page, answer.name, answer.ours, answer.expected

    def _count(self, verdict: Verdict) -> int:
        return sum(answer.verdict == verdict for answer in self.answers)


def plain(text: Any) -> str:
    """No case, punctuation or white space: the annotations have none to speak of."""
    return re.sub(r"[\W_]+", "", unicodedata.normalize("NFKC", str(text)).casefold())


def same(expected: Any) -> Judge:
    return lambda value: plain(value) == plain(expected)
