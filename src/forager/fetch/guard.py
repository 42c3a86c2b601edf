"""The egress guard: decides whether a connection may be made. Every outgoing connection of Forager is checked by it.

It never trusts a name, only the addresses behind it; it never checks one spelling of an address while another is
dialled; and it fails closed: what it cannot parse, it refuses.
"""

import asyncio
import errno
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache, partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from yarl import URL

from forager.core.errors import FieldError, NameUnknown, Refused, Rejected, Unreachable
from forager.core.threads import in_daemon_thread

# Name lookups by the operating system, off the event loop.
#
# Each lookup has its own thread: libuv, and so uvloop's `getaddrinfo`, runs only two at a time, and two dead name
# servers would block every lane. Concurrent callers for one name share a lookup, so that a dead name occupies one
# thread. The threads are daemons, so that a stopping process does not wait for a name server. The results are not
# judged here; the guard does that.


MOST_AT_ONCE = 256

Lookup = asyncio.Task[Sequence[str]]


class SystemNames:
    """`await names("shop.example", 443)`: all stream addresses, in the system's order of preference."""

    def __init__(self, most: int = MOST_AT_ONCE) -> None:
        self._room = asyncio.Semaphore(most)
        self._asked: dict[tuple[str, int], Lookup] = {}

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        asked = self._asked.get((host, port))
        if asked is None:
            asked = self._asked[host, port] = asyncio.create_task(self._look_up(host, port))
            asked.add_done_callback(lambda done: self._answered((host, port), done))
        return await asyncio.shield(asked)  # a caller that is cancelled does not affect the others

    def _answered(self, name: tuple[str, int], done: Lookup) -> None:
        del self._asked[name]
        if not done.cancelled():
            done.exception()  # all callers may have been cancelled

    async def _look_up(self, host: str, port: int) -> Sequence[str]:
        async with self._room:
            ask = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
            try:
                addresses = await in_daemon_thread(ask, name=f"lookup of {host}")
            except RuntimeError as error:  # no more threads are allowed here, for now
                raise OSError(errno.EAGAIN, "no thread is left for the lookup") from error
            return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in addresses))


# Decides which addresses belong to the public internet, by our own table after the IANA special-purpose registries.
#
# `ipaddress.is_global` must never decide here: it accepts NAT64, 6to4, IPv4-compatible and multicast addresses, and its
# answer changes with the Python version. An address that this table does not classify as public is not public.


# Every IPv4 block with a special purpose, also those the registry calls globally reachable (AS112, AMT, PCP anycast):
# no web site lives there, and routers answer to some of them.
SPECIAL_V4 = tuple(
    IPv4Network(block)
    for block in (
        "0.0.0.0/8",  # this network; Linux connects 0.0.0.0 to loopback
        "10.0.0.0/8",  # private use
        "100.64.0.0/10",  # shared address space of carriers; metadata of one cloud lives here
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # the Azure host's own channel: outside every registry, inside every Azure machine
        "169.254.0.0/16",  # link local, cloud metadata
        "172.16.0.0/12",  # private use
        "192.0.0.0/24",  # IETF protocol assignments
        "192.0.2.0/24",  # documentation
        "192.31.196.0/24",  # AS112
        "192.52.193.0/24",  # AMT
        "192.88.99.0/24",  # 6to4 relay anycast, deprecated
        "192.168.0.0/16",  # private use
        "192.175.48.0/24",  # AS112, direct delegation
        "198.18.0.0/15",  # benchmarking
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, limited broadcast
    )
)

# For IPv6 it is the reverse: only global unicast can be public, except these parts. Everything outside (loopback,
# mapped and compatible IPv4, discard-only, SRv6, unique local, link local, site local, multicast) is refused already.
GLOBAL_UNICAST = IPv6Network("2000::/3")
SPECIAL_V6 = tuple(
    IPv6Network(block)
    for block in (
        "2001::/23",  # IETF protocol assignments: benchmarking, ORCHID, drone ids … (Teredo is unwrapped first)
        "2001:db8::/32",  # documentation
        "2620:4f:8000::/48",  # AS112
        "3fff::/20",  # documentation
    )
)

