"""Descriptions that a route adds to the OpenAPI document: its possible errors, and examples."""

from typing import Any

from forager.core.pipeline import Pipeline
from forager.kit.http.envelope import Failure
from forager.kit.http.examples import examples_of

REQUEST_ID = "8b0c7d1e-3f6a-4c52-9a38-6a1f1f0d9c11"
REASONS = {
    400: "The body is not valid; `meta.fields` names the field.",
    401: "The service key is missing or wrong.",
    403: "The request came from a page of another origin.",
    404: "The requested object does not exist.",
    409: "The request conflicts with the current state.",
    413: "The body, or the response to it, is too large.",
    422: "The request is not valid; `meta.fields` says where.",
    429: "Too many jobs wait. Try again after `Retry-After` seconds.",
    500: "A defect of Forager; the log has the details.",
    502: "The page could not be fetched; `meta.reason` gives the reason if it is known.",
    503: "The store, a queue or the browsers are full or unavailable. Try again after `Retry-After` seconds.",
    504: "The time limit was exceeded.",
}


def failures(*statuses: int, body: bool = False) -> dict[int | str, dict[str, Any]]:
    """Describe a route's possible errors: those that every route has, and these."""
    every = {401, 422, 500, 503, *statuses, *((413,) if body else ())}
    return {status: {"model": Failure, "description": REASONS[status]} for status in sorted(every)}


def example(data: Any, *, description: str = "", **about: Any) -> dict[str, Any]:
    """Describe one response with an example of its envelope."""
    envelope = {"success": True, "data": data, "error": None, "meta": {"request_id": REQUEST_ID, **about}}
    return {"description": description or "As asked.", "content": {"application/json": {"example": envelope}}}


def refused(code: str, error: str, **about: Any) -> dict[str, Any]:
    """Describe one failure with an example, in addition to `failures`."""
    envelope = {
        "success": False,
        "data": None,
        "error": error,
        "meta": {"request_id": REQUEST_ID, "code": code, **about},
    }
    return {"content": {"application/json": {"example": envelope}}}


def body_of(pipeline: Pipeline) -> dict[str, Any]:
    """Describe a request body that is a pipeline's job, by its class."""
    reference = {"$ref": f"#/components/schemas/{pipeline.params.__name__}"}
    examples = {f"example {n}": {"value": value} for n, value in enumerate(examples_of(pipeline.params), 1)}
    return {
        "requestBody": {"required": True, "content": {"application/json": {"schema": reference, "examples": examples}}}
    }
