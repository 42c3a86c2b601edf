"""Serves the API on a port, in the event loop that is already running: API, engine and schedules are one process.

It installs no signal handlers, because the code that runs the loop decides when to stop. It writes its address into the
lock file of the embedded store, so that commands find it.
"""

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import uvicorn
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from forager.api.create import create_api
from forager.api.health_snapshot import VitalSigns
from forager.api.metrics import CONTENT_TYPE, Metrics
from forager.app import App
from forager.core.errors import Rejected
from forager.secrets.service_key import check_bind

BACKLOG = 2_048
KEEP_ALIVE = 30
CLOSING_SECONDS = 5.0


@asynccontextmanager
async def serve(app: App, *, host: str, port: int, key: str) -> AsyncIterator[str]:
    """Serve requests while the block runs. Yields the URL. Port 0 takes any free port.

    Raises `Rejected` for an address that other machines can reach, unless the service key is strong.
    """
    check_bind(host, key)
    async with running(create_api(app, key=key), host=host, port=port) as url:
        app.ledger.announce(url)
        try:
            yield url
        finally:
            app.ledger.announce(None)


@asynccontextmanager
async def running(api: FastAPI, *, host: str, port: int) -> AsyncIterator[str]:
    """Serve an application made by `create_api`. At the end, its streams are closed and its requests finished."""
    async with listening(api, host=host, port=port) as url:
        try:
            yield url
        finally:
            api.state.feeds.closing.set()


@asynccontextmanager
async def serve_metrics(app: App, *, host: str, port: int) -> AsyncIterator[str]:
    """Serve `/metrics` alone, for a worker without an API, while the block runs. Yields its URL. Port 0 takes any free
    port. The figures are those of the API's `/metrics`, and need no key either."""
    metrics = Metrics(app, VitalSigns(app))

    async def show(_: Request) -> Response:
        return Response(await metrics.text(), headers={"Content-Type": CONTENT_TYPE})

    site = Starlette(routes=[Route("/metrics", show)])
    async with listening(site, host=host, port=port, options="--metrics-host and --metrics-port") as url:
        yield f"{url}/metrics"


@asynccontextmanager
async def listening(
    site: Starlette, *, host: str, port: int, options: str = "--host and --port (FORAGER_HOST, FORAGER_PORT)"
) -> AsyncIterator[str]:
    """Serve an ASGI application while the block runs. Yields its URL. `options` are named in the error if the address
    cannot be bound."""
    with contextlib.closing(_bound(host, port, options)) as bound:
        server = _Server(site)
        serving = asyncio.create_task(server.serve(sockets=[bound]))
        try:
            await server.until_started(serving)
            yield _url(host, bound.getsockname()[1])
        finally:
            server.should_exit = True
            await serving


class _Server(uvicorn.Server):
    def __init__(self, site: Starlette) -> None:
        super().__init__(
            uvicorn.Config(
                site,
                log_config=None,
                access_log=False,
                server_header=False,
                lifespan="off",
                ws="none",
                backlog=BACKLOG,
                timeout_keep_alive=KEEP_ALIVE,
                timeout_graceful_shutdown=round(CLOSING_SECONDS),
                proxy_headers=False,
            )
        )

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def until_started(self, serving: asyncio.Task[None]) -> None:
        while not self.started:
            if serving.done():
                serving.result()
                raise Rejected("The API could not be started; the log says why.")
            await asyncio.sleep(0)


def _bound(host: str, port: int, options: str) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, protocol)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
        except OSError:
            bound.close()
            raise
    except OSError as error:
        raise Rejected(
            f"Forager cannot listen on {host} port {port}: {error.strerror or error}."
            f" Choose another with {options}, or stop what uses it."
        ) from error
    return bound


def _url(host: str, port: int) -> str:
    """Return the URL to call. A server that binds every interface is reached through loopback."""
    with contextlib.suppress(ValueError):
        address = ipaddress.ip_address(host)
        if address.is_unspecified:
            host = "127.0.0.1" if address.version == 4 else "::1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
