"""The plan of one seed: its jobs, what people do, and the faults. Drawn completely before anything runs, so that a
shrunk run is the same plan with parts left out."""

from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

PIPELINES = ("places", "products", "listings", "scrape", "reviews", "sites", "web")
WATCHED = ("place", "product", "review", "site_page", "job")
"""Kinds of changes that rules are about, beside those of watched pages."""
COMMITS = {"before-commit": 350, "after-commit": 350, "settled": 80, "leased": 80, "job-written": 6}
"""Fail points at which a process may die, and how often a usual seed passes each."""
ACTS = ("pause", "cancel", "retry", "pause-lane", "schedule", "resubmit", "check-watch", "pause-watch")
HORIZON = 300.0
"""Simulated seconds in which jobs are submitted and faults happen."""


@dataclass(frozen=True, slots=True)
class PlannedJob:
    number: int
    pipeline: str
    at: float
    size: int
    poison: bool = False

    def __str__(self) -> str:
        return f"job {self.number} {self.pipeline} size {self.size} at {self.at:g} s{' with poison' * self.poison}"


@dataclass(frozen=True, slots=True)
class PlannedWatch:
    """A watch of a page whose price falls by one every `period` seconds, with a rule of the same name."""

    number: int
    at: float
    every: int
    period: float
    below: int | None = None
    """Price below which the rule fires; None: it fires on every change."""

    @property
    def name(self) -> str:
        return f"w{self.number}"

    def __str__(self) -> str:
        rule = "every change" if self.below is None else f"below {self.below}"
        return f"watch {self.number} every {self.every} s at {self.at:g} s, rule: {rule}"


@dataclass(frozen=True, slots=True)
class PlannedRule:
    """A rule about every change of one kind of record."""

    kind: str
    at: float

    @property
    def name(self) -> str:
        return f"any-{self.kind}"

    def __str__(self) -> str:
        return f"rule about each {self.kind} at {self.at:g} s"


@dataclass(frozen=True, slots=True)
class Act:
    """An action of a person: pause, resume, cancel or retry a job, pause a lane or a watch, check a watch now, add a
    schedule."""

    verb: str
    at: float
    which: int

    def __str__(self) -> str:
        return f"{self.verb} {self.which} at {self.at:g} s"


@dataclass(frozen=True, slots=True)
class Fault:
    """At the `nth` time that `event` happens."""

    kind: str
    event: str
    nth: int
    seconds: float = 0.0

    def __str__(self) -> str:
        return f"{self.kind} at {self.event} {self.nth}{f' for {self.seconds:g} s' if self.seconds else ''}"


@dataclass(frozen=True, slots=True)
class Plan:
    seed: int
    jobs: tuple[PlannedJob, ...]
    acts: tuple[Act, ...]
    faults: tuple[Fault, ...]
    sinks: tuple[str, ...]
    shuffle: float
    """Share of the steps at which any ready task runs next, not the one that waits longest."""
    watches: tuple[PlannedWatch, ...] = ()
    rules: tuple[PlannedRule, ...] = ()
    digest: int | None = None
    """Seconds over which the channel joins its alerts into one message."""
    options: dict[str, Any] = field(default_factory=dict)

    def without(self, parts: set[object]) -> "Plan":
        return replace(
            self,
            jobs=tuple(each for each in self.jobs if each not in parts),
            acts=tuple(each for each in self.acts if each not in parts),
            faults=tuple(each for each in self.faults if each not in parts),
            sinks=tuple(each for each in self.sinks if each not in parts),
            watches=tuple(each for each in self.watches if each not in parts),
            rules=tuple(each for each in self.rules if each not in parts),
        )

    @property
    def parts(self) -> tuple[object, ...]:
        return (*self.jobs, *self.watches, *self.rules, *self.faults, *self.acts, *self.sinks)

    def __str__(self) -> str:
        parts = (*self.jobs, *self.watches, *self.rules, *self.acts, *self.faults)
        return "\n".join(f"  {each}" for each in parts)