# Addresses that embed an IPv4 address: they are public only if that address is. The local-use NAT64 prefix
# (64:ff9b:1::/48) is not among them: its operator chooses where in it the IPv4 address is, so it stays refused.
MAPPED = IPv6Network("::ffff:0:0/96")
NAT64 = IPv6Network("64:ff9b::/96")
SIX_TO_FOUR = IPv6Network("2002::/16")
TEREDO = IPv6Network("2001::/32")
ISATAP_MARKS = (0x00005EFE, 0x02005EFE)

_LOW_32 = 0xFFFFFFFF


def is_public(address: str | IPv4Address | IPv6Address) -> bool:
    """Return whether an address belongs to the public internet. An address that cannot be parsed does not."""
    if isinstance(address, str):
        try:
            address = ip_address(address)
        except ValueError:
            return False
    if isinstance(address, IPv4Address):
        return not any(address in block for block in SPECIAL_V4)
    if address.scope_id is not None:
        return False
    return _is_public_v6(address)


def carried(address: IPv6Address) -> tuple[IPv4Address, ...]:
    """Return the IPv4 addresses embedded in an IPv6 address: a packet for the outer one may end at any of them."""
    bits = int(address)
    if address in MAPPED or address in NAT64:
        return (IPv4Address(bits & _LOW_32),)
    if address in SIX_TO_FOUR:
        return (IPv4Address(bits >> 80 & _LOW_32), *_isatap(bits))
    if address in TEREDO:  # the server in clear, the client with its bits turned
        return (IPv4Address(bits >> 64 & _LOW_32), IPv4Address(~bits & _LOW_32))
    return _isatap(bits)


def _isatap(bits: int) -> tuple[IPv4Address, ...]:
    return (IPv4Address(bits & _LOW_32),) if bits >> 32 & _LOW_32 in ISATAP_MARKS else ()


def _is_public_v6(address: IPv6Address) -> bool:
    if not all(is_public(inner) for inner in carried(address)):
        return False
    if address in MAPPED or address in NAT64 or address in TEREDO:
        return True
    return address in GLOBAL_UNICAST and not any(address in block for block in SPECIAL_V6)


Address = IPv4Address | IPv6Address
Resolver = Callable[[str, int], Awaitable[Sequence[str]]]

_NO_SUCH_NAME = (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME))
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_LABEL = r"(?!-)[a-z0-9_-]{1,63}(?<!-)"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\.?")
# The system's resolver reads 2130706433, 0x7f.1, 127.1 and 0177.0.0.1 as addresses. A host whose last label is a
# number is therefore an address, and only its plain dotted form is accepted.
_NUMERIC = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)\.?")

# Ports on which something other than HTTP listens by custom, and would act on the text of a request (mail, shells,
# chat, databases of old): the list that browsers refuse.
# fmt: off
NOT_FOR_HTTP = frozenset((
    1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109, 110,
    111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532,
    540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061,
    6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
))
# fmt: on

ALLOW = "To permit it, add its network or host:port to FORAGER_EGRESS_ALLOW."


