"""Where a proxy is and how to get in: what a connector needs to dial it. It never shows the user or the password."""

from dataclasses import dataclass
from typing import Literal

from forager.core.secret import Secret

Protocol = Literal["http", "https", "socks5"]
"""How the proxy itself is spoken to; what is asked through it may be either of http and https."""


@dataclass(frozen=True, slots=True)
class ProxyEndpoint:
    protocol: Protocol
    host: str
    """A name or an address, lower case; an IPv6 address without brackets."""
    port: int
    username: Secret | None = None
    password: Secret | None = None
    region: str | None = None
    """Two letters of the country that its requests seem to come from."""
