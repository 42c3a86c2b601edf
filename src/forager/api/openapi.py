"""Completes the OpenAPI document: the service key, errors in the envelope, tags."""

from collections.abc import Callable, Iterable, Mapping
from threading import Lock
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from forager import __version__
from forager.api.auth import OPEN_PATHS
from forager.core.pipeline import Pipeline
from forager.sdk.feature import Feature
from forager.sdk.http.routes import documenting

TITLE = "Forager"
ABOUT = """Collects web data reliably: crash-safe, rate-limited, priced up front.

Every JSON answer is `{success, data, error, meta}`. Every route but `/health`, `/readiness` and `/metrics` needs the
service key in `X-Service-Key`. Lists are paged: send `meta.next_cursor` as `cursor` until it is null."""
TAGS = [
    {"name": "jobs", "description": "Jobs of every pipeline: create, watch, pause, resume, cancel, retry."},
    {"name": "dead letters", "description": "Tasks that failed permanently: list, retry, discard."},
    {"name": "schedules", "description": "Jobs that are created repeatedly."},
    {"name": "records", "description": "Everything that was found, by record kind, page by page or as a file."},
    {"name": "lanes", "description": "Sites and APIs with their rates and limits: show, pause, set your own rules."},
    {"name": "sessions", "description": "Named sessions of pages: cookies and storage, which are never returned."},
    {"name": "proxies", "description": "Proxies for requests to sites. Their passwords are never returned."},
    {"name": "rechecks", "description": "Rules that turn due records into tasks: show, pause, resume."},
    {"name": "changes", "description": "The change log: page by page, with a wait for news, or as a stream."},
    {"name": "sinks", "description": "Deliveries of changes: add, show, pause, replay, and refused changes."},
    {"name": "stored pages", "description": "Stored pages and pictures: read them back, remove unused ones."},
    {"name": "agents", "description": "Sessions of agents (MCP): what each has spent."},
    {"name": "retention", "description": "Old data: count it or remove it."},
    {"name": "keys", "description": "Named keys with roles, and the log of what was done with them."},
    {"name": "operation", "description": "For monitors: open without a key."},
]
SCHEME = "ServiceKey"
STREAM: dict[str, Any] = {
    "description": "Frames `change` (numbered), `progress` and finally `end`.",
    "content": {
        "text/event-stream": {  # without a schema: it would be that of each event, and they differ
            "example": 'id: 7\nevent: change\ndata: {"id":7,"kind":"job","op":"created"}\n\n'
            'event: progress\ndata: {"state":"running","total":915,"completed":41,"spent":41}\n\n',
        }
    },
}


def operation_id(route: APIRoute) -> str:
    return route.name


def describe(
    api: FastAPI,
    routers: Callable[[], Iterable[APIRouter]],
    pipelines: Iterable[Pipeline],
    features: Iterable[Feature],
) -> None:
    """Install the function that creates the document at its first request. `features` are those with routes; each gets
    a tag. `routers` creates the routes a second time, with details that only the document needs.

    Creating it takes one to two seconds of CPU time: call it in a thread. Threads that call it together wait for one.
    """
    jobs, once = list(pipelines), Lock()
    tags = [*({"name": each.name, "description": each.summary} for each in features), *TAGS]

    def document() -> dict[str, Any]:
        with once:
            if api.openapi_schema is None:
                with documenting():
                    described = FastAPI(generate_unique_id_function=operation_id)
                    for router in routers():
                        described.include_router(router)
                    api.openapi_schema = _document(described, jobs, tags)
            return api.openapi_schema

    api.openapi = document  # type: ignore[method-assign]  # the framework's own way to change the document


def _document(api: FastAPI, pipelines: Iterable[Pipeline], tags: list[dict[str, Any]]) -> dict[str, Any]:
    made = get_openapi(title=TITLE, version=__version__, description=ABOUT, routes=api.routes, tags=tags)
    parts = made.setdefault("components", {})
    for pipeline in pipelines:
        schema = pipeline.params.model_json_schema(ref_template="#/components/schemas/{model}")
        parts["schemas"].update(schema.pop("$defs", {}))
        parts["schemas"][pipeline.params.__name__] = schema
    about = "Created on the first start and stored in `service.key` in the data folder, or set by FORAGER_SERVICE_KEY."
    parts["securitySchemes"] = {
        SCHEME: {"type": "apiKey", "in": "header", "name": "X-Service-Key", "description": about}
    }
    for path, operations in made["paths"].items():
        for operation in operations.values():
            operation["security"] = [] if path in OPEN_PATHS else [{SCHEME: []}]
            _show_request_id(operation)
    return made


def _show_request_id(operation: Mapping[str, Any]) -> None:
    header = {
        "X-Request-ID": {
            "schema": {"type": "string", "format": "uuid"},
            "description": "Id that Forager gave to this request.",
        }
    }
    for response in operation["responses"].values():
        response.setdefault("headers", {}).update(header)
