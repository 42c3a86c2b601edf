"""Pydantic's findings in plain words. Apart from the errors themselves, which commands import without pydantic."""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from forager.core.errors import FieldError

_PLAIN = {
    "missing": "is required",
    "extra_forbidden": "unknown field",
    "string_type": "must be text",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "int_parsing_size": "is too large a number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "none_required": "must be null",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "set_type": "must be a list",
    "frozen_set_type": "must be a list",
    "dict_type": "must be an object",
    "mapping_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "uuid_type": "must be a UUID",
    "uuid_parsing": "must be a UUID",
    "datetime_type": "must be a time such as 2026-03-14T12:00:00Z",
    "datetime_parsing": "must be a time such as 2026-03-14T12:00:00Z",
    "datetime_from_date_parsing": "must be a time such as 2026-03-14T12:00:00Z",
    "timezone_aware": "must be a time with a time zone, such as 2026-03-14T12:00:00Z",
    "date_type": "must be a date such as 2026-03-14",
    "date_parsing": "must be a date such as 2026-03-14",
    "date_from_datetime_parsing": "must be a date such as 2026-03-14",
    "string_unicode": "must be valid UTF-8 text",
}
_WITH_LIMIT = {
    "too_long": "has {actual_length} entries; at most {max_length} are allowed",
    "too_short": "has {actual_length} entries; at least {min_length} are needed",
    "string_too_long": "must have at most {max_length} characters",
    "string_too_short": "must have at least {min_length} characters",
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "multiple_of": "must be a multiple of {multiple_of}",
    "literal_error": "choose from {expected}",
    "enum": "choose from {expected}",
    "string_pattern_mismatch": "must match the pattern {pattern}",
}


def field_errors(error: ValidationError) -> list[FieldError]:
    """Return which field is wrong, and how, for each finding; `body` names the whole."""
    return [named(each["loc"], each) for each in error.errors(include_url=False, include_input=False)]


def named(place: Iterable[Any], finding: Mapping[str, Any]) -> FieldError:
    """Return a finding as a `FieldError` about this place."""
    return FieldError(".".join(map(str, place)) or "body", plain_message(finding))


def plain_message(finding: Mapping[str, Any]) -> str:
    """Return a finding of pydantic in our words; those of our own validators as they are."""
    kind = str(finding.get("type"))
    if (plain := _PLAIN.get(kind)) is not None:
        return plain
    if (form := _WITH_LIMIT.get(kind)) is not None:
        try:
            return form.format(**finding.get("ctx", {}))
        except KeyError:
            pass
    return str(finding["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
