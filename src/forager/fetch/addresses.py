"""Decides which addresses belong to the public internet, by our own table after the IANA special-purpose registries.

`ipaddress.is_global` must never decide here: it accepts NAT64, 6to4, IPv4-compatible and multicast addresses, and its
answer changes with the Python version. An address that this table does not classify as public is not public.
"""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

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
