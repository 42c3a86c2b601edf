"""Turns errors into responses: the status, code and message of each. Internal details go to the log only."""

from collections.abc import Sequence

import structlog
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from forager.core.errors import (
    Busy,
    Conflict,
    FieldError,
    ForagerError,
    NotFound,
    Rejected,
    ServiceAway,
    Stopping,
    StoreError,
    StoreFull,
    StoreMisplaced,
)
from forager.core.invalid import named
from forager.sdk.http.envelope import MOST_FIELDS, refusal, request_id

log = structlog.get_logger("forager.api")

RETRY_AFTER = "5"
WORDS: dict[int, tuple[str, str | None]] = {
    404: ("not_found", "No route matches this path. GET /openapi.json lists all routes."),
    405: ("method_not_allowed", "This path does not support that method. GET /openapi.json lists the supported ones."),
    413: ("too_large", None),
    422: ("invalid", None),
}
"""Error code and message by status. None: use the message of the exception, which is then our own text."""
SOURCES = ("body", "query", "path", "header")


def answer_errors(api: FastAPI) -> None:
    """Install the exception handlers, so that every error of a route is returned as an envelope."""
    api.add_exception_handler(ForagerError, _forager)
    api.add_exception_handler(RequestValidationError, _validation)
    api.add_exception_handler(HTTPException, _http)


async def _forager(request: Request, error: Exception) -> Response:
    """Return the response for an error, by its most specific class: a NotFound is also a Rejected."""
    scope = request.scope
    match error:
        case NotFound():
            return refusal(scope, 404, "not_found", error.message)
        case Conflict():
            return refusal(scope, 409, "conflict", error.message, fields=error.fields)
        case Rejected():
            return refusal(scope, 422, "invalid", error.message, fields=error.fields)
        case Stopping():
            return refusal(scope, 503, "shutting_down", error.message, headers={"Retry-After": RETRY_AFTER})
        case Busy():
            return refusal(scope, 503, "busy", error.message, headers={"Retry-After": RETRY_AFTER})
        case ServiceAway():
            log.warning("request_service_unavailable", request_id=request_id(scope), error=error.message)
            return refusal(scope, 503, "service_unavailable", error.message, headers={"Retry-After": RETRY_AFTER})
        case StoreMisplaced():
            return refusal(scope, 503, "store_unavailable", error.message)
        case StoreError():
            log.warning("request_store_unavailable", request_id=request_id(scope), error=error.message)
            message = _FULL if isinstance(error, StoreFull) else _NO_ANSWER
            return refusal(scope, 503, "store_unavailable", message, headers={"Retry-After": RETRY_AFTER})
    raise error


async def _validation(request: Request, error: Exception) -> Response:
    fields = wrong_fields(error) if isinstance(error, RequestValidationError) else []
    not_json = any(wrong.field == "body" for wrong in fields) and "json" not in request.headers.get("content-type", "")
    message = "Send the body as JSON, with Content-Type: application/json." if not_json else "The request is not valid."
    return refusal(request.scope, 422, "invalid", message, fields=fields)


async def _http(request: Request, error: Exception) -> Response:
    """Errors that the framework raises: no such route, wrong method, unreadable or oversized body."""
    if not isinstance(error, HTTPException):
        raise error
    status = 422 if error.status_code == 400 else error.status_code
    code, message = WORDS.get(status, ("refused", None))
    return refusal(request.scope, status, code, message or str(error.detail), headers=error.headers)


def wrong_fields(error: RequestValidationError) -> Sequence[FieldError]:
    """Translate pydantic's errors into our wording. A field's name does not include where it came from (body,
    query)."""
    errors = []
    for wrong in error.errors()[:MOST_FIELDS]:
        path = [str(part) for part in wrong["loc"]]
        if wrong.get("type") == "json_invalid":
            where = _where(error.body, wrong["loc"][-1])
            errors.append(FieldError("body", f"is not JSON: {wrong['ctx']['error']}{where}"))
            continue
        if len(path) > 1 and path[0] in SOURCES:
            path = path[1:]
        errors.append(named(path, wrong))
    return errors


def _where(document: object, position: object) -> str:
    """Return where a JSON document breaks off, as ` at line …, column …`; empty if the body is not even text."""
    if not (isinstance(document, str) and document and isinstance(position, int)):
        return ""
    before = document[:position]
    line, column = before.count("\n") + 1, position - before.rfind("\n")
    return f" at line {line}, column {column}"


_FULL = (
    "The disk that holds the ledger is full. Free some space; work then resumes by itself. Nothing of this request"
    " was stored."
)
_NO_ANSWER = "The ledger's database does not answer now. Try again soon; see the log."
