"""Which call of a simulated upstream goes wrong, and how: by a script and by seeded probabilities.

Only decides; the upstream carries the fault out. A probability is drawn from what was asked and how often, never from
the order in which calls happen to arrive, so that a run can be repeated.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any

from forager.core.errors import Rejected
from forager.sandbox.calls import Call
from forager.sandbox.draw import chance
from forager.sandbox.script import Script

_COUNTED = 200_000  # pages whose asks are counted; beyond it the oldest counts are forgotten


class Trouble(StrEnum):
    """Faults that every upstream has. Each adds its own to these."""

    HTTP429 = "http429"
    HTTP500 = "http500"
    HTTP502 = "http502"
    """Status 502 with the HTML page of a proxy."""
    HTTP503 = "http503"
    RESET = "reset"
    """The connection ends without a byte, and what was asked for did not happen."""
    LOST = "lost"
    """What was asked for happens, then the connection ends without a byte."""
    TIMEOUT = "timeout"
    """What was asked for happens, and no answer is ever sent."""
    DROP = "drop"
    """What was asked for happens, and the connection ends in the middle of the answer."""
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
    """How many matching calls go well first."""

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
