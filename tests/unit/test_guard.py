"""Decisions of the guard before any lookup, and how it reads an operator's allow list."""

import asyncio
import gc
import socket
from ipaddress import IPv4Address, IPv6Address

import pytest

from forager.core.errors import NameUnknown, Refused, Rejected, Unreachable
from forager.fetch.guard import EgressGuard, SystemNames, carried, is_public, literal
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


EMBEDDED = [
    ("::ffff:127.0.0.1", ["127.0.0.1"]),
    ("64:ff9b::8.8.8.8", ["8.8.8.8"]),
    ("2002:7f00:1::", ["127.0.0.1"]),
    ("2002:808:808::5efe:a01:203", ["8.8.8.8", "10.1.2.3"]),
    ("2001:0:4136:e378:8000:63bf:3fff:fdd2", ["65.54.227.120", "192.0.2.45"]),
    ("2606:4700::5efe:a01:203", ["10.1.2.3"]),
    ("2606:4700::200:5efe:a01:203", ["10.1.2.3"]),
    ("2606:4700:4700::1111", []),
]


@pytest.mark.parametrize(("outer", "inner"), EMBEDDED)
def test_every_address_inside_of_an_address_is_found__S1(outer: str, inner: list[str]) -> None:
    assert carried(IPv6Address(outer)) == tuple(IPv4Address(each) for each in inner)


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("8.8.8.8", True),
        ("10.1.2.3", False),
        ("no address", False),
        ("2606:4700:4700::1111", True),
        ("::ffff:8.8.8.8", True),
        ("64:ff9b::8.8.8.8", True),
        ("64:ff9b::10.1.2.3", False),
        ("2001:0:4136:e378:8000:63bf:f7f7:f7f7", True),
        ("2001:0:4136:e378:8000:63bf:f5fe:fdfc", False),
        ("2606:4700::5efe:a01:203", False),
        ("2001:db8::1", False),
        ("fd00::1", False),
    ],
)
def test_an_address_is_public_if_all_of_it_is__S1(address: str, public: bool) -> None:
    assert is_public(address) is public
    assert EgressGuard().permits(address, 443) is public


def test_a_port_that_is_not_for_http_is_refused_also_at_a_public_address__S1() -> None:
    assert EgressGuard().permits("8.8.8.8", 25) is False
    assert EgressGuard(["8.8.8.8:25"]).permits("8.8.8.8", 25) is True
    assert EgressGuard().permits("no address", 443) is False


@pytest.mark.parametrize(("port", "is_read"), [("1", True), ("65535", True), ("0", False), ("65536", False)])
def test_the_first_and_the_last_port_can_be_allowed(port: str, is_read: bool) -> None:
    if not is_read:
        with pytest.raises(Rejected):
            EgressGuard([f"10.0.0.1:{port}"])
        return
    assert EgressGuard([f"10.0.0.1:{port}"]).permits("10.0.0.1", int(port)) is True
    assert EgressGuard([f"shop.internal.:{port}"]).permits_name("shop.internal", int(port)) is True


def test_a_checked_url_is_returned_as_it_will_be_dialled() -> None:
    url = EgressGuard().check_url("http://EXAMPLE.com/a?b=1")
    assert (url.host, url.port, url.raw_path_qs) == ("example.com", 80, "/a?b=1")


def test_the_longest_name_is_valid_and_one_more_letter_is_not__S1() -> None:
    longest = ".".join(["a" * 63] * 3 + ["b" * 61])
    assert len(longest) == 253
    EgressGuard().check_url(f"http://{longest}/")
    with pytest.raises(Refused):
        EgressGuard().check_url(f"http://{longest}b/")


def resolved(*answers: str, allow: tuple[str, ...] = (), error: OSError | None = None) -> EgressGuard:
    async def names(host: str, port: int) -> list[str]:
        if error is not None:
            raise error
        return list(answers)

    return EgressGuard(allow, resolver=names)


async def test_a_name_is_dialled_at_the_addresses_that_were_checked__S3() -> None:
    assert await resolved("8.8.8.8", "1.1.1.1").resolve("site.example", 443) == ["8.8.8.8", "1.1.1.1"]
    assert await resolved().resolve("8.8.8.8", 443) == ["8.8.8.8"], "an address needs no lookup"
    with pytest.raises(Refused, match=r"resolves to 10\.0\.0\.1"):
        await resolved("8.8.8.8", "10.0.0.1").resolve("site.example", 443)
    allowed = resolved("10.0.0.1", allow=("site.example:443",))
    assert await allowed.resolve("site.example", 443) == ["10.0.0.1"]
    assert allowed.permits_name("site.example", 443) is True
    assert allowed.permits_name("site.example", 80) is False
    for odd in ("127.1", "a..b"):
        with pytest.raises(Refused, match=r"unusual spelling|not a valid name"):
            await resolved("8.8.8.8").resolve(odd, 443)


async def test_an_unknown_name_and_a_failing_resolver_are_distinguished__S3() -> None:
    with pytest.raises(Unreachable, match="has no address"):
        await resolved().resolve("site.example", 443)
    with pytest.raises(NameUnknown):
        await resolved(error=socket.gaierror(socket.EAI_NONAME, "no")).resolve("site.example", 443)
    with pytest.raises(Unreachable) as later:
        await resolved(error=socket.gaierror(socket.EAI_AGAIN, "later")).resolve("site.example", 443)
    assert not isinstance(later.value, NameUnknown)
    with pytest.raises(Unreachable) as broken:
        await resolved(error=OSError(socket.EAI_NONAME, "another kind")).resolve("site.example", 443)
    assert not isinstance(broken.value, NameUnknown)


async def test_concurrent_lookups_of_a_name_share_one_answer_and_a_later_one_is_new__S3(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[str, int]] = []
    answers = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, 443)) for each in ("8.8.8.8", "1.1.1.1", "8.8.8.8")]

    def look_up(host: str, port: int, **_: object) -> list[object]:
        asked.append((host, port))
        return list(answers)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    names = SystemNames()
    both = await asyncio.gather(names("site.example", 443), names("site.example", 443))
    assert [*map(list, both)] == [["8.8.8.8", "1.1.1.1"]] * 2
    assert asked == [("site.example", 443)]
    await asyncio.sleep(0)
    assert await names("site.example", 443) == ["8.8.8.8", "1.1.1.1"]
    assert len(asked) == 2


async def test_a_lookup_that_fails_after_its_callers_have_left_is_no_error_of_the_loop() -> None:
    told: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    names, ends = SystemNames(), asyncio.Event()

    async def fails(host: str, port: int) -> list[str]:
        await ends.wait()
        raise OSError("no")

    vars(names)["_look_up"] = fails
    caller = asyncio.create_task(names("site.example", 443))
    await asyncio.sleep(0)
    caller.cancel()
    await asyncio.wait([caller])
    ends.set()
    for _ in range(5):
        await asyncio.sleep(0)
    gc.collect()
    assert told == []
    assert names._asked == {}
