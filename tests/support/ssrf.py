"""URLs that must never be dialled: every special range × notation × mapping, all aimed at one port."""

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from tests.support.attempts import tried

# From the registries, not from the table under test.
RANGES_V4 = [
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "168.63.129.16/32", "169.254.0.0/16", "172.16.0.0/12",
    "192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16",
    "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
]  # fmt: skip
RANGES_V6 = [
    "::1/128", "::/128", "64:ff9b:1::/48", "100::/64", "2001:2::/48", "2001:10::/28", "2001:20::/28", "2001:db8::/32",
    "2620:4f:8000::/48", "3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
]  # fmt: skip
NAMED_TARGETS = ("127.0.0.1", "169.254.169.254", "100.100.100.200", "192.0.0.192")
FULLWIDTH = str.maketrans("0123456789.", "０１２３４５６７８９．")
CIRCLED = str.maketrans("0123456789", "⓪①②③④⑤⑥⑦⑧⑨")


def forbidden_urls(port: int) -> list[str]:
    """The corpus, without repeats."""
    targets = [IPv4Address(text) for text in NAMED_TARGETS]
    for network in map(IPv4Network, RANGES_V4):
        targets += [network[0], network[-1]]
    hosts = [host for target in targets for host in (*notations(target), *mappings(target))]
    for range6 in map(IPv6Network, RANGES_V6):
        hosts += [f"[{range6[0]}]", f"[{range6[-1].exploded}]", f"[{range6[-1]}%25lo]"]
    urls = [f"http://{host}:{port}/" for host in hosts]
    urls += [f"https://{host}:{port}/" for host in hosts[::7]]
    urls += [f"http://example.com@{host}:{port}/" for host in hosts[::11]]
    urls += [
        f"http:\\\\127.0.0.1:{port}/",
        f"http://example.com\\@127.0.0.1:{port}/",
        f"http://127.0.0.1:{port}\\@example.com/",
    ]
    return tried(list(dict.fromkeys(urls)))


def notations(address: IPv4Address) -> Iterator[str]:
    """The ways in which some parser reads the same address."""
    number, parts = int(address), str(address).split(".")
    a, b, c, d = (int(part) for part in parts)
    yield str(address)
    yield str(number)
    yield hex(number)
    yield f"0{number:o}"
    yield ".".join(hex(part) for part in (a, b, c, d))
    yield ".".join(f"0{part:o}" for part in (a, b, c, d))
    yield f"{a}.{b}.{c << 8 | d}"
    yield f"{a}.{b << 16 | c << 8 | d}"
    yield f"{hex(a)}.{b << 16 | c << 8 | d}"
    yield f"{a:03d}.{b}.{c}.{d}" if a < 100 else f"{a:04d}.{b}.{c}.{d}"
    yield f"{address}."
    yield str(address).translate(FULLWIDTH)
    yield str(address).translate(CIRCLED)
    yield str(address).replace(".", "。")
    yield "".join(f"%{ord(char):02x}" for char in str(address))


def mappings(address: IPv4Address) -> Iterator[str]:
    """The address inside IPv6, by every scheme that some network unwraps."""
    number, public = int(address), int(IPv4Address("8.8.8.8"))
    yield f"[::ffff:{address}]"
    yield f"[0:0:0:0:0:FFFF:{number >> 16:x}:{number & 0xFFFF:x}]"
    yield f"[::{address}]"
    yield f"[64:ff9b::{address}]"
    yield f"[64:ff9b:1::{address}]"
    yield f"[{IPv6Address(0x2002 << 112 | number << 80 | 1)}]"
    yield f"[{IPv6Address(0x20010000 << 96 | public << 64 | (~number & 0xFFFFFFFF))}]"
    yield f"[{IPv6Address(0x20010000 << 96 | number << 64 | (~public & 0xFFFFFFFF))}]"
    yield f"[2a00:1450::5efe:{address}]"
    yield f"[2a00:1450::200:5efe:{address}]"


def public_urls() -> list[str]:
    """Controls: fifty URLs with nothing wrong about them, as addresses and as names."""
    octets = [1, 8, 9, 23, 45, 64, 93, 99, 101, 126, 128, 151, 168, 170, 172, 185, 193, 198, 203, 223]
    urls = [f"http://{first}.251.7.{first}/" for first in octets]
    urls += [f"https://[2606:4700:{n:x}::1111]:8443/" for n in range(0x4700, 0x470A)]
    urls += ["http://[::ffff:93.184.215.14]/", "http://[64:ff9b::93.184.215.14]/"]
    urls += [f"http://shop{n}.example.com/a?b={n}" for n in range(15)]
    urls += ["http://faß.de/", "https://EXAMPLE.com./", "http://3com.com:8080/"]
    return urls
