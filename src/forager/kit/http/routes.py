"""Routes without the part of FastAPI's work that only the documentation needs.

For every response that a route declares, FastAPI builds a validator of its model: a quarter of a second for the whole
API, in every command that opens the store itself. Our routes return `Response` objects, so nothing ever uses these
validators but the OpenAPI document. `Router` leaves them out; within `documenting()` it keeps them.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from fastapi import APIRouter
from fastapi.routing import APIRoute

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
    """A route whose handler returns a `Response`."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        if not _documenting.get():
            options.update(response_model=None, responses=None)
        super().__init__(path, endpoint, **options)


class Router(APIRouter):
    """An `APIRouter` of such routes."""

    def __init__(self, *, route_class: type[Route] = Route, **options: Any) -> None:
        super().__init__(route_class=route_class, **options)
