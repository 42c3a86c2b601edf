"""Pages that are read with a login, through the whole service: it reaches its site, and nothing else."""

import asyncio
import io
import sqlite3
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest
from pydantic import SecretStr

from forager.sandbox.credentials import CredentialBackend
from forager.sandbox.receiver import WebhookReceiver
from forager.sandbox.scrape_pages import SiteAnswer, page, person, scrape_answer
from forager.sandbox.site import SandboxSite
from forager.sandbox.wire import WireRequest
from tests.support.logs import logging_to
from tests.support.scrape import API, PATIENCE, Service, open_service

COOKIE = "li_at-CANARY-4b1c9e"
BACKEND_KEY = "bck-CANARY-77d0a2"
SECRET = "whk-CANARY-0c66fe"
CANARIES = (COOKIE, BACKEND_KEY, SECRET)


@dataclass
class House:
    service: Service
    backend: CredentialBackend
    receiver: WebhookReceiver
    lines: io.StringIO

    async def ask(self, path: str, **more: Any) -> httpx.Response:
        return await self.service.sync(path, target_type="linkedin_profile", **more)


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """The log as written in production, but without the redaction of these secrets."""
    with logging_to(io.StringIO()) as out:
        yield out


@pytest.fixture(params=["sqlite", "postgres"])
async def house(request: pytest.FixtureRequest, tmp_path: Path, lines: io.StringIO) -> AsyncIterator[House]:
    url = None if request.param == "sqlite" else str(request.getfixturevalue("app_postgres_url"))
    async with CredentialBackend(BACKEND_KEY) as backend, WebhookReceiver([SECRET]) as receiver, SandboxSite() as site:
        login = {"name": "li_at", "value": COOKIE, "domain": "127.0.0.1", "secure": False}
        backend.keep("acme", "linkedin", {"cookies": [login]})
        settings: dict[str, Any] = {
            "egress_allow": (site.endpoint, backend.endpoint, receiver.endpoint),
            "backend_api_url": backend.base_url,
            "backend_service_key": SecretStr(BACKEND_KEY),
            "webhook_secret": SecretStr(SECRET),
            "default_webhook_url": SecretStr(receiver.url("/hook")),
            "navigation_timeout_ms": 1_000,
        }
        async with open_service(tmp_path, url, **settings) as service, service.app.engine():
            service.site = site
            for path, status in (
                ("/members", 200),
                ("/members/gone", 404),
                ("/members/no", 403),
                ("/members/bad", 500),
            ):
                site.answers[path] = _echo(status)
            site.answers["/members/wall"] = _wall
            yield House(service, backend, receiver, lines)


def _echo(status: int) -> Any:
    """A site that shows its visitor's cookie, as no site should: what is kept of a page must not hold it."""

    def answer(request: WireRequest) -> SiteAnswer:
        cookie = request.headers.get(b"cookie", b"").decode()
        if status != 200:
            return page("No", f"<h1>No</h1><p>You are {cookie}</p>", status)
        if COOKIE not in cookie:
            return _wall(request)
        profile = scrape_answer(request._replace(path="/profiles/jsonld/1"))
        assert profile is not None
        return SiteAnswer(200, profile.body + f"<!-- {cookie} -->".encode())

    return answer


def _wall(request: WireRequest) -> SiteAnswer:
    cookie = request.headers.get(b"cookie", b"").decode()
    form = "<form method='post'><input name='user'><input type='password'></form>"
    return page("Sign in", f"<h1>Sign in to see the full profile, {cookie}</h1>{form}")


async def test_a_page_is_read_with_the_login_of_its_workspace__SC_12(house: House) -> None:
    answer = await house.ask("/members")
    assert answer.status_code == 200, answer.text
    assert answer.json()["data"]["result"]["name"] == person(1)["name"]
    (visit,) = house.service.site.visits("/members")
    assert visit.headers[b"cookie"].decode() == f"li_at={COOKIE}"
    for _ in range(3):
        await house.ask("/members")
    assert len(house.backend.log) == 1, "it is remembered for five minutes"


async def test_without_credentials_sync_is_502_and_the_page_is_not_requested__SC_2__SC_12(house: House) -> None:
    answer = await house.ask("/members", workspace_id="somebody-else")
    assert (answer.status_code, answer.json()["meta"]["reason"]) == (502, "credentials_missing")
    assert house.service.site.visits("/members") == []
    seen = await house.service.data(f"/{answer.json()['meta']['task_id']}")
    assert (seen["status"], seen["reason"]) == ("failed", "credentials_missing")


