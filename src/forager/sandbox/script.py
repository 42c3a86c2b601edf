"""Rules that apply to some requests and then are used up: "the second matching request fails twice"."""

from collections.abc import Callable, Iterable
from typing import Any, Generic, Protocol, TypeVar


class Countable(Protocol):
    """A rule with limits on how often it applies."""

    @property
    def times(self) -> int | None:
        """How often it applies; None means every time."""

    @property
    def after(self) -> int:
        """How many matches it lets pass first."""


R = TypeVar("R", bound=Countable)


class Script(Generic[R]):
    """Rules in order, with how often each has matched. `lines` is empty while there are none."""

    def __init__(self, rules: Iterable[R] = ()) -> None:
        self.lines: list[list[Any]] = []  # [rule, matches still to let pass, uses left or None]
        self.add(rules)

    def add(self, rules: Iterable[R]) -> None:
        self.lines.extend([rule, rule.after, rule.times] for rule in rules)

    def clear(self) -> None:
        self.lines.clear()

    def take(self, matches: Callable[[R], bool]) -> R | None:
        """Return the first rule that matches and is not used up, and count the use; None if there is none."""
        for line in self.lines:
            rule: R = line[0]
            if line[2] == 0 or not matches(rule):
                continue
            if line[1]:
                line[1] -= 1
                continue
            if line[2] is not None:
                line[2] -= 1
            return rule
        return None
