"""A change as JSON: the one form in which files, messages, streams and the API show it."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import orjson

from forager.core.change import Change


def change_json(change: Change) -> dict[str, Any]:
    """Return a change as a JSON object, its number first. The body is what the API shows of the record or the job."""
    return {**encodable(change), "body": change.body}


def encodable(change: Change) -> dict[str, Any]:
    """Return the same in a form for `encoded` only, with the body as the log stores it."""
    return {
        "id": change.id,
        "kind": change.kind,
        "key": change.key,
        "op": change.op,
        "version": change.version,
        "scope": change.scope,
        "job": change.job,
        "pipeline": change.pipeline,
        "at": datetime.fromtimestamp(change.at / 1000, UTC),
        "body": change.json,
    }


def change_line(change: Change) -> bytes:
    """Return a change as a line of JSON, with its end of line."""
    return encoded(encodable(change)) + b"\n"


def encoded(value: Mapping[str, Any]) -> bytes:
    """Encode an object as JSON. Times are in UTC and end with `Z`."""
    return orjson.dumps(value, option=orjson.OPT_UTC_Z)