async def test_a_key_that_the_backend_refuses_fails_each_page_and_degrades_health__SC_12(house: House) -> None:
    house.backend.fail(401, 403)
    for status in (401, 403):
        answer = await house.ask("/members")
        assert (answer.status_code, answer.json()["meta"]["reason"]) == (502, "key_refused")
        assert f"refuses our key ({status})" in answer.json()["error"]
        seen = await house.service.data(f"/{answer.json()['meta']['task_id']}")
        assert (seen["status"], seen["reason"]) == ("failed", "key_refused")
    health = (await house.service.client.get("/health")).json()["data"]
    assert (health["status"], health["refused_keys"]) == ("degraded", 1)
    assert "FORAGER_BACKEND_SERVICE_KEY" in health["refused_key_errors"]
    assert house.lines.getvalue().count('"event":"key_refused"') == 1
    assert (await house.ask("/members")).status_code == 200
    assert (await house.service.client.get("/health")).json()["data"]["status"] == "ok"


async def test_no_credential_is_seen_anywhere_however_a_page_ends__S8__SC_12__SC_15(
    house: House, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    house.service.site.answers["/members/late"] = SiteAnswer(200, b"late", delay=30.0)
    ends = {
        path: (await house.ask(path)).status_code
        for path in ("/members", "/members/gone", "/members/no", "/members/wall", "/members/late", "/members/bad")
    }
    assert ends == {
        "/members": 200,
        "/members/gone": 502,
        "/members/no": 502,
        "/members/wall": 502,
        "/members/late": 504,
        "/members/bad": 502,
    }
    assert all(COOKIE in visit.headers.get(b"cookie", b"").decode() for visit in house.service.site.visits("/members"))
    house.backend.fail(500, 500, 500, 500)
    assert (await house.ask("/members", workspace_id="unlucky")).json()["meta"]["reason"] == "credentials_missing"
    async with asyncio.timeout(PATIENCE):
        await house.receiver.arrived(len(ends) + 1)
    shown = [house.lines.getvalue(), *(each.body.decode() for each in house.receiver.log)]
    shown += [text async for text in _everything_told(house.service)]
    stored = await _everything_stored(request, tmp_path)
    assert "linkedin_profile" in stored
    for canary in CANARIES:
        assert [text[:300] for text in shown if canary in text] == []
        assert canary not in stored


@pytest.mark.parametrize("house", ["sqlite"], indirect=True)
async def test_control_a_page_that_is_kept_with_its_login_would_be_found__S8(
    house: House, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The setting of an operator, and the negative control of the test above."""
    steps = house.service.app.worker._steps._steps
    step = steps["scrape.page"]
    scraper = replace(step.run.__self__, keep_logged_in=True)  # type: ignore[attr-defined]
    monkeypatch.setitem(steps, "scrape.page", replace(step, run=scraper.scrape))
    await house.ask("/members/gone")
    assert COOKIE in await _everything_stored(request, tmp_path)
    assert [text for text in [t async for t in _everything_told(house.service)] if COOKIE in text]


async def _everything_told(service: Service) -> AsyncIterator[str]:
    client = service.client
    found = "scrape_result"
    exports = [f"/api/v1/export/{found}?format={form}" for form in ("jsonl", "csv")]
    for path in ("/health", "/metrics", "/openapi.json", "/api/v1/lanes", f"/api/v1/records/{found}", *exports):
        answer = await client.get(path)
        assert answer.status_code == 200, path
        yield answer.text
    dead = (await client.get("/api/v1/dead")).json()["data"]
    assert dead
    for letter in dead:
        for path in (f"/api/v1/dead/{letter['id']}", f"/api/v1/dead/{letter['id']}/screenshot"):
            yield (await client.get(path)).text
    for job in (await client.get("/api/v1/jobs")).json()["data"]:
        yield str(job)
        yield (await client.get(f"/api/v1/jobs/{job['id']}/tasks")).text
        if job["pipeline"] == "scrape":
            yield (await client.get(f"{API}/jobs/{job['id']}")).text
            yield (await client.get(f"{API}/jobs/{job['id']}/results")).text
            yield (await client.get(f"/api/v1/jobs/{job['id']}/events")).text
            for task in (await client.get(f"/api/v1/jobs/{job['id']}/tasks")).json()["data"]:
                yield (await client.get(f"{API}/{task['id']}")).text
                yield (await client.get(f"/api/v1/tasks/{task['id']}")).text


async def _everything_stored(request: pytest.FixtureRequest, home: Path) -> str:
    """A dump of every table, and whatever is in the data folder."""
    files = "".join(path.read_bytes().decode("latin-1") for path in home.rglob("*") if path.is_file())
    if (home / "ledger.db").exists():
        with sqlite3.connect(home / "ledger.db") as embedded:
            return files + "\n".join(embedded.iterdump())
    db = await asyncpg.connect(request.getfixturevalue("app_postgres_url"))
    names = await db.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    rows = [str(await db.fetch(f'SELECT * FROM "{name[0]}"')) for name in names]
    await db.close()
    return files + "".join(rows)
