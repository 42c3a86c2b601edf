"""Converts stored values for reports: milliseconds to times, stored JSON to values. Pure."""

from datetime import UTC, datetime
from typing import Any

import orjson


def at(ms: int | None) -> datetime | None:
    """Convert Unix milliseconds to a UTC time; None stays None."""
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC)


def loads(value: Any) -> Any:
    """Decode a JSON column. PostgreSQL returns text, SQLite text or bytes; any other value is returned as it is."""
    return orjson.loads(value) if isinstance(value, str | bytes) else value


def task_body(body: bytes) -> Any:
    """Decode a task's stored input. Returns the text if it is not JSON, so that an unreadable row can still be
    shown."""
    try:
        return orjson.loads(body)
    except ValueError:
        return bytes(body).decode(errors="replace")
