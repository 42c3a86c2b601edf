"""Parses durations such as `90s`, `30m`, `6h`, `1d` and `2w`, for API and command line; in the API also `90`."""

import re

UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def in_seconds(value: object) -> object:
    """Return a text as seconds, for fields that accept a number or a text; any other value unchanged."""
    return read_seconds(value) if isinstance(value, str) else value


def read_seconds(text: str) -> float:
    """Return a duration in seconds; a plain number is seconds. Raises `ValueError` for anything else, or 0.

    For the API. Values of the command line need a unit: `seconds_with_unit`.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhdw]?)", text.strip().lower())
    if match is None or float(match[1]) == 0:
        raise ValueError(f"invalid length of time {text!r}; write 90s, 30m, 6h or 1d")
    return float(match[1]) * UNITS[match[2] or "s"]


def seconds_with_unit(text: str) -> float:
    """Return a duration of the command line in seconds. Raises `ValueError` also for a plain number: `--every 6` may be
    meant as hours, and would create a job every six seconds."""
    seconds = read_seconds(text)
    if text.strip()[-1].lower() not in UNITS:
        raise ValueError(f"{text!r} has no unit; write 90s, 30m, 6h or 1d")
    return seconds
