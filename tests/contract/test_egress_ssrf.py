"""The HTTP fetcher reaches nothing but the public internet: as target, as redirect, by name, through DNS tricks."""

import errno
import socket
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import aiohttp
import pytest

from forager.core.clock import SystemClock
from forager.core.errors import ForagerError, Permanent, Refused, Unreachable
from forager.core.http import Request
from forager.core.rules import RobotsFile
from forager.fetch.guard import EgressGuard, Resolver
from forager.fetch.http.connect import AddrInfo, Dialer, NotCleared, guarded_connector, open_socket
from forager.fetch.http.fetcher import HttpFetcher
from forager.fetch.robots import RobotsTxt
from tests.support.dialers import Detour, NoGuard
from tests.support.origin import Origin, Seen, reply
from tests.support.ssrf import forbidden_urls, public_urls

PUBLIC = "93.184.215.14"


class Dials:
    """A dialer that notes where a connection would have gone, and opens none."""

    def __init__(self) -> None:
        self.attempted: list[tuple[str, int]] = []

    def __call__(self, info: AddrInfo) -> socket.socket:
        self.attempted.append((info[4][0], info[4][1]))
        raise ConnectionRefusedError(errno.ECONNREFUSED, "no connection in this test")


class Names:
    """A resolver with a script: each lookup takes the next answer, the last one stays."""

    def __init__(self, *answers: Sequence[str] | Exception) -> None:
        self.answers = list(answers)
        self.lookups = 0

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.lookups += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
async def canary() -> AsyncIterator[Origin]:
    """Listens where an attack would land. It must receive nothing."""
    async with Origin(lambda _: reply(body=b"internal")) as origin:
        yield origin


@pytest.fixture
async def fetchers() -> AsyncIterator["Fetchers"]:
    made = Fetchers()
    yield made
    for fetcher in made.all:
        await fetcher.close()


class Fetchers:
    def __init__(self) -> None:
        self.all: list[HttpFetcher] = []

    def __call__(self, *allow: str, resolver: Resolver | None = None, dialer: Dialer = open_socket) -> HttpFetcher:
        guard = EgressGuard(allow, resolver=resolver)
        self.all.append(HttpFetcher(guard, SystemClock(), lambda _: None, dialer=dialer))
        return self.all[-1]


async def outcome(fetcher: HttpFetcher, url: str) -> str:
    try:
        response = await fetcher(Request(url, timeout=5))
    except ForagerError as error:
        return type(error).__name__
    return str(response.status)


async def test_no_forbidden_url_is_dialled_as_a_target__S1(canary: Origin, fetchers: Fetchers) -> None:
    urls = forbidden_urls(canary.port)
    assert len(urls) >= 400
    dials = Dials()
    fetcher = fetchers(resolver=Names(["127.0.0.1"]), dialer=dials)
    assert {url: got for url in urls if (got := await outcome(fetcher, url)) != "Refused"} == {}
    assert dials.attempted == []
    fetcher = fetchers()  # the same with the system's resolver and real sockets
    assert {url: got for url in urls if (got := await outcome(fetcher, url)) != "Refused"} == {}
    assert canary.connections == 0


async def test_no_forbidden_url_is_dialled_as_a_redirect__S1(canary: Origin, fetchers: Fetchers) -> None:
    urls = forbidden_urls(canary.port)

    def redirect(seen: Seen) -> bytes:
        return reply(302, Location=urls[int(seen.target[1:])])

    async with Origin(redirect) as entrance:
        fetcher = fetchers(entrance.endpoint)
        refused = [await outcome(fetcher, entrance.url(f"/{n}")) for n in range(len(urls))]
        assert [url for url, got in zip(urls, refused, strict=True) if got != "Refused"] == []
        assert len(entrance.seen) == len(urls)  # every redirect was really given
    assert canary.connections == 0


class Forgetful:
    """A store of robots.txt that is always empty."""

    async def read(self, origin: str) -> None:
        return None

    async def keep(self, file: RobotsFile) -> None:
        return None


async def test_no_forbidden_url_is_dialled_for_its_robots_txt__S1(canary: Origin, fetchers: Fetchers) -> None:
    dials = Dials()
    fetcher = fetchers(resolver=Names(["127.0.0.1"]), dialer=dials)
    robots = RobotsTxt(Forgetful(), SystemClock())
    let_through = []
    for url in forbidden_urls(canary.port):
        try:
            let_through.append((url, await robots.ask(url, fetcher)))
        except Refused:
            continue
    assert let_through == []
    assert dials.attempted == []
    assert canary.connections == 0


async def test_the_canary_detects_a_fetcher_that_may_reach_it__S1(canary: Origin, fetchers: Fetchers) -> None:
    """Negative control: silence above is the guard's work, not a deaf canary."""
    assert await outcome(fetchers("127.0.0.0/8"), canary.url()) == "200"
    assert canary.connections == 1


async def test_the_canary_detects_the_corpus_without_a_guard__S1(canary: Origin) -> None:
    """Negative control: most of the corpus lands there, whatever address it names."""
    heard = 0
    fetcher = HttpFetcher(NoGuard(), SystemClock(), lambda _: None, dialer=Detour())
    for url in (url for url in forbidden_urls(canary.port) if url.startswith("http:")):
        before = canary.connections, len(canary.seen)
        await outcome(fetcher, url)
        heard += (canary.connections, len(canary.seen)) != before
    await fetcher.close()
    assert heard >= 800  # the rest is no URL to the client library


