"""All options of the Serper sandbox, in one frozen value. Behaviour of the real API that is not known is an option, not
a guess."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Literal, Self, get_args

from forager.core.errors import Rejected
from forager.sandbox.faults import Fault, Rule, Trouble, When, check_shares, shares_from_json
from forager.sandbox.world import MIXED_DENSITY, Band, World

Variant = Literal["A", "B", "mixed"]
EmptyPage = Literal["empty", "missing", "mixed"]


@dataclass(frozen=True)
class SerperConfig:
    seed: int = 7
    key: str = "sandbox-key"
    other_keys: tuple[str, ...] = ()
    """Further keys that are accepted, each with its own limit and balance."""

    density: Sequence[Band] = MIXED_DENSITY
    """Number of places in a ZIP: shares of (ZIP, keyword) pairs with their range. `FULL_DENSITY` fills every page."""
    neighbour_share: float = 0.06
    """Share of rows that neighbouring ZIPs also show, with the same cid."""
    repeat_share: float = 0.02
    """Share of rows from page 2 on that an earlier page showed already."""

    variant: Variant = "mixed"
    """The form of `/places` rows: A (full address, phone, website), B (street, rating, category), or either by page."""
    place_id_share: float = 0.0
    """Share of `/places` rows with a `placeId`; the real API has none there."""
    empty_page: EmptyPage = "mixed"
    """Beyond the last row: `places` is `[]`, or the key is missing, or either by page."""
    positions_continue: bool = False
    """True if `position` goes on at 11 on page 2 instead of starting again at 1."""
    echo_defaults: bool = False
    """True if `searchParameters` names `num` and `page` even when they were not sent, as older answers did."""

    search_site: str = "https://results.example"
    """Site of the results of `/search`, without a slash at the end."""

    price_places: int = 1
    price_maps: int = 3
    credits: int | None = None
    """Balance of each key; None never runs out."""
    charge_unseen: bool = True
    """True if an answer that the client did not wait for is charged all the same. The real API does."""
    rate_limit: int | None = 300
    """Most requests a key may start in any second; more get a 429. None counts them without refusing."""

    latency_ms: float = 0.0
    """Time to an answer; with `latency_sigma` the median of a log-normal distribution."""
    latency_sigma: float = 0.0
    faults: Mapping[Fault, float] = field(default_factory=dict)
    """Probability of each fault, drawn by seed from the request and its repeats."""
    script: tuple[Rule, ...] = ()
    """Faults for named requests; they come before the probabilities."""
    slow_ms: float = 3000.0
    """Delay added by the fault `slow`."""
    huge_bytes: int = 48 * 1024 * 1024
    """Size of the answer with the fault `huge`."""

    log_path: str | None = None
    """A file that gets one JSON line per finished request, written at once: it survives a kill of this process."""
    log_limit: int = 1_000_000
    """Requests kept in memory; older ones leave the log, the figures of `stats` stay exact."""
    stall_flag_ms: float = 10.0
    """A pause of this process that long disturbs the count of starts around it; `stats` gives it with and without."""
    cache_limit: int = 4096
    """Rendered answers kept in memory."""

    def __post_init__(self) -> None:
        self.world()  # its own checks
        _check("variant", self.variant in get_args(Variant), "one of A, B, mixed")
        _check("empty_page", self.empty_page in get_args(EmptyPage), "one of empty, missing, mixed")
        _check("key", all((self.key, *self.other_keys)), "not empty")
        for name in ("neighbour_share", "repeat_share", "place_id_share"):
            _check(name, 0 <= getattr(self, name) <= 1, "between 0 and 1")
        for name in ("latency_ms", "latency_sigma", "slow_ms", "stall_flag_ms"):
            _check(name, math.isfinite(getattr(self, name)) and getattr(self, name) >= 0, "a number of at least 0")
        for name in ("credits", "price_places", "price_maps", "cache_limit", "huge_bytes"):
            _check(name, (getattr(self, name) or 0) >= 0, "at least 0")
        _check("rate_limit", self.rate_limit is None or self.rate_limit > 0, "at least 1, or absent for no limit")
        _check("log_limit", self.log_limit > 0, "at least 1")
        shares_from_json(self.faults)

    def world(self) -> World:
        return World(self.seed, tuple(self.density), self.neighbour_share, self.repeat_share)

    def price(self, endpoint: str) -> int:
        return self.price_maps if endpoint == "maps" else self.price_places

    def changed(self, changes: Mapping[str, Any]) -> "SerperConfig":
        """This config with the named values replaced, from plain JSON. Unknown names and wrong values are rejected."""
        unknown = sorted(set(changes) - {knob.name for knob in fields(self)})
        if unknown:
            raise Rejected(f"The Serper sandbox has no setting {', '.join(unknown)}; see SerperConfig for their names")
        values = dict(changes)
        try:
            if "density" in values:
                values["density"] = tuple(Band(*band) for band in values["density"])
            if "faults" in values:
                values["faults"] = shares_from_json(values["faults"])
            if "script" in values:
                values["script"] = tuple(Rule.from_json(rule) for rule in values["script"])
            if "other_keys" in values:
                values["other_keys"] = tuple(values["other_keys"])
            return replace(self, **values)
        except (TypeError, ValueError) as error:
            raise Rejected(f"A setting of the Serper sandbox has a value of the wrong kind: {error}") from error


LIVE = frozenset(
    ("latency_ms", "latency_sigma", "rate_limit", "credits", "faults", "slow_ms", "huge_bytes", "charge_unseen")
)
"""Settings that may change while the sandbox runs. The world may not: earlier answers would become wrong."""


def _check(name: str, holds: bool, wanted: str) -> None:
    if not holds:
        raise Rejected(f"Setting `{name}` of the Serper sandbox must be {wanted}.")


# Settings that every simulated upstream has, and how settings are read from JSON.
#
# A subclass adds its own. What is not known about a real upstream is a setting, not a guess.


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
    """Delay added by the fault `slow`."""
    faults: Mapping[str, float] = field(default_factory=dict)
    """Probability of each fault, drawn by seed from the request and its repeats."""
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
