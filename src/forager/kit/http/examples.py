"""Examples for the OpenAPI document, taken from the classes that are shown: `json_schema_extra={"examples": [...]}`."""

from typing import Any

from pydantic import BaseModel

from forager.core.record import Record

_SEEN = {
    "version": 1,
    "first_seen_at": "2026-03-14T12:00:01Z",
    "last_seen_at": "2026-03-14T12:00:09Z",
    "times_seen": 3,
    "gone_at": None,
}
_KEPT = {"version": 2, "changed_at": "2026-03-14T12:00:05Z", "gone_reason": None, "gone_evidence": None}
_JOB = "0f1c9b52-6a7e-4d0e-8e63-0a2f3c5b7d11"


def examples_of(model: type[BaseModel]) -> list[Any]:
    """Return the examples that a class declares, possibly none."""
    extra = model.model_config.get("json_schema_extra")
    examples = extra.get("examples") if isinstance(extra, dict) else None
    return list(examples) if isinstance(examples, list) else []


def example_of(model: type[BaseModel]) -> dict[str, Any]:
    """Return the first example of a class, or an empty object."""
    return dict(next(iter(examples_of(model)), {}))


def record_example(record: type[Record]) -> dict[str, Any]:
    """Return a record as lists and exports show it: its fields, its job if it is job-scoped, and when it was seen."""
    if record.scope == "job":
        return {"job": _JOB, **example_of(record), **_SEEN}
    return {**example_of(record), **_SEEN, **_KEPT}


def change_example(record: type[Record]) -> dict[str, Any]:
    """Return one change of a record, as its history shows it."""
    body = example_of(record)
    return {
        "id": 4711,
        "kind": record.kind,
        "key": str(body.get(record.key_field, "")),
        "op": "changed",
        "version": _KEPT["version"],
        "job": _JOB,
        "at": _KEPT["changed_at"],
        "body": body,
    }