class EgressGuard:
    """Checks URLs and addresses. `allow` permits parts of an operator's own network: CIDR, ip:port or host:port, each
    exactly as written."""

    def __init__(self, allow: Sequence[str] = (), *, resolver: Resolver | None = None) -> None:
        self._networks: list[IPv4Network | IPv6Network] = []
        self._endpoints: set[tuple[Address, int]] = set()
        self._names: set[tuple[str, int]] = set()
        for entry in allow:
            self._permit(entry.strip())
        self._lookup = resolver or SystemNames()
        self._checked_host = lru_cache(maxsize=4096)(self._check_host)

    def check_url(self, url: str | URL) -> URL:
        """Parse and check a URL without any lookup. Returns it as it will be dialled; raises `Refused`."""
        if isinstance(url, str):
            if _CONTROL.search(url):
                raise Refused("the URL contains control characters. Remove them.")
            try:
                url = URL(url)
            except ValueError:
                raise Refused("the URL cannot be read: its host or port is malformed. Correct it.") from None
        if url.scheme not in ("http", "https"):
            if not url.scheme:
                raise Refused("not a valid http(s) URL: it should begin with https:// or http://.")
            raise Refused(f"the scheme {url.scheme!r} is refused: only http and https are fetched.")
        if url.raw_user is not None or url.raw_password is not None or "@" in url.raw_authority:
            raise Refused("the URL carries a user name or password. Name the secret in the request instead.")
        host, port = url.raw_host, url.port
        if not host or not port:
            raise Refused("the URL has no host or no valid port (1–65535). Correct it.")
        self._checked_host(host, port)
        return url

    async def resolve(self, host: str, port: int) -> list[str]:
        """Resolve a host once and return its addresses. Raises `Refused` unless every one of them may be dialled."""
        self._checked_host(host, port)
        if address := literal(host):
            return [str(address)]
        try:
            addresses = await self._lookup(host, port)
        except OSError as error:
            message = f"the name {host} does not resolve ({error.strerror or type(error).__name__})."
            is_unknown = isinstance(error, socket.gaierror) and error.errno in _NO_SUCH_NAME
            raise (NameUnknown if is_unknown else Unreachable)(message) from None
        except (ValueError, UnicodeError):
            raise Refused(f"the name {host} cannot be resolved. Correct the URL.") from None
        if not addresses:
            raise Unreachable(f"the name {host} has no address.")
        return [self._cleared(host, port, text) for text in addresses]

    def permits(self, address: str | Address, port: int) -> bool:
        """Return whether this address may be dialled, whatever name it came from."""
        try:
            parsed = ip_address(address)
        except ValueError:
            return False
        if isinstance(parsed, IPv6Address) and parsed.scope_id is not None:
            return False  # a zone id selects an interface of this machine; networks are compared without it
        if (parsed, port) in self._endpoints or any(parsed in network for network in self._networks):
            return True
        return port not in NOT_FOR_HTTP and is_public(parsed)

    def permits_name(self, host: str, port: int) -> bool:
        """Return whether an operator allowed this host:port by name; its addresses are then not checked."""
        return (host.rstrip("."), port) in self._names

    def _check_host(self, host: str, port: int) -> None:
        """Check the spelling of a host. Cached per host, because every request comes here."""
        if ":" in host:
            if not (address := literal(host)):
                raise Refused(f"[{host}] is not a plain IPv6 address; zone ids are refused. Correct the URL.")
        elif _NUMERIC.fullmatch(host.lower()):
            if not (address := literal(host)):
                raise Refused(f"{host} is an unusual spelling of an address. Write it as four decimal numbers.")
        else:
            if len(host) > 253 or not _NAME.fullmatch(host.lower()):
                raise Refused("the URL's host is not a valid name. Correct it.")
            return
        if not self.permits(address, port):
            raise Refused(f"{address} port {port} is not a public web address. {ALLOW}")

    def _cleared(self, host: str, port: int, text: str) -> str:
        if not literal(text):
            raise Refused(f"the name {host} resolves to something that is not a plain address.")
        if not self.permits_name(host, port) and not self.permits(text, port):
            raise Refused(f"the name {host} resolves to {text}: no public web address at port {port}. {ALLOW}")
        return text

    def _permit(self, entry: str) -> None:
        """Parse one entry of the allow list. A bare name is refused, because it would allow every port."""
        try:
            self._networks.append(ip_network(entry))
            return
        except ValueError:
            host, _, port = entry.rpartition(":")
        name = host.strip("[]").rstrip(".").lower()
        if not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
            raise _bad_entry(entry)
        if address := literal(name):
            self._endpoints.add((address, int(port)))
        elif _NAME.fullmatch(name) and not _NUMERIC.fullmatch(name):
            self._names.add((name, int(port)))
        else:
            raise _bad_entry(entry)


def literal(text: str) -> Address | None:
    """Return the address that a text denotes in plain form (no zone, no short or octal spelling), or None."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return None if isinstance(address, IPv6Address) and address.scope_id is not None else address


def _bad_entry(entry: str) -> Rejected:
    message = f"{entry!r} is neither a network nor host:port. Write 10.0.0.0/8, 10.1.2.3:8080 or shop.internal:8080."
    return Rejected(message, fields=[FieldError("FORAGER_EGRESS_ALLOW", message)])
