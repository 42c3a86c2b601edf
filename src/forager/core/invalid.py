"""Pydantic's findings in our words. Apart from the errors themselves, which commands import without pydantic."""

from pydantic import ValidationError

from forager.core.errors import FieldError


def field_errors(error: ValidationError) -> list[FieldError]:
    """Which field, and what is wrong with it."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return [FieldError(".".join(map(str, e["loc"])) or "body", e["msg"].removeprefix("Value error, ")) for e in found]
