"""NUL, which the web can hold. PostgreSQL's text cannot: one page with one would refuse a whole group. SQLite's can,
but what is looked for by JSON ends there, so that the name of a known thing would not be found."""

from typing import Any

import orjson

NUL, INSTEAD = "\x00", "\ufffd"


def clean(text: str) -> str:
    return text.replace(NUL, INSTEAD) if NUL in text else text


def clean_or_none(text: str | None) -> str | None:
    return None if text is None else clean(text)


def lenient_json(value: Any) -> str:
    """A value from outside as JSON, whatever it holds: what JSON cannot express is written as text."""
    try:
        return orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
    except TypeError:  # a number beyond 64 bits, half a character
        return orjson.dumps(repr(value)).decode()
