"""Public names of rows. A task's UUID is computed from its numbers and back, so it needs no index of its own."""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from uuid import UUID

from forager.core.errors import FieldError, NotFound, Rejected

_TASK_BITS = 62
_JOB_BITS = 48
_VERSION = 8


def task_uuid(job: int, task: int) -> UUID:
    """UUID version 8: 48 bits of the job's number, then (past version and variant) 62 bits of the task's."""
    if not (0 <= job < 1 << _JOB_BITS and 0 <= task < 1 << _TASK_BITS):
        raise ValueError(f"job {job} or task {task} is out of range")
    return UUID(int=(job << 80) | (_VERSION << 76) | (0b10 << 62) | task)


def task_numbers(public: UUID) -> tuple[int, int] | None:
    """(job, task) of a UUID made by `task_uuid`; None for any other."""
    value = public.int
    job, task = value >> 80, value & ((1 << _TASK_BITS) - 1)
    return (job, task) if task_uuid(job, task) == public else None


def claim_text(claimed_at_ms: int, claim: int) -> str:
    """Return the seed's spelling of a claim: `claim-<unix>-<9 hex>`."""
    return f"claim-{claimed_at_ms // 1000}-{claim:09x}"


# Names given by users: checks them, and suggests a name for one that does not exist.


LONGEST_NAME = 100
NAME = f"^[A-Za-z0-9][A-Za-z0-9._-]{{0,{LONGEST_NAME - 1}}}$"


MOST_NEAR = 3


def near_names(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names that look like this one, the nearest first: at most three."""
    by_spelling = {each.casefold(): each for each in known}
    wanted = name.casefold()
    close = get_close_matches(wanted, by_spelling, MOST_NEAR, cutoff=0.6)
    if len(wanted) >= 3:
        close += sorted(each for each in by_spelling if wanted in each and each not in close)
    return [by_spelling[each] for each in close[:MOST_NEAR]]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ` Did you mean a or b?`, or nothing if no known name is near."""
    near = [repr(each) for each in near_names(name, known)]
    return f" Did you mean {', '.join(near[:-1])}{' or ' if near[1:] else ''}{near[-1]}?" if near else ""


def no_such(what: str, name: str, known: Iterable[str], remedy: str) -> NotFound:
    """Return the error for a name that does not exist: with the names that are near, and what to do."""
    return NotFound(f"There is no {what} {name!r}.{did_you_mean(name, known)} {remedy}")


def unknown_choice(what: str, name: str, known: Iterable[str]) -> str:
    """Return the message for a name that is not among a few: it lists them, the nearest first."""
    choices = sorted(known)
    near = near_names(name, choices)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"unknown {what} {name!r}; {hint}choose from {', '.join(choices)}"


def unknown_filter(field: str, what: str, name: str, known: Iterable[str], remedy: str) -> Rejected:
    """Return the error for a filter with an unknown name. It lists similar names, and the remedy."""
    problem = FieldError(field, f"there is no {what} {name!r}.{did_you_mean(name, known)} {remedy}")
    return Rejected(f"{field}: {problem.message}", fields=[problem])


def is_name(text: str) -> bool:
    return re.fullmatch(NAME, text) is not None


def checked_name(text: str) -> str:
    """Return the name. Raises `Rejected` if it is not valid."""
    if not is_name(text):
        raise bad_name(text)
    return text


def bad_name(text: str) -> Rejected:
    shown = repr(text if len(text) <= LONGEST_NAME else f"{text[:LONGEST_NAME]}…")
    rule = f"letters, digits, `.`, `_` and `-`, a letter or digit first, at most {LONGEST_NAME}"
    problem = FieldError("name", f"{shown} is not a valid name; use {rule}")
    return Rejected(f"name: {problem.message}.", fields=[problem])


# Lanes without tasks: a session owns one while it does something that only one process at a time may do.
#
# Such a lane has an owner, a lease and a pause like any other, but never has tasks, so a worker must not take it.


SINK_LANES = "sink:"
LOOP_LANES = "loop:"
WITHOUT_TASKS = (SINK_LANES, LOOP_LANES)
IS_WITHOUT_TASKS = "(" + " OR ".join(f"name LIKE '{prefix}%'" for prefix in WITHOUT_TASKS) + ")"
"""The same as a condition on `lanes` in SQL."""


def sink_lane(name: str) -> str:
    """Return the lane that a session holds while it delivers a sink. Pausing the lane pauses the sink."""
    return SINK_LANES + name
