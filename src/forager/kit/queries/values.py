"""Values of rows as people see them: milliseconds become times, stored JSON becomes values. Pure."""

from datetime import UTC, datetime
from typing import Any

import orjson


def at(ms: int | None) -> datetime | None:
    """A moment that is stored as Unix milliseconds, in UTC; None stays None."""
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC)


def loads(value: Any) -> Any:
    """A JSON column's value. PostgreSQL returns text, SQLite text or bytes; any other value is returned as it is."""
    return orjson.loads(value) if isinstance(value, str | bytes) else value


def task_body(body: bytes) -> Any:
    """A task's stored input as a value; as text if it is not JSON, so that an unreadable row can still be shown."""
    try:
        return orjson.loads(body)
    except ValueError:
        return bytes(body).decode(errors="replace")
