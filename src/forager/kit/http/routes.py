"""Routes that FastAPI analyses when their first request comes, not when the API is built.

FastAPI inspects the signature of every handler and builds validators for its parameters and responses: half a second
for the whole API, in every command that opens the store itself and calls one or two of its routes. `Router` only notes
path, methods and handler. Within `documenting()` it builds everything at once, since the OpenAPI document needs it.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from typing import Any, cast

from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette import routing
from starlette.types import Receive, Scope, Send

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
