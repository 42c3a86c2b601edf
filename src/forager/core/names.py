"""Names that people give. Each is one part of an address: what would be more, or none, is refused beforehand."""

import re

from forager.core.errors import FieldError, Rejected

LONGEST_NAME = 100
NAME = f"^[A-Za-z0-9][A-Za-z0-9._-]{{0,{LONGEST_NAME - 1}}}$"


def is_name(text: str) -> bool:
    return re.fullmatch(NAME, text) is not None


def checked_name(text: str) -> str:
    """The name itself; raises `Rejected` if it is none."""
    if not is_name(text):
        raise bad_name(text)
    return text


def bad_name(text: str) -> Rejected:
    shown = repr(text if len(text) <= LONGEST_NAME else f"{text[:LONGEST_NAME]}…")
    rule = f"letters, digits, `.`, `_` and `-`, a letter or digit first, at most {LONGEST_NAME}"
    problem = FieldError("name", f"{shown} is no name; use {rule}")
    return Rejected(f"name: {problem.message}.", fields=[problem])
