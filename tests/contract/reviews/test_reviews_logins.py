"""Google logins: a refresh token instead of an access token, for schedules; the loopback flow; nothing leaks."""

import asyncio
import re
import sqlite3
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import orjson
import pytest

from forager.pipelines.reviews import cli_login
from forager.pipelines.reviews.cli_login import OAuthClient, read_client
from forager.sdk.cli import render
from forager.sdk.cli.client import Api, ApiAnswer
from tests.support.api import KEY
from tests.support.reviews import API, Reviews, open_reviews

LOGINS = "/api/v1/review-logins"
CLIENT = {"client_id": "1-a.apps.example", "client_secret": "GOCSPX-very-secret"}
REFRESH = "1//sandbox-acme"


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest) -> str | None:
    return None if request.param == "sqlite" else str(request.getfixturevalue("app_postgres_url"))


async def stored(rig: Reviews, refresh: str = REFRESH) -> httpx.Response:
    return await rig.client.put(f"{LOGINS}/google", json={**CLIENT, "refresh_token": refresh})


def refreshed(rig: Reviews) -> int:
    return sum(call.operation == "token.refresh" for call in rig.google.log.since(0))


async def test_a_job_of_a_login_fetches_with_tokens_that_are_made_from_it(
    tmp_path: Path, database_url: str | None
) -> None:
    async with open_reviews(tmp_path, database_url, locations=4) as rig:
        assert (await stored(rig)).status_code == 200
        assert (await rig.client.get(LOGINS)).json()["data"] == [{"name": "google"}]
        before = refreshed(rig)
        made = await rig.client.post(API, json={"login": "google"})
        assert made.status_code == 202, made.text
        await rig.work()
        job = made.json()["data"]["job_id"]
        assert (await rig.seen(job))["status"] == "completed"
        assert await rig.records("review", job)
        assert refreshed(rig) == before + 1  # one token for all pages
        again = await rig.client.post(API, json={"login": "google"})
        await rig.work()
        assert (await rig.seen(again.json()["data"]["job_id"]))["status"] == "completed"
        assert refreshed(rig) == before + 1


async def test_a_schedule_needs_no_token_if_it_names_a_login(tmp_path: Path) -> None:
    async with open_reviews(tmp_path, locations=2) as rig:
        schedule = {"pipeline": "reviews", "cron": "0 4 * * *", "params": {"login": "google"}}
        unknown = await rig.client.put("/api/v1/schedules/daily", json=schedule)
        assert (await stored(rig)).status_code == 200
        with_login = await rig.client.put("/api/v1/schedules/daily", json=schedule)
        assert with_login.status_code in (200, 201), (unknown.text, with_login.text)
        without = await rig.client.put("/api/v1/schedules/other", json={**schedule, "params": {}})
        assert without.status_code == 422
        assert "access_token" in without.text


async def test_a_login_that_google_revoked_pauses_the_job_with_the_remedy_and_a_new_one_lets_it_continue(
    tmp_path: Path,
) -> None:
    async with open_reviews(tmp_path, locations=2) as rig:
        await stored(rig)
        rig.app.tokens["reviews"]._tokens.clear()
        rig.google.tokens.expire(REFRESH)
        job = (await rig.client.post(API, json={"login": "google"})).json()["data"]["job_id"]
        await rig.work()
        shown = (await rig.client.get(f"/api/v1/jobs/{job}")).json()["data"]
        assert shown["state"] == "paused"
        assert "forager reviews login --name google" in shown["reason"]
        assert (await stored(rig, "1//sandbox-other")).status_code == 200
        assert (await rig.client.post(f"/api/v1/jobs/{job}/resume")).status_code == 200
        await rig.work()
        assert (await rig.seen(job))["status"] == "completed"


async def test_mistakes_are_refused_and_no_secret_is_repeated_or_stored_in_plain_text(tmp_path: Path) -> None:
    async with open_reviews(tmp_path, locations=1) as rig:
        wrong = await stored(rig, "1//unknown-refresh-token")
        assert wrong.status_code == 422
        assert "Google refused the login" in wrong.json()["error"]
        assert (await rig.client.put(f"{LOGINS}/google", json=CLIENT)).status_code == 400
        assert (
            await rig.client.put(f"{LOGINS}/Not%20a%20name", json={**CLIENT, "refresh_token": "x"})
        ).status_code == 422
        missing = await rig.client.post(API, json={"login": "nobody"})
        assert missing.status_code == 422
        assert "forager reviews login" in missing.text
        assert (await rig.client.delete(f"{LOGINS}/google")).status_code == 404
        assert (await stored(rig)).status_code == 200
        answers = [wrong.text, (await rig.client.get(LOGINS)).text]
        assert not any(CLIENT["client_secret"] in text or "1//" in text for text in answers)
        (row,) = sqlite3.connect(tmp_path / "ledger.db").execute("SELECT sealed FROM vault").fetchall()
        assert "sandbox-acme" not in row[0]
        assert (await rig.client.delete(f"{LOGINS}/google")).status_code == 200
        assert (await rig.client.get(LOGINS)).json()["data"] == []


async def test_the_token_endpoint_is_checked_by_the_egress_guard__S2(tmp_path: Path) -> None:
    async with open_reviews(tmp_path, locations=1, google_oauth_url="http://127.0.0.1:9") as rig:
        got = await stored(rig)
        assert got.status_code == 503
        assert "token endpoint does not answer" in got.json()["error"]


async def test_the_loopback_flow_stores_a_login_from_a_consent_in_a_browser(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_reviews(tmp_path, locations=2) as rig:
        pages: asyncio.Queue[str] = asyncio.Queue()

        class Notes:
            @staticmethod
            def print(text: str, **_: Any) -> None:
                pages.put_nowait(text)

        monkeypatch.setattr(render, "notes", lambda: Notes)
        file = tmp_path / "client.json"
        file.write_bytes(orjson.dumps({"installed": CLIENT}))
        client = read_client(file)
        assert client == OAuthClient(CLIENT["client_id"], CLIENT["client_secret"])
        api = Api(_Through(rig.client), KEY)
        waiting = asyncio.create_task(cli_login.store_login(api, "google", client, None, open_browser=False, wait=60))
        match = re.search(r"http\S+", await asyncio.wait_for(pages.get(), 30))
        assert match is not None
        async with aiohttp.ClientSession() as browser:
            redirect = re.search(r"redirect_uri=http%3A%2F%2F([^&]+)", match[0])
            assert redirect is not None
            forged = f"http://{redirect[1].replace('%3A', ':')}/?state=guessed&code=stolen"
            async with browser.get(forged) as got:
                assert got.status == 404
            async with browser.get(f"{match[0]}&login_hint=acme") as got:
                assert got.status == 200
                assert "close this window" in await got.text()
        assert await asyncio.wait_for(waiting, 30) == {"name": "google"}
        job = (await rig.client.post(API, json={"login": "google"})).json()["data"]["job_id"]
        await rig.work()
        assert (await rig.seen(job))["status"] == "completed"


class _Through:
    """Sends a command's requests through a client of this test."""

    where = "this test"

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def __call__(self, method: str, target: str, headers: Any, body: bytes) -> ApiAnswer:
        got = await self._client.request(method, target, headers=dict(headers), content=body)
        return ApiAnswer(got.status_code, dict(got.headers), got.content)
