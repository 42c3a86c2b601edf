"""Pydantic's findings in plain words. They are not in `core/errors.py`, because commands import that without
pydantic."""

from collections.abc import Callable, Iterable, Mapping
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
    "datetime_object_invalid": "must be a time such as 2026-03-14T12:00:00Z",
    "date_from_datetime_inexact": "must be a date such as 2026-03-14",
    "time_delta_type": "must be a length of time",
    "time_delta_parsing": "must be a length of time",
    "decimal_type": "must be a number",
    "decimal_parsing": "must be a number",
    "decimal_max_digits": "has too many digits",
    "decimal_max_places": "has too many decimal places",
    "decimal_whole_digits": "has too many digits",
    "bytes_type": "must be text",
    "iterable_type": "must be a list",
    "url_type": "must be a URL",
    "url_parsing": "must be a URL",
    "url_syntax_violation": "must be a URL",
    "url_too_long": "is too long a URL",
    "string_unicode": "must be valid UTF-8 text",
}
_PATTERNS = {
    "^[a-z][a-z0-9_]*$": "must be lower-case letters, digits and `_`, with a letter first",
    "^[a-z0-9][a-z0-9_-]*$": "must be lower-case letters, digits, `-` and `_`, with a letter or digit first",
    "^[A-Za-z0-9_-]+$": "must be letters, digits, `_` and `-`",
    "^[A-Z]{3}$": "must be three capital letters, such as EUR",
    "^[a-z]{2}$": "must be two lower-case letters, such as de",
    "^[0-9a-f]{32}$": "is set by Forager; leave it out",
    "^[0-9a-f-]+$": "must be an id or its first characters: digits, `a` to `f` and `-`",
    r"^[\x21-\x7e]+$": "must be printable ASCII characters without blanks",
}
"""Descriptions of the patterns of our own fields. A test fails for a pattern of the API that is missing here."""
_TOO_LARGE = 1 << 53


def _too_long(limit: Mapping[str, Any]) -> str:
    """Pydantic calls it a Value if it could be a text or a list."""
    if limit.get("field_type") == "Value":
        return f"has a length of {limit['actual_length']}; at most {limit['max_length']} is allowed"
    return f"has {_some(limit['actual_length'], 'entry', 'entries')}; at most {limit['max_length']} are allowed"


def _too_short(limit: Mapping[str, Any]) -> str:
    least = limit["min_length"]
    return "must not be empty" if least == 1 else f"must have at least {_some(least, 'entry', 'entries')}"


def _short_text(limit: Mapping[str, Any]) -> str:
    least = limit["min_length"]
    return "must not be empty" if least == 1 else f"must have at least {_some(least, 'character', 'characters')}"


def _pattern(limit: Mapping[str, Any]) -> str:
    return _PATTERNS.get(limit["pattern"], f"must match the pattern {limit['pattern']}")


def _above(relation: str, bound: Any) -> str:
    """No one reads the limits of a 64-bit integer."""
    if isinstance(bound, int) and bound > _TOO_LARGE:
        return "is too large a number"
    return f"must be {relation} {_number(bound)}"


def _bare(limit: Mapping[str, Any]) -> str:
    """Return the name of the field that chooses among several forms."""
    return str(limit["discriminator"]).strip("'")


_WITH_LIMIT: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "too_long": _too_long,
    "too_short": _too_short,
    "string_too_long": lambda limit: f"must have at most {_some(limit['max_length'], 'character', 'characters')}",
    "string_too_short": _short_text,
    "string_pattern_mismatch": _pattern,
    "greater_than": lambda limit: f"must be greater than {_number(limit['gt'])}",
    "greater_than_equal": lambda limit: f"must be at least {_number(limit['ge'])}",
    "less_than": lambda limit: _above("less than", limit["lt"]),
    "less_than_equal": lambda limit: _above("at most", limit["le"]),
    "multiple_of": lambda limit: f"must be a multiple of {_number(limit['multiple_of'])}",
    "literal_error": lambda limit: f"choose from {limit['expected']}",
    "enum": lambda limit: f"choose from {limit['expected']}",
    "union_tag_invalid": lambda limit: f"unknown {_bare(limit)} {limit['tag']!r}; choose from {limit['expected_tags']}",
    "union_tag_not_found": lambda limit: f"needs {_bare(limit)!r}, which names its kind",
}
_OURS = ("value_error", "assertion_error")


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
            return form(finding.get("ctx", {}))
        except KeyError:
            pass
    if kind in _OURS:
        return str(finding["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
    return "is not valid"


def _some(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _number(value: Any) -> str:
    """Format a limit without the `.0` of a whole number, in groups of three digits if it is long."""
    if not isinstance(value, int | float):
        return str(value)
    return f"{value:,.0f}" if value == int(value) and abs(value) >= 10_000 else f"{value:g}"
