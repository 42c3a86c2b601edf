"""Settings that every simulated upstream has, and how settings are read from JSON.

A subclass adds its own. What is not known about a real upstream is a setting, not a guess.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Self

from forager.core.errors import Rejected
from forager.sandbox.trouble import Trouble, When, check_shares


@dataclass(frozen=True, kw_only=True)
class Knobs:
    name: ClassVar[str] = "upstream"
    fault_names: ClassVar[frozenset[str]] = frozenset(Trouble)
    live: ClassVar[frozenset[str]] = frozenset(("latency_ms", "latency_sigma", "faults", "slow_ms"))
    """Settings that may change while it runs. The world may not: answers already given would become untrue."""

    seed: int = 7
    latency_ms: float = 0.0
    """Time to an answer; with `latency_sigma` the median of a log-normal distribution."""
    latency_sigma: float = 0.0
    slow_ms: float = 3000.0
    """What the fault `slow` adds."""
    faults: Mapping[str, float] = field(default_factory=dict)
    """Probability of each fault, drawn by seed from what is asked and how often."""
    script: tuple[When, ...] = ()
    """Faults for named calls; they come before the probabilities."""
    log_path: str | None = None
    """A file that gets one JSON line per finished request, written at once: it survives a kill of this process."""
    log_limit: int = 1_000_000
    """Requests kept in memory; older ones leave the log, the totals of `stats` stay exact."""

    def __post_init__(self) -> None:
        for name in ("latency_ms", "latency_sigma", "slow_ms"):
            value = getattr(self, name)
            self.check(name, math.isfinite(value) and value >= 0, "a number of at least 0")
        self.check("log_limit", self.log_limit > 0, "at least 1")
        check_shares(self.faults, self.fault_names)
        for rule in self.script:
            check_shares({rule.fault: 0}, self.fault_names)

    def changed(self, changes: Mapping[str, Any]) -> Self:
        """Return a copy with the named values replaced, from plain JSON. Raises `Rejected` for unknown names and
        wrong values."""
        unknown = sorted(set(changes) - {knob.name for knob in fields(self)})
        if unknown:
            known = ", ".join(sorted(knob.name for knob in fields(self)))
            raise Rejected(f"The {self.name} sandbox has no setting {', '.join(unknown)}. It has: {known}.")
        try:
            return replace(self, **self._decoded(dict(changes)))
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise Rejected(f"A setting of the {self.name} sandbox has a value of the wrong kind: {error}") from error

    def check(self, name: str, holds: bool, wanted: str) -> None:
        """Raise `Rejected` unless the setting holds."""
        if not holds:
            raise Rejected(f"Setting `{name}` of the {self.name} sandbox must be {wanted}.")

    def check_shares_of_one(self, *names: str) -> None:
        """Raise `Rejected` unless each of these settings is between 0 and 1."""
        for name in names:
            self.check(name, 0 <= getattr(self, name) <= 1, "between 0 and 1")

    def _decoded(self, values: dict[str, Any]) -> dict[str, Any]:
        """Turn JSON values into the types of the settings. A subclass extends it for its own."""
        if "faults" in values:
            values["faults"] = check_shares(values["faults"], self.fault_names)
        if "script" in values:
            values["script"] = tuple(When.from_json(rule, self.fault_names) for rule in values["script"])
        return values
