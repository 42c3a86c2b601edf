"""Credentials belong to the origin they were meant for: no redirect carries them on, and no error shows them."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
from yarl import URL

from forager.core.clock import SystemClock
from forager.core.errors import ForagerError, Unconfigured
from forager.core.http import Request, SecretRef
from forager.fetch.guard import EgressGuard
from forager.fetch.http.fetcher import HttpFetcher
from forager.fetch.http.sessions import Hop, next_hop
from tests.support.origin import Origin, Seen, reply, trusting

CANARY = "canary-8d1f"
SECRETS = {"KEY": f"{CANARY}-secret"}
HEADERS = {"Authorization": f"Bearer {CANARY}", "Cookie": f"s={CANARY}", "X-API-KEY": CANARY, "X-Invented": CANARY}
STATUSES = (301, 302, 303, 307, 308)


async def everything_is_here(host: str, port: int) -> Sequence[str]:
    return ["127.0.0.1"]


class Pair:
    """Two origins, plain and TLS; `first` redirects to a target that a test sets."""

    def __init__(self, plain: Origin, other: Origin, secure: Origin, fetcher: HttpFetcher, entrance: dict[str, str]):
        self.plain, self.other, self.secure, self.fetch = plain, other, secure, fetcher
        self._entrance = entrance

    async def follow(self, start: str, status: int, target: str, request: Request | None = None) -> list[Seen]:
        self._entrance.update(status=str(status), target=target)
        for origin in (self.plain, self.other, self.secure):
            origin.seen.clear()
        request = request or Request(start, "POST", HEADERS, b"body", SecretRef("KEY", "X-Service-Key", "Key "))
        assert (await self.fetch(request)).body == b"end"
        return [
            seen for origin in (self.plain, self.other, self.secure) for seen in origin.seen if seen.target == "/end"
        ]


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    entrance: dict[str, str] = {}

    def answer(seen: Seen) -> bytes:
        if seen.target == "/end":
            return reply(body=b"end")
        if seen.target.startswith("/via"):
            return reply(307, Location=URL(seen.target).query["to"])
        return reply(int(entrance["status"]), Location=entrance["target"])

    async with Origin(answer) as plain, Origin(answer) as other, Origin(answer, tls=True) as secure:
        allowed = [f"{host}:{o.port}" for o in (plain, other, secure) for host in ("127.0.0.1", "a.test", "b.test")]
        guard = EgressGuard(allowed, resolver=everything_is_here)
        fetcher = HttpFetcher(guard, SystemClock(), SECRETS.get, tls=trusting())
        yield Pair(plain, other, secure, fetcher, entrance)
        await fetcher.close()


@pytest.mark.parametrize("status", STATUSES)
async def test_credentials_stay_on_their_origin__S7(pair: Pair, status: int) -> None:
    """Control: the same origin gets them, so that their absence below means something."""
    (end,) = await pair.follow(pair.plain.url("/start"), status, "/end")
    assert end.headers["x-service-key"] == f"Key {SECRETS['KEY']}"
    assert {end.headers[name.lower()] for name in HEADERS} == set(HEADERS.values())
    assert (end.method, end.body) == (("POST", b"body") if status >= 307 else ("GET", b""))


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("change", ["port", "host", "name to address", "to TLS", "from TLS", "other TLS host"])
async def test_a_change_of_origin_drops_every_credential__S7(pair: Pair, status: int, change: str) -> None:
    start, target = {
        "port": (pair.plain.url("/start"), pair.other.url("/end")),
        "host": (pair.plain.url("/start", "a.test"), pair.plain.url("/end", "b.test")),
        "name to address": (pair.plain.url("/start", "a.test"), pair.plain.url("/end")),
        "to TLS": (pair.plain.url("/start"), pair.secure.url("/end")),
        "from TLS": (pair.secure.url("/start"), pair.plain.url("/end")),
        "other TLS host": (pair.secure.url("/start", "a.test"), pair.secure.url("/end", "b.test")),
    }[change]
    (end,) = await pair.follow(start, status, target)
    assert CANARY.encode() not in end.raw


async def test_credentials_do_not_come_back_after_a_detour__S7(pair: Pair) -> None:
    back = pair.plain.url("/end")
    (end,) = await pair.follow(pair.plain.url("/start"), 307, pair.other.url(f"/via?to={back}"))
    assert CANARY.encode() not in end.raw
    assert all(CANARY.encode() not in seen.raw for seen in pair.other.seen)


def test_the_same_host_and_port_over_another_scheme_is_another_origin__S7() -> None:
    for start, target in (
        ("https://a.test:8443/", "http://a.test:8443/"),
        ("http://a.test:8443/", "https://a.test:8443/"),
    ):
        hop = next_hop(Hop(URL(start), "GET", HEADERS, None), 307, target)
        assert hop.headers == {}


async def test_a_secret_replaces_a_header_of_the_same_name_in_any_case(pair: Pair) -> None:
    request = Request(pair.plain.url("/start"), headers={"authorization": "old"}, auth=SecretRef("KEY"))
    (end,) = await pair.follow(request.url, 302, "/end", request)
    assert b"old" not in end.raw
    assert end.headers["authorization"] == SECRETS["KEY"]


async def test_a_missing_secret_stops_the_job_and_is_named(pair: Pair) -> None:
    with pytest.raises(Unconfigured, match="SERPER_API_KEY is not set"):
        await pair.fetch(Request(pair.plain.url(), auth=SecretRef("SERPER_API_KEY", "X-API-KEY")))
    assert pair.plain.seen == []


@pytest.mark.parametrize(
    "fault", ["line break", "refused", "timed out", "dropped", "bad header", "bad method", "userinfo"]
)
async def test_no_error_shows_a_secret_or_a_query__S8(fault: str) -> None:
    async def silence() -> AsyncIterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\n"
        await asyncio.Event().wait()

    async with Origin(lambda _: silence() if fault == "timed out" else b"") as origin:
        secret = f"{CANARY}\r\nX: y" if fault == "line break" else CANARY
        guard = EgressGuard([] if fault == "refused" else [origin.endpoint])
        fetcher = HttpFetcher(guard, SystemClock(), lambda _: secret)
        request = Request(
            f"http://{CANARY}@{origin.endpoint}/p" if fault == "userinfo" else origin.url(f"/p?key={CANARY}#{CANARY}"),
            method=f"GET {CANARY}\r\n" if fault == "bad method" else "GET",
            headers={"X": f"{CANARY}\r\nY: z"} if fault == "bad header" else {"Cookie": CANARY},
            auth=SecretRef("KEY"),
            timeout=0.2,
        )
        with pytest.raises(ForagerError) as caught:
            await fetcher(request)
        assert CANARY not in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__ or caught.value.__context__ is None
        await fetcher.close()
