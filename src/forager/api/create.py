"""Builds the HTTP API over an `App`. Routes are thin: they validate, call and render.

The layers from the outside in: request id, service key, limits, routes. Nothing of a request's body is read before the
key has been checked.
"""

from collections.abc import Iterable

from fastapi import APIRouter, FastAPI
from starlette.middleware import Middleware

from forager.api.archive import archive_router
from forager.api.auth import KeyGate, ServiceKey
from forager.api.blobs import blobs_router
from forager.api.change_feed import ChangeFeed
from forager.api.changes import changes_router
from forager.api.dead import dead_router
from forager.api.docs import docs_router
from forager.api.errors import answer_errors
from forager.api.events import events_router
from forager.api.feed import Feeds
from forager.api.head import HeadAsGet
from forager.api.health import health_router
from forager.api.health_snapshot import VitalSigns
from forager.api.jobs import jobs_router
from forager.api.lanes import lanes_router
from forager.api.limits import SizeLimit
from forager.api.metrics import Metrics, metrics_router
from forager.api.openapi import describe, operation_id
from forager.api.pages import pages_router
from forager.api.proxies import proxies_router
from forager.api.records import records_router
from forager.api.request_id import RequestIds
from forager.api.retention import retention_router
from forager.api.schedules import schedules_router
from forager.api.sinks import sinks_router
from forager.api.watches import watches_router
from forager.app import App
from forager.kit.http.task_waiter import TaskWaiter


def create_api(app: App, *, key: str) -> FastAPI:
    """Return the whole ASGI application. Set `state.feeds.closing` to end its event streams; call
    `state.service_key.replace` to change the key."""
    service_key = ServiceKey(key)
    feeds = Feeds(app.ledger, app.reports)
    changes = ChangeFeed(app.ledger, app.database)
    vital = VitalSigns(app)
    metrics = Metrics(app, vital)
    api = FastAPI(
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=operation_id,
        middleware=[
            Middleware(RequestIds, count=metrics.count),
            Middleware(KeyGate, key=service_key),
            Middleware(HeadAsGet),
            Middleware(SizeLimit),
        ],
    )
    api.state.feeds = feeds
    api.state.service_key = service_key
    answer_errors(api)
    waiter = TaskWaiter(app.ledger, app.worker.when_settled, feeds.closing)
    with_routes = [each for each in app.features.values() if each.routes is not None]

    def routers() -> Iterable[APIRouter]:
        return (
            *(each.routes.load()(app, waiter) for each in with_routes if each.routes is not None),
            jobs_router(app),
            events_router(feeds, service_key, app.reports.kinds),
            changes_router(changes, feeds, service_key, app.reports.kinds),
            dead_router(app),
            schedules_router(app),
            watches_router(app),
            lanes_router(app),
            proxies_router(app),
            sinks_router(app),
            retention_router(app),
            archive_router(app),
            pages_router(app),
            blobs_router(app),
            records_router(app),
            health_router(app, vital, feeds, service_key),
            metrics_router(metrics),
            docs_router(),
        )

    for router in routers():
        api.router.routes.extend(router.routes)  # `include_router` would analyse every route at once
    describe(api, routers, app.pipelines.values(), with_routes)
    return api
