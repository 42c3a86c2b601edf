"""Serves the dashboard: its files, the page that loads them, and the sign-in.

The files hold no data, so they need no key; they are read once, compressed once, and answered with an ETag. Every
address that a browser opens, and that no API route handles, is answered with the one page, whose scripts
then show what the address names.
"""

import gzip
import hashlib
import mimetypes
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Annotated

from fastapi import APIRouter, Body
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from forager import __version__
from forager.api.auth import COOKIE, SERVICE, SESSION_SECONDS, ServiceKey
from forager.app.application import App
from forager.sdk.http.envelope import answer, refusal
from forager.sdk.http.routes import JsonRoute, Router

SUFFIXES = frozenset({".js", ".css", ".html", ".svg"})
RESERVED = ("/api/", "/dashboard/", "/docs/plain", "/openapi.json", "/metrics", "/health", "/readiness", "/demo")
"""Addresses that are never a page of the dashboard."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self';"
    " frame-src 'self' blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
PAGE_HEADERS = {"Content-Security-Policy": POLICY, "Referrer-Policy": "no-referrer"}


@dataclass(frozen=True, slots=True)
class DashboardFile:
    """A file of the dashboard, ready to be sent."""

    plain: bytes
    packed: bytes
    media_type: str
    etag: str


@cache
def dashboard_files(package: str = "forager.dashboard") -> Mapping[str, DashboardFile]:
    """Return all files of a package's folder by their path."""
    return {path: _file(path, entry.read_bytes()) for path, entry in _walk(files(package), "")}


def _walk(folder: Traversable, prefix: str) -> list[tuple[str, Traversable]]:
    found: list[tuple[str, Traversable]] = []
    for entry in folder.iterdir():
        path = f"{prefix}{entry.name}"
        if entry.is_dir():
            found.extend(_walk(entry, f"{path}/"))
        elif "." in entry.name and f".{entry.name.rpartition('.')[2]}" in SUFFIXES:
            found.append((path, entry))
    return found


def _file(path: str, content: bytes) -> DashboardFile:
    media_type = "text/javascript" if path.endswith(".js") else mimetypes.guess_type(path)[0] or "text/plain"
    tag = f'"{hashlib.sha256(content).hexdigest()[:20]}"'
    return DashboardFile(content, gzip.compress(content, 9, mtime=0), media_type, tag)


class DashboardPages:
    """Answers a browser's request for a page with the one page of the dashboard."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not _is_page(scope):
            await self._app(scope, receive, send)
            return
        response = _sent(scope, dashboard_files()["index.html"])
        response.headers.update(PAGE_HEADERS)
        await response(scope, receive, send)


def _is_page(scope: Scope) -> bool:
    if scope["method"] not in {"GET", "HEAD"} or scope["path"].startswith(RESERVED):
        return False
    accepted = b",".join(value for name, value in scope["headers"] if name == b"accept")
    return b"text/html" in accepted


def _sent(scope: Scope, file: DashboardFile) -> Response:
    headers = dict(scope["headers"])
    if headers.get(b"if-none-match", b"").decode("latin-1") == file.etag:
        return Response(status_code=304, headers={"ETag": file.etag})
    packed = b"gzip" in headers.get(b"accept-encoding", b"")
    response = Response(file.packed if packed else file.plain, media_type=file.media_type)
    response.headers["ETag"] = file.etag
    response.headers["Cache-Control"] = "no-cache"
    response.headers["Vary"] = "Accept-Encoding"
    if packed:
        response.headers["Content-Encoding"] = "gzip"
    return response


class SignIn(BaseModel):
    model_config = ConfigDict(extra="forbid")

    key: str = Field(max_length=1_000, description="The service key, or a named key.")


def dashboard_router(app: App, key: ServiceKey) -> APIRouter:
    router = Router(prefix="/dashboard", route_class=JsonRoute)

    @router.get("/session", include_in_schema=False)
    async def show_session(request: Request) -> Response:
        """Return who is signed in, the CSRF token of the session, and the pages of the pipelines."""
        session = key.session(request.scope)
        if session is None:
            return refusal(request.scope, 401, "signed_out", "Sign in first.")
        return answer(request, {**session._asdict(), "version": __version__, "features": _pages(app)})

    @router.post("/session", include_in_schema=False)
    async def sign_in(request: Request, body: Annotated[SignIn, Body()]) -> Response:
        owner = key.owner(body.key.strip().encode())
        if owner is None:
            return refusal(request.scope, 401, "unauthorized", "This is not a key of this Forager.")
        response = answer(request, {"signed_in": True})
        _set_cookie(request, response, key.new_session(owner))
        return response

    @router.delete("/session", include_in_schema=False)
    async def sign_out(request: Request) -> Response:
        response = answer(request, {"signed_in": False})
        response.delete_cookie(COOKIE, path="/")
        return response

    @router.get("/enter", include_in_schema=False)
    async def enter(request: Request, code: str = "") -> Response:
        """The one-off link that `forager up` prints. A code that is used up leads to the sign-in page."""
        response = RedirectResponse("/", 303)
        if key.use_link(code):
            _set_cookie(request, response, key.new_session(SERVICE))
        return response

    @router.get("/features/{name}/{path:path}", include_in_schema=False)
    async def show_feature_file(request: Request, name: str, path: str) -> Response:
        feature = app.features.get(name)
        found = dashboard_files(feature.page.package).get(path) if feature and feature.page else None
        if found is None:
            raise HTTPException(404, "There is no such file.")
        return _sent(request.scope, found)

    @router.get("/{path:path}", include_in_schema=False)
    async def show_file(request: Request, path: str) -> Response:
        found = dashboard_files().get(path)
        if found is None:
            raise HTTPException(404, "There is no such file.")
        return _sent(request.scope, found)

    return router


def _pages(app: App) -> list[dict[str, object]]:
    return [
        {
            "name": each.name,
            "title": each.page.title if each.page else each.name.replace("_", " ").capitalize(),
            "module": f"features/{each.name}/{each.page.module}" if each.page else None,
            "pipeline": each.name not in app.internal,
        }
        for each in app.features.values()
    ]


def _set_cookie(request: Request, response: Response, value: str) -> None:
    secure = request.url.scheme == "https"
    response.set_cookie(
        COOKIE, value, max_age=SESSION_SECONDS, path="/", httponly=True, samesite="strict", secure=secure
    )
