"""Counting what was read right, wrong and not at all."""

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Judge = Callable[[Any], bool]
"""Whether a value of ours is the right one."""


@dataclass(slots=True)
class Score:
    right: int = 0
    wrong: int = 0
    missing: int = 0
    failures: list[tuple[str, str, str, str]] = field(default_factory=list)

    @property
    def recall(self) -> float:
        return self.right / max(1, self.right + self.wrong + self.missing)

    @property
    def precision(self) -> float:
        return self.right / max(1, self.right + self.wrong)

    def count(self, page: str, name: str, value: Any, expected: Any, judge: Judge) -> None:
        if value is None and expected is not None:
            self.missing += 1
        elif (expected is None and value is None) or (value is not None and judge(value)):
            self.right += 1
            return
        else:
            self.wrong += 1
        self.failures.append((page, name, str(value)[:60], str(expected)[:60]))


def plain(text: Any) -> str:
    """No case, punctuation or white space: the annotations have none to speak of."""
    return re.sub(r"[\W_]+", "", unicodedata.normalize("NFKC", str(text)).casefold())


def same(expected: Any) -> Judge:
    return lambda value: plain(value) == plain(expected)
