"""Names given by users: which are valid, and what was meant by one that does not exist."""

import re
from collections.abc import Iterable
from difflib import get_close_matches

from forager.core.errors import FieldError, NotFound, Rejected

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
    """Return the message for a name that is none of a few: with the nearest, and all of them."""
    choices = sorted(known)
    near = near_names(name, choices)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"unknown {what} {name!r}; {hint}choose from {', '.join(choices)}"


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
