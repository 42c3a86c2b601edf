"""Decisions of the guard before any lookup, and how it reads an operator's allow list."""

import pytest

from forager.core.errors import Refused, Rejected
from forager.fetch.guard import EgressGuard, is_public, literal
from forager.fetch.http.connect import NotCleared, clear

ODD_SPELLINGS = [
    "2130706433", "0x7f000001", "0x7f.1", "127.1", "127.0.1", "0177.0.0.1", "017700000001", "0x7f.0.0.1", "127.0.0.1.",
    "127.0.0.01", "1.2.3.4.5", "256.1.1.1", "0", "0x", "１２７.0.0.1", "①②⑦.⓪.⓪.①", "127。0。0。1", "8.8.2056",
    "134744072", "[::1%25lo]", "[::1%lo]", "[2606:4700::1%eth0]", "[::ffff:127.0.0.1]", "[0:0:0:0:0:0:0:1]", "[::]",
]  # fmt: skip
BAD_HOSTS = ["", "a..b", "-a.com", "a-.com", "exa mple.com", "%31%32%37.0.0.1", "a%00.com", "a" * 64 + ".com",
             "a." * 130 + "com", "a\\@b", "ex*mple.com", "a,b"]  # fmt: skip


@pytest.mark.parametrize("host", ODD_SPELLINGS + BAD_HOSTS)
def test_an_odd_host_is_refused__S1(host: str) -> None:
    with pytest.raises(Refused):
        EgressGuard().check_url(f"http://{host}/")


@pytest.mark.parametrize(
    "url",
    ["http://u@example.com/", "http://u:p@example.com/", "http://:p@example.com/", "http://:@example.com/",
     "http://example.com@127.0.0.1/", "http://example.com:0/", "http://example.com:65536/", "http://example.com:x/",
     "http://8.8.8.8:25/", "http://exa\nmple.com/", "http://example.com/\x00", "http:///etc", "http:example.com",
     "//example.com/", "example.com", "", "\\\\example.com"],
)  # fmt: skip
def test_a_url_that_is_not_plain_is_refused__S1(url: str) -> None:
    with pytest.raises(Refused):
        EgressGuard().check_url(url)


@pytest.mark.parametrize(
    "scheme", ["file", "data", "ftp", "view-source", "chrome", "gopher", "ws", "javascript", "unix"]
)
def test_only_http_and_https_are_fetched__S4(scheme: str) -> None:
    with pytest.raises(Refused, match="only http and https"):
        EgressGuard().check_url(f"{scheme}://example.com/x")


@pytest.mark.parametrize(
    "url",
    ["http://example.com", "https://example.com:8443/a?b=c#d", "http://EXAMPLE.com./", "http://faß.de/",
     "http://a_b.example.com/", "http://8.8.8.8/", "http://[2606:4700:4700::1111]:8080/", "http://xn--fa-hia.de/",
     "http://3com.com/", "http://1.2.3.4.example/", "http://[::ffff:8.8.8.8]/", "http://0x7f.example/"],
)  # fmt: skip
def test_an_ordinary_url_passes__S1(url: str) -> None:
    EgressGuard().check_url(url)


def test_an_allowed_endpoint_is_exact__S1() -> None:
    guard = EgressGuard(["127.0.0.1:8080", "[::1]:9090", "10.0.0.0/8"])
    for url in ("http://127.0.0.1:8080/", "http://[::1]:9090/", "http://10.1.2.3/", "http://10.1.2.3:25/"):
        guard.check_url(url)
    not_quite = ["127.0.0.1", "127.0.0.1:8081", "127.0.0.2:8080", "[::ffff:127.0.0.1]:8080", "2130706433:8080"]
    for authority in [*not_quite, "[::1]:8080", "11.0.0.1:25", "[::ffff:10.1.2.3]"]:
        with pytest.raises(Refused):
            guard.check_url(f"http://{authority}/")


@pytest.mark.parametrize("entry", ["", "localhost", "10.0.0.1/8", "host:0", "host:70000", "127.1:80", "a b:80", "*:80"])
def test_an_allow_list_that_cannot_be_read_is_rejected_with_its_name(entry: str) -> None:
    with pytest.raises(Rejected, match="host:port") as caught:
        EgressGuard([entry])
    assert caught.value.fields[0].field == "FORAGER_EGRESS_ALLOW"


ZONED = ["2606:4700:4700::1111%eth0", "2606:4700:4700::1111%1", "fe80::1%eth0", "::1%lo", "2606:4700:4700::1111%25eth0"]
"""Addresses with a zone id. Without it, the first two are public: only the zone id speaks against them."""


@pytest.mark.parametrize("address", ZONED)
def test_an_address_with_a_zone_id_is_not_public__S1(address: str) -> None:
    assert not is_public(address)
    assert literal(address) is None


@pytest.mark.parametrize("address", ZONED)
@pytest.mark.parametrize("allow", [[], ["::/0"], ["fe80::/10"], ["[fe80::1]:443"]])
def test_an_address_with_a_zone_id_is_never_dialled__S1(address: str, allow: list[str]) -> None:
    guard = EgressGuard(allow)
    assert not guard.permits(address, 443)
    with pytest.raises(NotCleared):
        clear(guard, address, 443)


@pytest.mark.parametrize("address", ZONED)
def test_a_url_with_a_zone_id_is_refused_for_it__S1(address: str) -> None:
    with pytest.raises(Refused, match="zone ids are refused"):
        EgressGuard(["::/0"]).check_url(f"http://[{address}]/")


@pytest.mark.parametrize("address", ZONED)
@pytest.mark.parametrize("allow", [[], ["::/0"], ["site.example:443"]])
async def test_a_name_that_resolves_to_a_zone_id_is_refused__S1(address: str, allow: list[str]) -> None:
    async def names(host: str, port: int) -> list[str]:
        return ["2606:4700:4700::1111", address]

    with pytest.raises(Refused, match="not a plain address"):
        await EgressGuard(allow, resolver=names).resolve("site.example", 443)
