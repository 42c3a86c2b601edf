"""Names given by users. Each must be exactly one segment of a URL path."""

import re

from forager.core.errors import FieldError, Rejected

LONGEST_NAME = 100
NAME = f"^[A-Za-z0-9][A-Za-z0-9._-]{{0,{LONGEST_NAME - 1}}}$"


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
