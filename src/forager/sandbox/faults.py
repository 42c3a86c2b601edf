"""Chooses the requests that fail, and their faults: by a script ("page 2 of 85001 fails twice") and by seeded
probabilities.

Only decides; the server carries the fault out. A probability is drawn from the request and its repeats, never from
the order in which requests happen to arrive, so that a run can be repeated.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, Generic, Protocol, TypeVar

from forager.core.errors import Rejected
from forager.sandbox.journal import Call
from forager.sandbox.world import World, chance

# Rules that apply to some requests and then are used up: "the second matching request fails twice".


class Countable(Protocol):
    """A rule with limits on how often it applies."""

    @property
    def times(self) -> int | None:
        """Return how often it applies; None means every time."""

    @property
    def after(self) -> int:
        """Return how many matches it lets pass first."""


R = TypeVar("R", bound=Countable)


class Script(Generic[R]):
    """Rules in order, with the number of matches of each. `lines` is empty without rules."""

    def __init__(self, rules: Iterable[R] = ()) -> None:
        self.lines: list[list[Any]] = []  # [rule, matches still to let pass, uses left or None]
        self.add(rules)

    def add(self, rules: Iterable[R]) -> None:
        self.lines.extend([rule, rule.after, rule.times] for rule in rules)

    def clear(self) -> None:
        self.lines.clear()

    def take(self, matches: Callable[[R], bool]) -> R | None:
        """Return the first rule that matches and is not used up, and count the use; else None."""
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
    """Number of matching requests that succeed first."""

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
        """Return the fault of the `nth` request for this page (from 1), or None when it goes well."""
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


# Chooses the calls of a simulated upstream that fail, and their faults: by a script and by seeded probabilities.
#
# Only decides; the upstream carries the fault out. A probability is drawn from the request and its repeats, never from
# the order in which calls happen to arrive, so that a run can be repeated.


_COUNTED = 200_000  # pages whose requests are counted; beyond it the oldest counts are forgotten


class Trouble(StrEnum):
    """Faults that every upstream has. Each adds its own to these."""

    HTTP429 = "http429"
    HTTP500 = "http500"
    HTTP502 = "http502"
    """Status 502 with the HTML page of a proxy."""
    HTTP503 = "http503"
    RESET = "reset"
    """The connection ends without a byte, and the call has no effect."""
    LOST = "lost"
    """The call has its effect, then the connection ends without a byte."""
    TIMEOUT = "timeout"
    """The call has its effect, and no answer is ever sent."""
    DROP = "drop"
    """The call has its effect, and the connection ends in the middle of the answer."""
    MALFORMED = "malformed"
    """A good status, and a body that cannot be parsed."""
    SLOW = "slow"
    """Answered after `slow_ms` more."""


@dataclass(frozen=True, slots=True)
class When:
    """One line of a fault script. What is not named matches everything; `times` None means every time."""

    fault: str
    operation: str | None = None
    subject: str | None = None
    """A name, or a pattern such as `accounts/1/*`."""
    tenant: str | None = None
    page: int | None = None
    times: int | None = 1
    after: int = 0
    """Number of matching calls that succeed first."""

    def matches(self, call: Call) -> bool:
        return (
            self.operation in (None, call.operation)
            and self.tenant in (None, call.tenant)
            and self.page in (None, call.page)
            and (self.subject is None or fnmatchcase(call.subject, self.subject))
        )

    @classmethod
    def from_json(cls, value: Any, known: frozenset[str]) -> "When":
        """Read a rule from plain JSON. Unknown names, faults and wrong types are rejected."""
        if not isinstance(value, Mapping) or not set(value) <= set(cls.__slots__):
            raise Rejected(f"A fault rule is an object with {', '.join(cls.__slots__)}; got {value!r}")
        check_fault(value.get("fault"), known)
        texts = ("operation", "subject", "tenant")
        if not all(isinstance(value.get(name), str | None) for name in texts):
            raise Rejected(f"{', '.join(texts)} of a fault rule are texts; got {value!r}")
        if not all(isinstance(value.get(name), int | None) for name in ("page", "times", "after")):
            raise Rejected(f"`page`, `times` and `after` of a fault rule are whole numbers; got {value!r}")
        return cls(**value)


class FaultPlan:
    """The rules in order; the first that matches and is not used up decides, then the probabilities."""

    def __init__(self, seed: int, rules: Iterable[When] = (), shares: Mapping[str, float] | None = None) -> None:
        self._seed = seed
        self.script = Script(rules)
        self.shares: Mapping[str, float] = shares or {}
        self._asked: dict[tuple[str, str, str, int], int] = {}

    def pick(self, call: Call) -> str | None:
        """Return the fault of this call, or None when it goes well."""
        if self.script.lines:
            rule = self.script.take(lambda rule: rule.matches(call))
            if rule is not None:
                return rule.fault
        if not self.shares:
            return None
        page = (call.tenant, call.operation, call.subject, call.page)
        drawn = chance(self._seed, "fault", *page, self._nth(page))
        for fault, share in self.shares.items():
            if drawn < share:
                return fault
            drawn -= share
        return None

    def _nth(self, page: tuple[str, str, str, int]) -> int:
        nth = self._asked.pop(page, 0) + 1
        self._asked[page] = nth
        if len(self._asked) > _COUNTED:
            del self._asked[next(iter(self._asked))]
        return nth


def check_fault(name: object, known: frozenset[str]) -> str:
    if name not in known:
        raise Rejected(f"There is no fault {name!r}; choose one of {', '.join(sorted(known))}")
    return str(name)


def check_shares(value: Any, known: frozenset[str]) -> dict[str, float]:
    """`{"http500": 0.01}` to probabilities, which must add up to at most 1."""
    if not isinstance(value, Mapping):
        raise Rejected(f"`faults` is an object of fault name to probability; got {value!r}")
    shares = {check_fault(name, known): float(share) for name, share in value.items()}
    if any(share < 0 for share in shares.values()) or sum(shares.values()) > 1 + 1e-9:
        raise Rejected(f"Fault probabilities are at least 0 and add up to at most 1; got {value!r}")
    return shares
