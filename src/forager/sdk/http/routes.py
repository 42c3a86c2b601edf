"""Routes that FastAPI analyses when their first request comes, not when the API is built.

FastAPI inspects the signature of every handler and builds validators for its parameters and responses: half a second
for the whole API, in every command that opens the store itself and calls one or two of its routes. `Router` only notes
path, methods and handler. Within `documenting()` it builds everything at once, since the OpenAPI document needs it.
"""

from collections.abc import Callable, Collection, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from typing import Annotated, Any, Literal, cast

import orjson
from fastapi import APIRouter, Header
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field
from starlette import routing
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from forager.core.errors import FieldError, Rejected
from forager.core.pipeline import Pipeline
from forager.core.record import Record
from forager.core.states import ErrorType
from forager.sdk.http.envelope import Failure
from forager.sdk.queries import MOST

_documenting: ContextVar[bool] = ContextVar("documenting", default=False)


@contextmanager
def documenting() -> Iterator[None]:
    """Routes that are made inside of the block keep what the OpenAPI document shows."""
    token = _documenting.set(True)
    try:
        yield
    finally:
        _documenting.reset(token)


class Route(APIRoute):
    """A route whose handler returns a `Response`: the models of its responses are for the documentation only."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        if not _documenting.get():
            options.update(response_model=None, responses=None)
        super().__init__(path, endpoint, **options)


class Router(APIRouter):
    """An `APIRouter` of such routes, each of which is built for its first request."""

    def __init__(self, *, route_class: type[Route] = Route, **options: Any) -> None:
        super().__init__(route_class=route_class, **options)

    def add_api_route(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        add = super().add_api_route
        if _documenting.get():
            add(path, endpoint, **options)
            return

        def build() -> APIRoute:
            add(path, endpoint, **options)
            route = self.routes.pop()  # only the router can make it, with what all its routes share
            return cast("APIRoute", route)

        self.routes.append(_Unbuilt(self.prefix + path, options.get("methods") or ["GET"], build))

    def include_router(self, router: APIRouter, **options: Any) -> None:
        """Take over the routes of another router. FastAPI would analyse each of them a second time."""
        if _documenting.get() or options:
            super().include_router(router, **options)
        else:
            self.routes.extend(router.routes)


class _Unbuilt(routing.Route):
    """Matches requests like the route that `build` returns, and passes them on to it."""

    def __init__(self, path: str, methods: Collection[str], build: Callable[[], APIRoute]) -> None:
        super().__init__(path, _Endpoint(build), methods=list(methods))
        self.methods = set(methods)  # a `Route` of Starlette would add HEAD

    def matches(self, scope: Scope) -> tuple[routing.Match, Scope]:
        match, child_scope = super().matches(scope)
        if match != routing.Match.NONE:
            child_scope["route"] = self  # as FastAPI does; its path names the route in the metrics
        return match, child_scope


class _Endpoint:
    def __init__(self, build: Callable[[], APIRoute]) -> None:
        self._build = build

    @cached_property
    def _route(self) -> APIRoute:
        return self._build()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._route.app(scope, receive, send)


# Routes that parse their body as strict JSON, and refuse whatever the ledger could not store.
#
# A route class for `Router(route_class=JsonRoute)`. It refuses a body with a 422 before the route is called.


class JsonRequest(Request):
    """Parses JSON quickly and strictly: no lone surrogates, no NaN, no NUL; very long integers cost no extra time."""

    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            body = await self.body()
            self._json = orjson.loads(body)
            if b"\\u0000" in body and _has_nul(self._json):
                raise HTTPException(422, "The body contains a NUL character, which cannot be stored; remove it.")
        return self._json


class JsonRoute(Route):
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        run = super().get_route_handler()

        async def strict(request: Request) -> Response:
            return await run(JsonRequest(request.scope, request.receive))

        return strict


def _has_nul(value: Any) -> bool:
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, dict):
        return any(_has_nul(k) or _has_nul(v) for k, v in value.items())
    return isinstance(value, list) and any(map(_has_nul, value))


# Query parameters and headers that several routes share.


JobStateName = Literal["queued", "running", "paused", "completed", "partially_completed", "failed", "cancelled"]
TaskStateName = Literal["queued", "running", "completed", "failed", "skipped", "cancelled"]

SCHEDULED = "schedule/"
REPEATED = {"Idempotent-Replayed": "true"}
"""Response headers of a creation whose Idempotency-Key was used before."""


class PageQuery(BaseModel):
    """Paging of a list. Unknown parameters are refused, because a misspelt filter would silently return everything."""

    model_config = ConfigDict(extra="forbid")

    cursor: str | None = Field(
        default=None,
        max_length=2_000,
        pattern="^[A-Za-z0-9_-]+$",
        description="`meta.next_cursor` of the previous page.",
    )
    limit: int = Field(default=100, ge=1, le=MOST, description="Maximum items per page.")


class WhyQuery(PageQuery):
    """Paging and filters for lists of failed tasks."""

    reason: str | None = Field(
        default=None,
        max_length=64,
        pattern="^[a-z][a-z0-9_]*$",
        description="Only tasks with this reason, such as `timed_out`, `robots` or a pipeline's own.",
    )
    error_type: ErrorType | None = Field(default=None, description="Only failures of this type.")


IdempotencyKey = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=255,
        pattern=r"^[\x21-\x7e]+$",
        description="Safe repeats: for 24 hours the same key returns the same job, or 409 if the body differs.",
        examples=["bars-az-2026-03-14"],
    ),
]

KeyUntilEnd = Annotated[
    str | None,
    Header(
        alias="idempotency-key",
        min_length=1,
        max_length=255,
        pattern=r"^[\x21-\x7e]+$",
        description="Safe repeats: until the job has ended, the same key returns the same job.",
        examples=["pages-2026-03-14"],
    ),
]


def checked_key(key: str | None) -> str | None:
    if key is not None and key.startswith(SCHEDULED):
        problem = FieldError("idempotency-key", f"must not begin with {SCHEDULED}: those are the scheduler's own")
        raise Rejected(f"Idempotency-Key {problem.message}.", fields=[problem])
    return key


# Examples for the OpenAPI document, taken from the classes that are shown: `json_schema_extra={"examples": [...]}`.


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


# Descriptions that a route adds to the OpenAPI document: its possible errors, and examples.


REQUEST_ID = "8b0c7d1e-3f6a-4c52-9a38-6a1f1f0d9c11"
REASONS = {
    400: "The body is not valid; `meta.fields` names the field.",
    401: "The service key is missing or wrong.",
    403: "The request came from a page of another origin.",
    404: "The requested object does not exist.",
    409: "The request conflicts with the current state.",
    413: "The body, or the response to it, is too large.",
    422: "The request is not valid; `meta.fields` names the fields.",
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
    return {"description": description or "As requested.", "content": {"application/json": {"example": envelope}}}


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
