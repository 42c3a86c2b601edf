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

from forager.api.create import create_api
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
    with contextlib.closing(_bound(host, port)) as listening:
        server = _Server(api)
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            await server.until_started(serving)
            yield _url(host, listening.getsockname()[1])
        finally:
            api.state.feeds.closing.set()
            server.should_exit = True
            await serving


class _Server(uvicorn.Server):
    def __init__(self, api: FastAPI) -> None:
        super().__init__(
            uvicorn.Config(
                api,
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


def _bound(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
        except OSError:
            listening.close()
            raise
    except OSError as error:
        raise Rejected(
            f"The API cannot listen on {host} port {port}: {error.strerror or error}."
            " Choose another with --host and --port (FORAGER_HOST, FORAGER_PORT), or stop what uses it."
        ) from error
    return listening


def _url(host: str, port: int) -> str:
    """Return the URL to call. A server that binds every interface is reached through loopback."""
    with contextlib.suppress(ValueError):
        address = ipaddress.ip_address(host)
        if address.is_unspecified:
            host = "127.0.0.1" if address.version == 4 else "::1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
