"""Serves the API on a port, in the event loop that is already running: API, engine and schedules are one process.

It installs no signal handlers, because the code that runs the loop decides when to stop. It writes its address into the
lock file of the embedded store, so that commands find it.

A client that reads nothing is disconnected, whatever its request: closing such a connection is not enough, because a
transport closes only after its last byte was accepted.
"""

import asyncio
import contextlib
import ipaddress
import socket
import struct
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any, cast

import structlog
import uvicorn
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from forager.api.create import create_api
from forager.api.health import VitalSigns
from forager.api.metrics import CONTENT_TYPE, Metrics
from forager.app.application import App
from forager.core.errors import Rejected
from forager.secrets.service_key import check_bind

log = structlog.get_logger("forager.api")

BACKLOG = 2_048
KEEP_ALIVE = 30
CLOSING_SECONDS = 5.0
PATIENCE = 30.0
"""Seconds that a client may read nothing while bytes wait for it, before its connection is cut."""


@asynccontextmanager
async def serve(
    app: App, *, host: str, port: int, key: str, take_link: Callable[[str], None] | None = None
) -> AsyncIterator[str]:
    """Serve requests while the block runs. Yields the URL. Port 0 takes any free port. `take_link` gets a link that
    signs a browser in to the dashboard, once, within five minutes.

    Raises `Rejected` for an address that other machines can reach, unless the service key is strong.
    """
    check_bind(host, key)
    api = create_api(app, key=key)
    async with running(api, host=host, port=port) as url:
        app.ledger.announce(url)
        if take_link is not None:
            take_link(f"{url}/dashboard/enter?code={api.state.service_key.new_link()}")
        try:
            yield url
        finally:
            app.ledger.announce(None)


@asynccontextmanager
async def running(api: FastAPI, *, host: str, port: int, patience: float = PATIENCE) -> AsyncIterator[str]:
    """Serve an application made by `create_api`. At the end, its streams are closed and its requests finished. A client
    that reads nothing for `patience` seconds is disconnected."""
    async with listening(api, host=host, port=port, patience=patience) as url:
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
    site: Starlette,
    *,
    host: str,
    port: int,
    options: str = "--host and --port (FORAGER_HOST, FORAGER_PORT)",
    patience: float = PATIENCE,
) -> AsyncIterator[str]:
    """Serve an ASGI application while the block runs. Yields its URL. `options` are named in the error if the address
    cannot be bound."""
    with contextlib.closing(_bound(host, port, options)) as bound:
        server = _Server(site, patience)
        serving = asyncio.create_task(server.serve(sockets=[bound]))
        try:
            await server.until_started(serving)
            yield _url(host, bound.getsockname()[1])
        finally:
            server.should_exit = True
            await serving


class _Connection(H11Protocol):
    """A connection that can be cut while bytes wait for a client that does not read them."""

    _read = 0
    """Bytes that the client's side has accepted …"""
    _read_at = 0.0
    """… and when the last of them were accepted, or were written."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._written = _Written(transport)
        super().connection_made(cast("asyncio.Transport", self._written))

    def cut_if_unread(self, now: float, patience: float) -> None:
        waiting = self._written.waiting()
        read = self._written.bytes - waiting
        if not waiting or read != self._read or not self._read_at:
            self._read, self._read_at = read, now
        elif now - self._read_at >= patience:
            log.info("client_disconnected", reason=f"it read nothing for {patience:g} s", unread_bytes=waiting)
            self._written.drop()


class _Written:
    """A transport that counts the bytes written to it."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self.bytes = 0
        self._transport = transport

    def write(self, data: bytes) -> None:
        self.bytes += len(data)
        self._transport.write(data)

    def waiting(self) -> int:
        """Return the bytes that wait here and in the kernel (known on Linux only)."""
        waiting = self._transport.get_write_buffer_size()
        if sys.platform == "linux" and not self._transport.is_closing():
            import fcntl
            import termios

            with contextlib.suppress(OSError):
                count = fcntl.ioctl(self._transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, bytes(4))
                waiting += int.from_bytes(count, sys.byteorder)
        return waiting

    def drop(self) -> None:
        """Close at once, without the bytes that wait: the kernel would keep them for minutes otherwise."""
        with contextlib.suppress(OSError):
            raw = self._transport.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class _Server(uvicorn.Server):
    def __init__(self, site: Starlette, patience: float) -> None:
        self._patience = patience
        super().__init__(
            uvicorn.Config(
                site,
                http=_Connection,
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

    async def on_tick(self, counter: int) -> bool:
        """Cut the connections whose clients read nothing. uvicorn calls this ten times a second."""
        if counter % 5 == 0:
            now = time.monotonic()
            for connection in list(self.server_state.connections):
                cast("_Connection", connection).cut_if_unread(now, self._patience)
        return await super().on_tick(counter)

    async def until_started(self, serving: asyncio.Task[None]) -> None:
        while not self.started:
            if serving.done():
                serving.result()
                raise Rejected("The API could not be started; see the log.")
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