def draw(seed: int) -> Plan:
    """Return the plan of a seed."""
    dice = Random(f"{seed}/plan")
    jobs = tuple(
        PlannedJob(
            number,
            dice.choice(PIPELINES),
            round(dice.uniform(0, 0.6 * HORIZON) if number else 0.0, 1),
            dice.randint(1, 4),
            poison=dice.random() < 0.15,
        )
        for number in range(dice.randint(2, 6))
    )
    acts = tuple(
        Act(
            dice.choice(ACTS),
            round(dice.uniform(5, 0.9 * HORIZON), 1),
            dice.randint(0, 9),
        )
        for _ in range(dice.choice((0, 0, 1, 2, 3)))
    )
    sinks = tuple(name for name in ("hook", "lake") if dice.random() < 0.8)
    shuffle = dice.choice((0.0, 0.2, 0.6, 1.0))
    watches, rules = _watches(dice), _rules(dice)
    digest = dice.choice((None, None, 60))
    return Plan(seed, jobs, acts, tuple(_faults(dice)), sinks, shuffle, watches, rules, digest)


def _watches(dice: Random) -> tuple[PlannedWatch, ...]:
    return tuple(
        PlannedWatch(
            number,
            round(dice.uniform(0, 0.4 * HORIZON), 1),
            dice.choice((60, 60, 90)),
            round(dice.uniform(15, 120), 1),
            dice.choice((None, dice.randint(94, 100))),
        )
        for number in range(dice.choice((0, 1, 2, 3)))
    )


def _rules(dice: Random) -> tuple[PlannedRule, ...]:
    kinds = dice.sample(WATCHED, dice.choice((0, 0, 1, 2)))
    return tuple(PlannedRule(kind, round(dice.uniform(0, 0.3 * HORIZON), 1)) for kind in kinds)


@dataclass(frozen=True, slots=True)
class _Kind:
    """Faults of one kind: up to `most` of them, each at one of the first `among` times that its event happens."""

    kind: str
    event: str
    most: int
    among: int
    seconds: tuple[float, float] = (0.0, 0.0)


_KINDS = (
    _Kind("stall", "step", 3, 22_000, (20, 120)),
    _Kind("stop", "step", 1, 22_000),
    _Kind("sleep", "step", 1, 22_000, (60, 1_800)),
    _Kind("partition", "request", 2, 60, (5, 180)),
    _Kind("slow", "request", 2, 60, (1, 40)),
    *(_Kind(kind, "request", 2, 60) for kind in ("lost", "hang", "unreachable", "garbled")),
    *(_Kind(kind, "request", 1, 60) for kind in ("http429", "http500", "http503")),
    *(_Kind(kind, "message", 1, 8) for kind in ("lost", "unreachable", "http500")),
    _Kind("parse-failed", "page", 2, 12),
    _Kind("disk-full", "before-commit", 1, 350, (1, 60)),
    _Kind("slow-commit", "commit", 2, 350, (1, 45)),
    _Kind("wall-jump", "start", 1, 4, (30, 600)),
    _Kind("wall-jump", "start", 1, 4, (-600, -30)),
)


def _faults(dice: Random) -> list[Fault]:
    """Draw the faults of a seed; in a tenth of the seeds nothing goes wrong."""
    if dice.random() < 0.1:
        return []
    drawn = [_death(dice) for _ in range(dice.randint(1, 4))]
    for each in _KINDS:
        for _ in range(dice.randint(0, each.most)):
            nth, seconds = dice.randint(1, each.among), round(dice.uniform(*each.seconds), 1)
            drawn.append(Fault(each.kind, each.event, nth, seconds))
    return drawn


def _death(dice: Random) -> Fault:
    match dice.randrange(9):
        case 0 | 1:
            return Fault("death", "step", dice.randint(1, 22_000))
        case 2 | 3:
            return Fault("death", "page", dice.randint(1, 12))
        case 4 | 5:
            return Fault("torn-write", "blob", dice.randint(1, 10))
        case 6:
            return Fault("death", "message", dice.randint(1, 6))
        case _:
            point = dice.choice(tuple(COMMITS))
            return Fault("death", point, dice.randint(1, COMMITS[point]))
