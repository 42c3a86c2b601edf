"""Pages requested with a login: it is sent to its own site only, by HTTP and by browser."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from forager.core.clock import SystemClock
from forager.core.errors import CredentialsMissing
from forager.core.http import Cookie, LoginRef, Request, Response
from forager.core.secret import Secret
from forager.fetch.guard import EgressGuard
from forager.fetch.http.fetcher import Fetcher, HttpFetcher
from forager.fetch.logins import SERVICE_KEY, CredentialClient, Logins, cookies_of
from forager.sandbox.credentials import CredentialBackend
from tests.support.clock import FakeClock
from tests.support.origin import Origin, Seen, reply
from tests.support.visits import browsing, visit

KEY = "backend-key-CANARY-77aa"
CANARY = "li_at-CANARY-0f9e8d7c"
LOGIN = LoginRef("acme", "linkedin")


async def here(host: str, port: int) -> Sequence[str]:
    """Every name is this machine."""
    return ["127.0.0.1"]


@dataclass
class Desk:
    fetch: Fetcher
    backend: CredentialBackend
    origin: Origin

    def keep(self, *cookies: Any) -> None:
        self.backend.keep("acme", "linkedin", {"cookies": list(cookies)})

    def cookies(self) -> list[tuple[str, str | None]]:
        """(host, cookie header) of each request that arrived."""
        lowered = [{name.lower(): value for name, value in seen.headers.items()} for seen in self.origin.seen]
        return [(each["host"].partition(":")[0], each.get("cookie")) for each in lowered]


def cookie(domain: str, **more: Any) -> dict[str, Any]:
    return {"name": "li_at", "value": CANARY, "domain": domain, "secure": False, **more}


@asynccontextmanager
async def desk(answer: Any = None, allow: Sequence[str] = ()) -> AsyncIterator[Desk]:
    async with CredentialBackend(KEY) as backend, Origin(answer or (lambda _: reply(200, b"hello"))) as origin:
        guard = EgressGuard([backend.endpoint, *(f"{name}:{origin.port}" for name in allow)], resolver=here)
        http = HttpFetcher(guard, SystemClock(), {SERVICE_KEY: KEY}.get)
        client = CredentialClient(http, FakeClock(), backend.base_url)
        yield Desk(Fetcher(http, http, Logins(client)), backend, origin)
        await http.close()


async def test_a_page_of_the_logins_own_site_is_requested_with_it__SC_12() -> None:
    async with desk(allow=["www.site.test"]) as at:
        at.keep(cookie(".site.test"), cookie("site.test", name="lang", value="en"), cookie("other.test", name="no"))
        await at.fetch(Request(at.origin.url("/in/ada", "www.site.test"), login=LOGIN))
        assert at.cookies() == [("www.site.test", f"li_at={CANARY}; lang=en")]


@pytest.mark.parametrize("host", ["evil.test", "site.test.evil.test", "notsite.test", "test"])
async def test_a_page_of_any_other_site_is_requested_anonymously__S7(host: str) -> None:
    async with desk(allow=[host]) as at:
        at.keep(cookie("site.test"))
        await at.fetch(Request(at.origin.url("/", host), login=LOGIN))
        assert at.cookies() == [(host, None)]


async def test_without_tls_only_a_cookie_that_allows_it_is_sent__S7() -> None:
    async with desk(allow=["site.test"]) as at:
        at.keep({"name": "li_at", "value": CANARY, "domain": "site.test"})
        await at.fetch(Request(at.origin.url("/", "site.test"), login=LOGIN))
        assert at.cookies() == [("site.test", None)]


async def test_a_redirect_takes_the_login_along_within_its_domain_and_leaves_it_behind_beyond__S7() -> None:
    def answer(seen: Seen) -> bytes:
        host, _, port = seen.headers.get("Host", seen.headers.get("host", "")).partition(":")
        if host == "site.test":
            return reply(302, Location=f"http://www.site.test:{port}/")
        return reply(302, Location=f"http://evil.test:{port}/") if host == "www.site.test" else reply(200)

    async with desk(answer, allow=["site.test", "www.site.test", "evil.test"]) as at:
        at.keep(cookie("site.test"))
        await at.fetch(Request(at.origin.url("/", "site.test"), login=LOGIN))
        sent = f"li_at={CANARY}"
        assert at.cookies() == [("site.test", sent), ("www.site.test", sent), ("evil.test", None)]


async def test_without_a_backend_a_page_is_requested_anonymously() -> None:
    async with desk(allow=["site.test"]) as at:
        alone = Fetcher(at.fetch._http, at.fetch._browser)
        await alone(Request(at.origin.url("/", "site.test"), login=LOGIN))
        assert at.cookies() == [("site.test", None)]


@pytest.mark.parametrize("statuses", [(404,), (500,) * 4, (0,) * 4])
async def test_an_unavailable_login_fails_the_page_and_nothing_is_sent__SC_12(statuses: tuple[int, ...]) -> None:
    async with desk(allow=["site.test"]) as at:
        at.backend.fail(*statuses)
        with pytest.raises(CredentialsMissing):
            await at.fetch(Request(at.origin.url("/", "site.test"), login=LOGIN))
        assert at.origin.seen == []


@pytest.mark.parametrize(
    "kept",
    [
        {"li_at": CANARY},
        {"cookies": CANARY},
        {"cookies": []},
        {"cookies": {"li_at": CANARY}},
        {"cookies": [{"name": "li_at", "value": CANARY}]},
        {"cookies": [{"name": "li_at", "value": CANARY, "domain": "com"}]},
        {"cookies": [{"name": "li_at", "value": CANARY, "domain": "a.test:8080"}]},
        {"cookies": [{"name": "li_at", "value": f"{CANARY}\r\nX: y", "domain": "a.test"}]},
        {"cookies": [{"name": "li_at", "value": f"{CANARY}; b=c", "domain": "a.test"}]},
        {"cookies": [{"name": "li at", "value": CANARY, "domain": "a.test"}]},
        {"cookies": [{"name": "li_at", "value": 5, "domain": "a.test"}]},
        {"cookies": [None]},
    ],
)
async def test_a_login_without_a_site_or_cookie_is_refused_without_being_shown__S8(
    kept: dict[str, Any],
) -> None:
    async with desk() as at:
        at.backend.keep("acme", "linkedin", kept)
        with pytest.raises(CredentialsMissing, match="cookies") as refused:
            await at.fetch(Request("http://a.test/", login=LOGIN))
        assert CANARY not in str(refused.value)


def test_what_is_printed_of_a_request_with_a_login_shows_no_value__S8() -> None:
    found = {"cookies": Secret(f'[{{"name":"li_at","value":"{CANARY}","domain":"site.test"}}]')}
    request = replace(Request("https://site.test/"), login=LOGIN, cookies=cookies_of(found, LOGIN))
    assert request.cookies[0] == Cookie("li_at", Secret(CANARY), "site.test")
    assert CANARY not in repr(request)
    assert "***" in repr(request)


async def test_a_browser_gives_the_login_to_its_site_alone_and_forgets_it__S7(chromium: Path) -> None:
    def answer(seen: Seen) -> bytes:
        return reply(200, f"<p>hello</p><img src='http://localhost:{port}/px'>".encode(), Content_Type="text/html")

    async with Origin(answer) as origin:
        port = origin.port
        async with browsing([origin.endpoint, f"localhost:{port}"], navigation_timeout=10) as fetch:
            own = (Cookie("li_at", Secret(CANARY), "127.0.0.1", secure=False),)
            first: Response = await fetch(visit(origin.url("/in"), cookies=own))
            await fetch(visit(origin.url("/again")))
            assert "hello" in first.body.decode()
    cookies = {(seen.target, {k.lower(): v for k, v in seen.headers.items()}.get("cookie")) for seen in origin.seen}
    assert ("/in", f"li_at={CANARY}") in cookies
    assert ("/again", None) in cookies
    assert {value for target, value in cookies if target == "/px"} <= {None}
