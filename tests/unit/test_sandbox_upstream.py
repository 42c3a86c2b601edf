"""Common parts of every simulated upstream: faults that are carried out, outages, the log, admin routes, processes."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from forager.sandbox import Call, GoogleConfig, GoogleSandbox, Outage, When, read_calls, repeats
from forager.sandbox.__main__ import main

GOOD = {"Authorization": "Bearer sandbox-acme"}


@asynccontextmanager
async def google_with(**knobs: Any) -> AsyncIterator[tuple[GoogleSandbox, aiohttp.ClientSession]]:
    async with (
        GoogleSandbox(GoogleConfig(**{"quota_per_minute": None, **knobs})) as google,
        aiohttp.ClientSession(google.accounts_url) as client,
    ):
        yield google, client


async def ask(client: aiohttp.ClientSession) -> tuple[int, bytes]:
    async with client.get("/v1/accounts", headers=GOOD) as got:
        return got.status, await got.read()


@pytest.mark.parametrize("fault", ["reset", "lost"])
async def test_a_connection_that_ends_without_a_byte_is_logged_as_not_delivered(fault: str) -> None:
    async with google_with(script=(When(fault, times=None),)) as (google, client):
        with pytest.raises(aiohttp.ClientError):
            await ask(client)
        call = google.log.calls()[0]
        assert (call.status, call.delivered, call.fault) == (0, False, fault)
        assert call.done is not None
        assert call.items == (0 if fault == "reset" else 4), "what was lost was carried out, what was reset was not"


async def test_a_dropped_answer_ends_in_the_middle() -> None:
    async with google_with(script=(When("drop"),)) as (google, client):
        with pytest.raises(aiohttp.ClientPayloadError):
            await ask(client)
        assert [(call.status, call.delivered) for call in google.log] == [(200, False)]
        assert (await ask(client))[0] == 200


async def test_a_malformed_answer_cannot_be_parsed() -> None:
    async with google_with(script=(When("malformed"),)) as (_, client):
        status, body = await ask(client)
        assert status == 200
        with pytest.raises(ValueError):
            json.loads(body)


async def test_a_call_that_is_never_answered_ends_when_the_client_leaves() -> None:
    async with google_with(script=(When("timeout"),)) as (google, client):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await ask(client)
        await google.log.ended(1)
        assert [(call.status, call.fault) for call in google.log] == [(0, "timeout")]


async def test_latency_and_slow_answers_take_their_time() -> None:
    async with google_with(latency_ms=30, slow_ms=120, script=(When("slow", after=1),)) as (google, client):
        for _ in range(2):
            assert (await ask(client))[0] == 200
        usual, slow = ((call.done or 0) - call.at for call in google.log)
        assert usual >= 0.03
        assert slow >= 0.15


async def test_probabilities_are_drawn_by_request_and_its_count() -> None:
    seen: list[list[str | None]] = []
    for _ in range(2):
        async with google_with(faults={"http500": 0.3, "http503": 0.2}) as (google, client):
            for _ in range(40):
                await ask(client)
            seen.append([call.fault for call in google.log])
    assert seen[0] == seen[1]
    assert {None, "http500", "http503"} == set(seen[0])


async def test_a_rule_names_operation_subject_tenant_and_page() -> None:
    rules = (When("http500", operation="accounts.list", tenant="other"), When("http503", subject="accounts/*"))
    async with google_with(script=rules) as (google, client):
        assert (await ask(client))[0] == 200
        account = google.world("acme").account_id(0)
        async with client.get(f"/v1/accounts/{account}", headers=GOOD) as got:
            assert got.status == 503


@pytest.mark.parametrize("outage", [Outage.ERROR, Outage.RESET, Outage.REFUSED])
async def test_it_goes_down_and_comes_back_on_the_same_ports(outage: Outage) -> None:
    async with google_with() as (google, client):
        ports = google.endpoints
        await google.fail(outage)
        if outage is Outage.ERROR:
            assert (await ask(client))[0] == 500
        else:
            with pytest.raises(aiohttp.ClientError):
                await ask(client)
        await google.fail(None)
        assert google.endpoints == ports
        assert (await ask(client))[0] == 200


async def test_admin_routes_give_the_log_and_change_faults_settings_and_time() -> None:
    async with google_with() as (google, client):
        await ask(client)
        async with client.get("/_sandbox/log") as got:
            (call,) = read_calls((await got.read()).splitlines())
        assert (call.tenant, call.operation, call.status, call.items) == ("acme", "accounts.list", 200, 4)
        for route, body in (
            ("faults", [{"fault": "http500"}]),
            ("config", {"latency_ms": 1}),
            ("clock", {"advance_seconds": 3600}),
        ):
            async with client.post(f"/_sandbox/{route}", json=body) as got:
                assert got.status == 200, await got.text()
        assert (await ask(client))[0] == 401, "the token is an hour old"
        async with client.post("/_sandbox/reset") as got:
            assert got.status == 200
        assert (await ask(client))[0] == 200, "reset forgets tokens, faults and settings"
        async with client.get("/_sandbox/stats") as got:
            stats = await got.json()
        assert (stats["requests"], stats["by_operation"], google.config.latency_ms) == (1, {"accounts.list": 1}, 0)


@pytest.mark.parametrize(
    ("route", "body", "message"),
    [
        ("faults", [{"fault": "flood"}], "There is no fault 'flood'"),
        ("faults", "x", "Send a list"),
        ("config", {"seed": 3}, "cannot change while the sandbox runs"),
        ("config", {"latency_ms": "x"}, "wrong kind"),
        ("clock", {}, "advance_seconds"),
        ("expire", {}, "token"),
        ("change", {"tenant": "a", "location": "b", "kind": "edit"}, "has no location"),
        ("nowhere", {}, "No such admin route"),
    ],
)
async def test_admin_mistakes_are_refused_with_a_sentence(route: str, body: Any, message: str) -> None:
    async with google_with() as (_, client), client.post(f"/_sandbox/{route}", json=body) as got:
        assert got.status in (400, 404)
        assert message in (await got.json())["message"]


def called(n: int, status: int = 200, *, delivered: bool = True, page: int = 1, tenant: str = "a") -> Call:
    return Call(n, 0, 0, "", "GET", "/", "", tenant, "list", "x", page, status, delivered=delivered)


def test_repeats_count_requests_sent_again_without_an_error_before() -> None:
    log = [
        called(1, 500),
        called(2),
        called(3),
        called(4, page=2, delivered=False),
        called(5, 0, page=2, delivered=False),
        called(6, page=2),
        called(7, tenant="b"),
    ]
    assert [(each.page, each.after_answer, each.after_silence) for each in repeats(log)] == [(1, 1, 0), (2, 0, 2)]


@pytest.mark.parametrize("end", [signal.SIGTERM, None])
async def test_alone_it_announces_its_urls_logs_to_a_file_and_ends(tmp_path: Path, end: signal.Signals | None) -> None:
    path = tmp_path / "calls.jsonl"
    command = [sys.executable, "-m", "forager.sandbox", "google", "--size", "3", "--log-path", str(path)]
    command += ["--until-stdin-closes", "--fault", "http500=0"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdin is not None
    said = json.loads(process.stdout.readline())
    headers = {"Authorization": f"Bearer {said['access_token']}"}
    async with aiohttp.ClientSession() as client:
        async with client.get(f"{said['accounts_url']}/v1/accounts", headers=headers) as got:
            account = (await got.json())["accounts"][0]["name"]
        async with client.get(
            f"{said['locations_url']}/v1/{account}/locations", params={"readMask": "name"}, headers=headers
        ) as got:
            assert len((await got.json())["locations"]) == 1
    assert [call.operation for call in read_calls(path.read_bytes().splitlines())] == [
        "accounts.list",
        "locations.list",
    ]
    if end is None:
        process.stdin.close()
    else:
        process.send_signal(end)
    assert await asyncio.to_thread(process.wait, 10) == 0
    process.stdin.close()
    process.stdout.close()


@pytest.mark.parametrize("wrong", [["--config", "{"], ["--config", '{"flood":1}'], ["--fault", "flood=1"]])
def test_a_wrong_option_ends_with_a_sentence(wrong: list[str]) -> None:
    command = [sys.executable, "-m", "forager.sandbox", "google", *wrong]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert ended.returncode == 2
    assert ended.stderr.startswith("The sandbox did not start:")


@pytest.mark.parametrize(("name", "path"), [("apify", "/v2/acts/x/runs"), ("shop", "/robots.txt")])
async def test_every_upstream_runs_alone(name: str, path: str) -> None:
    command = [sys.executable, "-m", "forager.sandbox", name, "--size", "30", "--until-stdin-closes"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdin is not None
    url = json.loads(process.stdout.readline())["url"]
    async with aiohttp.ClientSession() as client, client.get(url + path) as got:
        assert got.status in (200, 401)
    process.stdin.close()
    assert await asyncio.to_thread(process.wait, 10) == 0
    process.stdout.close()


def test_an_unknown_upstream_is_named_with_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gogle"]) == 2
    assert "There is no sandbox 'gogle'; choose from google, apify, shop" in capsys.readouterr().err
