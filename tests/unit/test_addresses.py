"""The table of special addresses, at the borders of every range, and through every wrapping of IPv4 in IPv6."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

import pytest

from forager.fetch.guard import SPECIAL_V4, SPECIAL_V6, is_public

# Written apart from the table under test, from the registries' own list.
REGISTRY_V4 = [
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
    "192.0.0.0/29", "192.0.0.8/32", "192.0.0.9/32", "192.0.0.10/32", "192.0.0.170/32", "192.0.0.171/32",
    "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24",
    "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4", "255.255.255.255/32",
]  # fmt: skip
REGISTRY_V6 = [
    "::1/128", "::/128", "::/96", "64:ff9b:1::/48", "100::/64", "100:0:0:1::/64", "2001:1::1/128", "2001:1::2/128",
    "2001:2::/48", "2001:3::/32", "2001:4:112::/48", "2001:10::/28", "2001:20::/28", "2001:30::/28", "2001:db8::/32",
    "2620:4f:8000::/48", "3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
    "::ffff:0:0:0/96", "4000::/3", "8000::/1",
]  # fmt: skip
PUBLIC = [
    "1.1.1.1", "8.8.8.8", "93.184.215.14", "2606:4700:4700::1111", "2001:4860:4860::8888", "2a00:1450:4001::1",
    "2400:cb00::1",
]  # fmt: skip


@pytest.mark.parametrize("block", REGISTRY_V4 + REGISTRY_V6)
def test_no_address_of_a_special_range_is_public__S1(block: str) -> None:
    network = (IPv6Network if ":" in block else IPv4Network)(block)
    middle = network[network.num_addresses // 2]
    assert [str(a) for a in (network[0], network[-1], middle) if is_public(a)] == []


@pytest.mark.parametrize("block", SPECIAL_V4, ids=str)
def test_the_neighbours_of_a_special_ipv4_range_are_judged_on_their_own__S1(block: IPv4Network) -> None:
    others = [other for other in SPECIAL_V4 if other != block]
    for number in (int(block[0]) - 1, int(block[-1]) + 1):
        if 0 <= number < 2**32:
            neighbour = IPv4Address(number)
            assert is_public(neighbour) == (not any(neighbour in other for other in others)), neighbour


@pytest.mark.parametrize("block", SPECIAL_V6, ids=str)
def test_the_neighbours_of_a_special_ipv6_range_are_public_unless_special_themselves__S1(block: IPv6Network) -> None:
    assert not is_public(block[0])
    assert not is_public(block[-1])
    after = IPv6Address(int(block[-1]) + 1)
    assert is_public(after) == (after in IPv6Network("2000::/3"))


def test_only_global_unicast_is_public_ipv6__S1() -> None:
    assert not is_public("1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")
    assert is_public("2003::1")
    assert is_public("3ffe::1")
    assert not is_public("4000::")


@pytest.mark.parametrize("address", PUBLIC)
def test_ordinary_addresses_are_public__S1(address: str) -> None:
    assert is_public(address)


def wrapped(inner: IPv4Address) -> dict[str, IPv6Address]:
    number = int(inner)
    server = int(IPv4Address("8.8.8.8"))
    return {
        "mapped": IPv6Address(0xFFFF << 32 | number),
        "NAT64": IPv6Address(0x0064FF9B << 96 | number),
        "6to4": IPv6Address(0x2002 << 112 | number << 80 | 1),
        "Teredo client": IPv6Address(0x20010000 << 96 | server << 64 | (~number & 0xFFFFFFFF)),
        "Teredo server": IPv6Address(0x20010000 << 96 | number << 64 | (~server & 0xFFFFFFFF)),
        "ISATAP private": IPv6Address(0x2A001450 << 96 | 0x00005EFE << 32 | number),
        "ISATAP global": IPv6Address(0x2A001450 << 96 | 0x02005EFE << 32 | number),
        "ISATAP in 6to4": IPv6Address(0x2002 << 112 | server << 80 | 0x00005EFE << 32 | number),
    }


@pytest.mark.parametrize("kind", wrapped(IPv4Address(0)))
def test_a_wrapped_ipv4_address_is_as_public_as_itself__S1(kind: str) -> None:
    for block in SPECIAL_V4:
        for inner in (block[0], block[-1]):
            assert not is_public(wrapped(inner)[kind]), inner
    assert is_public(wrapped(IPv4Address("93.184.215.14"))[kind])


def test_forms_without_a_known_meaning_are_refused_even_around_a_public_address__S1() -> None:
    assert not is_public("::8.8.8.8")  # IPv4-compatible: deprecated, routed nowhere
    assert not is_public("64:ff9b:1::808:808")  # local-use NAT64: where the IPv4 address sits is a local choice
    assert not is_public("::ffff:0:808:808")  # stateless translation, never seen outside


@pytest.mark.parametrize("text", ["", "localhost", "127.1", "0x7f.0.0.1", "0177.0.0.1", "2130706433", "2606::1%eth0"])
def test_what_is_no_plain_address_is_not_public__S1(text: str) -> None:
    assert not is_public(text)


def test_the_address_of_a_cloud_host_outside_the_registries_is_refused__S1() -> None:
    assert not is_public("168.63.129.16")
    assert is_public("168.63.129.15")
    assert is_public("168.63.129.17")