async def test_public_controls_pass_and_are_dialled__S1(fetchers: Fetchers) -> None:
    urls = public_urls()
    assert len(urls) >= 50
    dials = Dials()
    fetcher = fetchers(resolver=Names([PUBLIC]), dialer=dials)
    assert [url for url in urls if await outcome(fetcher, url) != "Unreachable"] == []
    assert len(dials.attempted) >= len(urls)


async def test_an_address_is_checked_again_at_the_moment_of_connecting__S1(canary: Origin) -> None:
    """The client library does not resolve an address: the last check must be in the socket."""
    connector = guarded_connector(EgressGuard(), limit=1, dialer=open_socket)
    async with aiohttp.ClientSession(connector=connector) as session:
        with pytest.raises(aiohttp.ClientConnectorError) as caught:
            await session.get(canary.url())
    assert isinstance(caught.value.os_error, NotCleared)
    assert canary.connections == 0
    async with aiohttp.ClientSession() as unguarded:  # negative control
        await unguarded.get(canary.url())
    assert canary.connections == 1


async def test_a_name_is_resolved_once_and_that_very_address_is_dialled__S3(fetchers: Fetchers) -> None:
    dials, names = Dials(), Names([PUBLIC], ["127.0.0.1"])
    fetcher = fetchers(resolver=names, dialer=dials)
    assert await outcome(fetcher, "http://rebind.test/") == "Unreachable"
    assert (names.lookups, dials.attempted) == (1, [(PUBLIC, 80)])
    assert await outcome(fetcher, "http://rebind.test/") == "Refused"
    assert (names.lookups, dials.attempted) == (2, [(PUBLIC, 80)])


async def test_a_rebound_name_never_reaches_the_inside__S3(canary: Origin, fetchers: Fetchers) -> None:
    fetcher = fetchers(resolver=Names(["127.0.0.1"]))
    for host in ("rebind.test", "localhost", "localhost.", "LOCALHOST", "metadata.internal"):
        assert await outcome(fetcher, f"http://{host}:{canary.port}/") == "Refused"
    assert await outcome(fetchers(), f"http://localhost:{canary.port}/") == "Refused"
    assert canary.connections == 0


@pytest.mark.parametrize(
    "answers",
    [[PUBLIC, "127.0.0.1"], ["10.0.0.1", PUBLIC], [PUBLIC, "::1"], [PUBLIC, "::ffff:10.0.0.1"],
     [PUBLIC, "fe80::1%eth0"], [PUBLIC, "64:ff9b::a00:1"], ["2606:4700::1", "fd00::1"],
     [PUBLIC, "nonsense"], [PUBLIC, ""]],
)  # fmt: skip
async def test_one_bad_answer_among_good_ones_refuses_the_name__S3(answers: list[str], fetchers: Fetchers) -> None:
    dials = Dials()
    assert await outcome(fetchers(resolver=Names(answers), dialer=dials), "http://mixed.test/") == "Refused"
    assert dials.attempted == []


async def test_a_public_name_is_not_dialled_at_a_port_of_another_protocol__S1(fetchers: Fetchers) -> None:
    dials = Dials()
    fetcher = fetchers(resolver=Names([PUBLIC]), dialer=dials)
    for port in (22, 25, 465, 6667):
        assert await outcome(fetcher, f"http://mail.test:{port}/") == "Refused"
    assert dials.attempted == []


@pytest.mark.parametrize(
    ("answer", "error"),
    [(socket.gaierror(socket.EAI_AGAIN, "unknown"), Unreachable), (TimeoutError("slow"), Unreachable),
     ([], Unreachable), (UnicodeError("label too long"), Refused), (ValueError("nonsense"), Refused)],
)  # fmt: skip
async def test_a_failing_resolver_never_leads_to_a_dial__S3(
    answer: Sequence[str] | Exception, error: type[ForagerError], fetchers: Fetchers
) -> None:
    dials = Dials()
    with pytest.raises(error, match=r"gone\.test"):
        await fetchers(resolver=Names(answer), dialer=dials)(Request("http://gone.test/"))
    assert dials.attempted == []


async def test_an_allowed_name_opens_its_own_address_for_itself_alone__S1(canary: Origin, fetchers: Fetchers) -> None:
    fetcher = fetchers(f"a.test:{canary.port}", resolver=Names(["127.0.0.1"]))
    assert await outcome(fetcher, canary.url(host="a.test")) == "200"
    heard = canary.connections
    for host in ("b.test", "127.0.0.1", "a.test.evil.example"):
        assert await outcome(fetcher, canary.url(host=host)) == "Refused"
    assert canary.connections == heard


@pytest.mark.parametrize("scheme", ["file", "data", "ftp", "view-source", "chrome", "gopher", "javascript"])
async def test_other_schemes_are_refused_and_their_content_never_seen__S4(
    scheme: str, fetchers: Fetchers, tmp_path: Path
) -> None:
    secret = tmp_path / "canary.txt"
    secret.write_text("canary-4711")
    url = {"data": "data:text/plain,canary-4711", "javascript": "javascript:'canary-4711'"}.get(
        scheme, f"{scheme}://{secret}"
    )
    async with Origin(lambda _: reply(302, Location=url)) as entrance:
        fetcher = fetchers(entrance.endpoint)
        for target in (url, entrance.url("/go")):
            with pytest.raises(Permanent) as caught:
                await fetcher(Request(target))
            assert isinstance(caught.value, Refused)
            assert "canary-4711" not in str(caught.value)
