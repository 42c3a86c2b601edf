"""The connector of the HTTP client: the guard resolves names, and every socket is checked before it is opened.

aiohttp skips its resolver if a host is already an address, so the resolver alone is not enough: the socket factory sees
the address that is about to be dialled, however it was obtained. Lookups are not cached here.
"""

import socket
import ssl
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

import aiohappyeyeballs
from aiohttp import TCPConnector
from aiohttp.abc import AbstractResolver, ResolveResult

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
    """Return a connector that can reach only what the guard permits."""

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
    """The default dialer; tests inject one that records what was admitted."""
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
