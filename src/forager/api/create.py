"""Builds the HTTP API over an `App`. Routes are thin: they validate, call and render.

The layers from the outside in: request id, service key, limits, routes. Nothing of a request's body is read before the
key has been checked.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from uuid import uuid4

import structlog
from fastapi import APIRouter, FastAPI
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.routing import BaseRoute, Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from forager.api.agents import AgentDoor, agents_router, llms_router
from forager.api.auth import ServiceKey
from forager.api.changes import ChangeFeed, changes_router
from forager.api.dashboard import DashboardPages, dashboard_router
from forager.api.dead import dead_router
from forager.api.docs import docs_router
from forager.api.errors import answer_errors
from forager.api.events import Feeds, events_router
from forager.api.health import VitalSigns, health_router
from forager.api.jobs import jobs_router
from forager.api.key_gate import KeyGate, KeyRing
from forager.api.keys import keys_router
from forager.api.lanes import lanes_router
from forager.api.live import LiveFeeds, live_router
from forager.api.metrics import Metrics, metrics_router
from forager.api.openapi import describe, operation_id
from forager.api.overview import Overview, overview_router
from forager.api.page_sessions import page_sessions_router
from forager.api.pages import pages_router, recordings_router
from forager.api.proxies import proxies_router
from forager.api.records import records_router
from forager.api.regions import regions_router
from forager.api.schedules import rechecks_router, schedules_router
from forager.api.sinks import sinks_router
from forager.api.system import system_router
from forager.api.upkeep import archive_router, blobs_router, retention_router
from forager.app.application import App
from forager.ledger.tables.api_keys import KeyTable
from forager.sdk.feature import Feature
from forager.sdk.http.envelope import refusal
from forager.sdk.http.streams import TaskWaiter

# `HEAD` wherever there is a `GET`: the same status and headers, without the body.


class HeadAsGet:
    """Runs the GET route and ends the response after its headers, because a stream would never end by itself."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        begun = asyncio.Event()

        async def headers_alone(message: Message) -> None:
            if message["type"] == "http.response.start":
                await send(message)
                await send({"type": "http.response.body", "body": b"", "more_body": False})
                begun.set()

        answering = asyncio.ensure_future(self._app({**scope, "method": "GET"}, receive, headers_alone))
        waiting = asyncio.ensure_future(begun.wait())
        await asyncio.wait([answering, waiting], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if answering.done():
            answering.result()
            return
        answering.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await answering


# Limits on every request: a maximum size, and no NUL in its URL. `sdk.http.routes.JsonRequest` reads the body.
#
# A request that breaks a limit is refused before it reaches a route. Nothing is repaired silently: the error names the
# problem.


MOST_BYTES = 2 * 1024 * 1024
"""Maximum size of a request body. A job with 50,000 ZIPs is half a megabyte."""


class SizeLimit:
    def __init__(self, app: ASGIApp, most: int = MOST_BYTES) -> None:
        self._app = app
        self._most = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if b"%00" in scope.get("raw_path", b"") or b"%00" in scope["query_string"] or "\0" in scope["path"]:
            await refusal(scope, 422, "invalid", "The URL contains a NUL character; remove it.")(scope, receive, send)
            return
        got = 0

        async def counted() -> Message:
            nonlocal got
            message = await receive()
            got += len(message.get("body", b""))
            if got > self._most:
                raise _too_large(self._most)
            return message

        if _announced(scope) > self._most:
            refused = _too_large(self._most)
            await refusal(scope, 413, "too_large", refused.detail)(scope, receive, send)
            return
        await self._app(scope, counted, send)


def _announced(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value[:20])
    return 0


def _too_large(most: int) -> HTTPException:
    return HTTPException(413, f"The request has more than {most:,} bytes. Split it into several jobs.")


# The outermost layer of every request: it assigns an id, counts the request, logs its end, and turns a defect into a
# plain 500.
#
# It reads only the request line and the client's own id, which it writes to the log and nowhere else. Details of a
# defect appear only in the log.


log = structlog.get_logger("forager.api")

Counted = Callable[[str, str, int, float], None]
"""(method, route template, status, seconds)."""

LONGEST_CLIENT_ID = 128
UNMATCHED = "unmatched"
FIXED_HEADERS = ((b"x-content-type-options", b"nosniff"),)
NO_STORE = (b"cache-control", b"no-store")
"""Sent with every answer that has no rule of its own. The files of the dashboard have one."""


class RequestIds:
    def __init__(self, app: ASGIApp, count: Counted) -> None:
        self._app = app
        self._count = count

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        own_id = str(uuid4())
        scope.setdefault("state", {})["request_id"] = own_id
        started = time.perf_counter()
        status = 0

        async def stamped(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                sent = message["headers"]
                rule = () if any(name == b"cache-control" for name, _ in sent) else (NO_STORE,)
                message["headers"] = [*sent, (b"x-request-id", own_id.encode()), *FIXED_HEADERS, *rule]
            await send(message)

        try:
            with structlog.contextvars.bound_contextvars(request_id=own_id):
                await self._app(scope, receive, stamped)
        except Exception as error:
            log.error("request_failed", request_id=own_id, path=scope["path"], exc_info=error)
            if status == 0:
                await _plain_500(scope)(scope, receive, stamped)
        finally:
            self._end(scope, own_id, status, time.perf_counter() - started)

    def _end(self, scope: Scope, own_id: str, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", UNMATCHED)
        self._count(scope["method"], route, status, seconds)
        log.debug(
            "request",
            request_id=own_id,
            client_request_id=client_request_id(scope),
            method=scope["method"],
            route=route,
            status=status,
            ms=round(seconds * 1000, 1),
        )


def client_request_id(scope: Scope) -> str | None:
    for name, value in scope["headers"]:
        if name == b"x-request-id":
            return str(value[:LONGEST_CLIENT_ID].decode("latin-1"))
    return None


def _plain_500(scope: Scope) -> ASGIApp:
    return refusal(
        scope,
        500,
        "defect",
        "Something went wrong inside Forager. The log has the details under this request id; please report it.",
    )


class FeatureRoutes(BaseRoute):
    """Stands for the routes of all features in a process that serves one command.

    Importing all of them would take longer than most commands. So features are imported one after another, first the
    one whose name is in the path, until a route matches.
    """

    def __init__(self, load: Mapping[str, Callable[[], APIRouter]]) -> None:
        self._load = dict(load)
        self._routes: dict[str, list[BaseRoute]] = {}

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        other: tuple[Match, Scope] = (Match.NONE, {})
        for name in sorted(self._load, key=lambda name: f"/{name}" not in scope["path"]):
            if name not in self._routes:
                self._routes[name] = list(self._load[name]().routes)
            for route in self._routes[name]:
                match, child = route.matches(scope)
                if match is Match.FULL:
                    return match, {**child, FOUND: route}
                if match is Match.PARTIAL and other[0] is Match.NONE:
                    other = (match, {**child, FOUND: route})
        return other

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await scope[FOUND].handle(scope, receive, send)


FOUND = "forager.route"


def create_api(app: App, *, key: str, one_command: bool = False) -> FastAPI:
    """Return the whole ASGI application. Set `state.feeds.closing` to end its event streams; call
    `state.service_key.replace` to change the key. `one_command`: the routes of features are imported only if one is
    called."""
    service_key = ServiceKey(key)
    keys = KeyRing(service_key, KeyTable(app.database, app.ledger.now_ms))
    feeds = Feeds(app.ledger, app.reports)
    changes = ChangeFeed(app.ledger, app.database)
    vital = VitalSigns(app)
    metrics = Metrics(app, vital)
    overview = Overview(app, vital, steered=lambda: keys.steered)
    caching: list[Middleware] = []
    if not one_command:
        from forager.api.caching import LastChanges, ResponseCache

        kinds = {name: [record.kind for record in pipeline.records] for name, pipeline in app.pipelines.items()}
        changes_of = LastChanges(app.database)

        def seconds() -> float:
            return app.clock.now().timestamp()

        caching.append(Middleware(ResponseCache, changes=changes_of, kinds=kinds, count=metrics.cached, clock=seconds))
    api = FastAPI(
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=operation_id,
        middleware=[
            Middleware(RequestIds, count=metrics.count),
            Middleware(DashboardPages),
            Middleware(KeyGate, key=service_key, keys=keys),
            *caching,
            Middleware(HeadAsGet),
            Middleware(SizeLimit),
        ],
    )
    api.state.feeds = feeds
    api.state.service_key = service_key
    answer_errors(api)
    waiter = TaskWaiter(app.ledger, app.worker.when_settled, feeds.closing)
    with_routes = [each for each in app.features.values() if each.routes is not None]

    def of_features() -> Iterable[APIRouter]:
        return [_routes_of(each, app, waiter) for each in with_routes]

    def routers() -> Iterable[APIRouter]:
        return (*of_features(), *of_forager())

    def of_forager() -> Iterable[APIRouter]:
        return (
            jobs_router(app),
            events_router(feeds, service_key, app.reports.kinds),
            changes_router(changes, feeds, service_key, app.reports.kinds),
            dead_router(app),
            schedules_router(app),
            rechecks_router(app),
            lanes_router(app),
            proxies_router(app),
            page_sessions_router(app),
            regions_router(app),
            sinks_router(app),
            retention_router(app),
            archive_router(app),
            recordings_router(app),
            pages_router(app),
            blobs_router(app),
            records_router(app),
            agents_router(app),
            health_router(app, vital, feeds, service_key),
            metrics_router(metrics),
            overview_router(app, overview),
            system_router(app),
            live_router(LiveFeeds(app, overview, feeds, keys), service_key),
            keys_router(keys),
            dashboard_router(app, service_key),
            docs_router(),
            llms_router(api),
        )

    api.router.routes.append(Route("/mcp", AgentDoor(app, api, service_key, feeds.closing), include_in_schema=False))
    for router in of_forager() if one_command else routers():
        api.router.routes.extend(router.routes)  # `include_router` would analyse every route at once
    if one_command:
        loaders = {each.name: partial(_routes_of, each, app, waiter) for each in with_routes}
        api.router.routes.append(FeatureRoutes(loaders))
    describe(api, routers, app.pipelines.values(), with_routes)
    return api


def _routes_of(feature: Feature, app: App, waiter: TaskWaiter) -> APIRouter:
    assert feature.routes is not None  # noqa: S101 - only features with routes are passed
    router: APIRouter = feature.routes.load()(app, waiter)
    return router
