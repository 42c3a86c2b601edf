"""A dialer that connects to this machine whatever address it is given, and a guard that refuses nothing."""

import socket
from collections.abc import Mapping
from typing import Any

from yarl import URL

from forager.core.errors import Refused
from forager.fetch.guard import Address, EgressGuard
from forager.fetch.http.connect import AddrInfo


class Detour:
    """`ports`: maps the port that is dialled to the port on loopback that answers; others map to themselves."""

    def __init__(self, ports: Mapping[int, int] | None = None) -> None:
        self.dialled: list[tuple[str, int]] = []
        self._ports = ports or {}

    def __call__(self, info: AddrInfo) -> socket.socket:
        address, port = str(info[4][0]), int(info[4][1])
        self.dialled.append((address, port))
        return _Detoured(socket.AddressFamily(info[0]), self._ports.get(port, port))


class NoGuard(EgressGuard):
    """Negative control: a guard that lets a whole corpus reach the canary."""

    def check_url(self, url: str | URL) -> URL:
        try:
            return URL(url)
        except ValueError:
            raise Refused("no URL at all.") from None

    async def resolve(self, host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    def permits(self, address: str | Address, port: int) -> bool:
        return True


class _Detoured(socket.socket):
    """Claims to be of the requested family, and is IPv4 on loopback."""

    def __init__(self, family: socket.AddressFamily, port: int) -> None:
        super().__init__(socket.AF_INET, socket.SOCK_STREAM)
        self._claimed, self._port = family, port

    @property
    def family(self) -> socket.AddressFamily:
        return self._claimed

    def connect(self, address: Any) -> None:
        super().connect(("127.0.0.1", self._port))
