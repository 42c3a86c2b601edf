"""The connector of the HTTP client: the guard resolves names, and every socket is checked before it is opened.

aiohttp skips its resolver if a host is already an address, so the resolver alone is not enough: the socket factory sees
the address that is about to be dialled, however it was obtained. Lookups are not cached here.
"""

import asyncio
import os
import socket
import ssl
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from types import TracebackType
from typing import Any

import aiohappyeyeballs
import aiohttp
from aiohttp import TCPConnector
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.http_exceptions import LineTooLong
from yarl import URL

from forager.core.errors import ForagerError, Permanent, Refused, TimedOut, Transient, Unreachable
from forager.core.states import ErrorType, Reason
from forager.fetch.guard import EgressGuard

AddrInfo = tuple[int | socket.AddressFamily, int | socket.SocketKind, int, str, tuple[Any, ...]]
Dialer = Callable[[AddrInfo], socket.socket]

# Data that arrives in one piece is parsed in one piece, and a hostile server can make every six bytes of it a chunk:
# this bounds how long one iteration of the event loop can take. A page still arrives at 64 KiB per round trip.
RECEIVE_BUFFER = 64 * 1024

# Head start of one address family before the other is tried in parallel.
HAPPY_EYEBALLS = 0.25

# The addresses that the guard resolved for the request of this task: an operator may have allowed a name with private
# addresses, and only a request for that name may dial them.
_resolved: ContextVar[frozenset[tuple[str, int]]] = ContextVar("forager_resolved", default=frozenset())


class NotCleared(OSError):
    """A socket was about to be opened to an address that the guard does not permit."""


def guarded_connector(
    guard: EgressGuard, *, limit: int, dialer: Dialer, tls: ssl.SSLContext | None = None
) -> TCPConnector:
    """Return a connector that reaches only addresses permitted by the guard."""

    def checked(info: AddrInfo) -> socket.socket:
        clear(guard, str(info[4][0]), int(info[4][1]))
        return dialer(info)

    return TCPConnector(
        resolver=GuardedResolver(guard),
        socket_factory=checked,
        use_dns_cache=False,
        limit=limit,
        ssl=tls or True,
        keepalive_timeout=15,
    )


def clear(guard: EgressGuard, address: str, port: int) -> None:
    """Check an address for the last time before it is dialled or passed to a proxy. Raises `NotCleared`."""
    if (address, port) not in _resolved.get() and not guard.permits(address, port):
        raise NotCleared(f"{address} port {port} is not a public web address")


async def dial(addresses: Sequence[str], port: int, dialer: Dialer) -> socket.socket:
    """Return a socket connected to the first of these addresses that answers. They come from `EgressGuard.resolve`."""
    infos = [
        (socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port, 0, 0))
        if ":" in address
        else (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port))
        for address in addresses
    ]
    return await aiohappyeyeballs.start_connection(infos, happy_eyeballs_delay=HAPPY_EYEBALLS, socket_factory=dialer)


def open_socket(info: AddrInfo) -> socket.socket:
    """Open a socket. This is the default dialer; tests inject one that records the admitted addresses."""
    opened = socket.socket(info[0], info[1], info[2])
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
    return opened


class GuardedResolver(AbstractResolver):
    """Implements aiohttp's resolver with the guard: returns only addresses that were checked."""

    def __init__(self, guard: EgressGuard) -> None:
        self._guard = guard

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        addresses = await self._guard.resolve(host, port)
        _resolved.set(frozenset((address, port) for address in addresses))
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in addresses
        ]

    async def close(self) -> None:
        return


# Translates exceptions of libraries to ours; no other module does. An error must never show a query, a user name or a
# secret.
#
# time-out while waiting for the answer → TimedOut (what it cost is unknown) no connection → Unreachable dropped,
# incomplete, not HTTP → Transient (the same call may succeed later) certificate, a request that cannot be written →
# Permanent the guard, a cap → Refused


FOREIGN = (aiohttp.ClientError, OSError, asyncio.IncompleteReadError, ValueError, TypeError, RuntimeError)


class map_errors:  # noqa: N801  (reads as a word in a with statement, as contextlib's own do)
    """`with map_errors(request.url):` translates every exception to a `ForagerError` that names where it happened."""

    __slots__ = ("url",)

    def __init__(self, url: str) -> None:
        self.url = url

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is None:
            return
        if isinstance(error, ForagerError):
            error.at(shown(self.url))
        elif isinstance(error, FOREIGN):
            # The cause is removed on purpose: messages of the client library contain whole URLs and header values.
            raise translated(error).at(shown(self.url)) from None


def translated(error: Exception) -> ForagerError:
    """Return our error for a library's exception. Once connected, the call may have been executed, and charged."""
    match error:
        case aiohttp.ConnectionTimeoutError():
            return Transient("no connection in time; nothing was sent.", reason=Reason.UNREACHABLE)
        case TimeoutError():
            return TimedOut("no complete answer in time.")
        case aiohttp.ClientConnectorCertificateError():
            message = f"its certificate is not trusted ({_reason(error.certificate_error)})."
            return Permanent(message, reason=Reason.CERTIFICATE, error_type=ErrorType.NETWORK)
        case aiohttp.ClientConnectorError() if isinstance(error.os_error, NotCleared):
            return Refused(f"{error.os_error}.")
        case aiohttp.ClientConnectorError():
            return Unreachable(f"no connection ({_reason(error.os_error)}).")
        case aiohttp.ClientResponseError() if _caused_by(error, LineTooLong):
            return Refused("a line of its headers is too long, and was stopped.", reason=Reason.TOO_LARGE)
        case aiohttp.ClientResponseError():
            return Transient("the answer is not valid HTTP.", maybe_done=True, reason=Reason.BROKEN_ANSWER)
        case aiohttp.ClientPayloadError() | asyncio.IncompleteReadError():
            return Transient("the answer broke off.", maybe_done=True, reason=Reason.BROKEN_ANSWER)
        case aiohttp.InvalidURL() | ValueError() | TypeError():
            message = "the request cannot be written as HTTP (its URL or a header is malformed)."
            return Permanent(message, error_type=ErrorType.VALIDATION)
        case _:
            message = f"the connection was lost ({_reason(error)})."
            return Transient(message, maybe_done=True, reason=Reason.BROKEN_ANSWER)


def shown(url: str | URL) -> str:
    """Return a URL as it may appear in an error: without user, query and fragment, which can contain keys."""
    try:
        parsed = URL(url)
        text = str(parsed.with_user(None).with_query(None).with_fragment(None)) if parsed.host else parsed.scheme
    except (ValueError, UnicodeError):
        return "(unreadable URL)"
    return (text or "(no URL)")[:200]


def _reason(error: BaseException) -> str:
    """Return the operating system's message for a failure, or its type: never a library's own text."""
    if isinstance(error, OSError) and not isinstance(error, socket.gaierror) and (error.errno or 0) > 0:
        return os.strerror(error.errno or 0)  # asyncio puts the address where this message belongs
    return getattr(error, "strerror", None) or getattr(error, "verify_message", None) or type(error).__name__


def _caused_by(error: BaseException, kind: type[BaseException]) -> bool:
    cause = error.__cause__
    return cause is not None and (isinstance(cause, kind) or _caused_by(cause, kind))
