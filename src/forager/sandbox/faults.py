"""Which request goes wrong, and how: by a script ("page 2 of 85001 fails twice") and by seeded probabilities.

Only decides; the server carries the fault out. A probability is drawn from what was asked and how often, never from
the order in which requests happen to arrive, so that a run can be repeated.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from forager.core.errors import Rejected
from forager.sandbox.script import Script
from forager.sandbox.world import World


class Fault(StrEnum):
    HTTP500 = "http500"
    HTTP503 = "http503"
    TIMEOUT = "timeout"
    """Accepted, never answered."""
    RESET = "reset"
    """Accepted, then the connection ends without a byte."""
    DROP = "drop"
    """The connection ends in the middle of the answer."""
    MALFORMED = "malformed"
    """Status 200, and a body that is not JSON."""
    SLOW = "slow"
    """Answered after `slow_ms` more."""
    HTTP429 = "http429"
    HUGE = "huge"
    """A valid answer behind `huge_bytes` of padding."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of the script. What is not named matches everything; `times` absent means every time."""

    fault: Fault
    zip: str | None = None
    keyword: str | None = None
    page: int | None = None
    times: int | None = 1
    after: int = 0
    """How many matching requests go well first."""

    def matches(self, zip_code: str, keyword: str, page: int) -> bool:
        return self.zip in (None, zip_code) and self.keyword in (None, keyword) and self.page in (None, page)

    @classmethod
    def from_json(cls, value: Any) -> "Rule":
        if not isinstance(value, Mapping) or not set(value) <= set(cls.__slots__):
            raise Rejected(f"A fault rule is an object with {', '.join(cls.__slots__)}; got {value!r}")
        rule = cls(**{**value, "fault": fault_named(value.get("fault"))})
        if not all(isinstance(part, str | None) for part in (rule.zip, rule.keyword)):
            raise Rejected(f"`zip` and `keyword` of a fault rule are texts; got {value!r}")
        if not all(isinstance(part, int | None) for part in (rule.page, rule.times)) or not isinstance(rule.after, int):
            raise Rejected(f"`page`, `times` and `after` of a fault rule are whole numbers; got {value!r}")
        return rule


class FaultScript:
    """The rules in order; the first that matches and is not used up decides, then the probabilities."""

    def __init__(self, world: World, rules: Iterable[Rule] = (), shares: Mapping[Fault, float] | None = None) -> None:
        self._world = world
        self._script = Script(rules)
        self.shares: Mapping[Fault, float] = shares or {}

    def add(self, rules: Iterable[Rule]) -> None:
        self._script.add(rules)

    def clear(self) -> None:
        self._script.clear()

    def pick(self, zip_code: str, keyword: str, page: int, nth: int) -> Fault | None:
        """The fault of the `nth` request for this page (from 1), or None when it goes well."""
        rule = self._script.take(lambda rule: rule.matches(zip_code, keyword, page)) if self._script.lines else None
        if rule is not None:
            return rule.fault
        if not self.shares:
            return None
        chance = self._world.chance("fault", zip_code, keyword, page, nth)
        for fault, share in self.shares.items():
            if chance < share:
                return fault
            chance -= share
        return None


def fault_named(name: object) -> Fault:
    try:
        return Fault(str(name))
    except ValueError:
        raise Rejected(f"There is no fault {name!r}; choose one of {', '.join(Fault)}") from None


def shares_from_json(value: Any) -> dict[Fault, float]:
    """`{"http500": 0.01}` to probabilities; together they must leave room for a good answer or be exactly 1."""
    if not isinstance(value, Mapping):
        raise Rejected(f"`faults` is an object of fault name to probability; got {value!r}")
    shares = {fault_named(name): float(share) for name, share in value.items()}
    if any(share < 0 for share in shares.values()) or sum(shares.values()) > 1 + 1e-9:
        raise Rejected(f"Fault probabilities are at least 0 and add up to at most 1; got {value!r}")
    return shares
