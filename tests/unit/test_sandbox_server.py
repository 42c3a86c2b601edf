"""The sandbox on a real port, called by a real client: errors, faults, limits, log and admin routes."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from forager.core.errors import Rejected
from forager.sandbox import FULL_DENSITY, Fault, Rule, SerperConfig, SerperSandbox, read_log

GOOD = {"X-API-KEY": "sandbox-key"}


@asynccontextmanager
async def sandbox_with(**knobs: Any) -> AsyncIterator[tuple[SerperSandbox, aiohttp.ClientSession]]:
    config = SerperConfig(**{"density": FULL_DENSITY, **knobs})
    async with SerperSandbox(config) as sandbox, aiohttp.ClientSession(sandbox.url) as client:
        yield sandbox, client


async def ask(
    client: aiohttp.ClientSession,
    zip_code: str = "85001",
    page: int = 1,
    path: str = "/places",
    headers: Mapping[str, str] = GOOD,
    **sent: Any,
) -> tuple[int, bytes, Mapping[str, str]]:
    body = {"q": f"{zip_code} bars", "page": page, "num": 10, **sent}
    async with client.post(path, json=body, headers=headers) as response:
        return response.status, await response.read(), response.headers


async def test_a_good_question_gets_ten_places_and_is_logged() -> None:
    async with sandbox_with() as (sandbox, client):
        status, body, headers = await ask(client)
        assert (status, headers["Content-Type"]) == (200, "application/json; charset=utf-8")
        assert len(json.loads(body)["places"]) == 10
        assert body.endswith(b'"credits":1}')
        (entry,) = sandbox.log
        assert (entry.key, entry.zip, entry.keyword, entry.page) == ("sandbox-key", "85001", "bars", 1)
        assert (entry.status, entry.places, entry.credits, entry.delivered, entry.fault) == (200, 10, 1, True, None)


async def test_answers_are_the_same_whether_cached_or_not_and_over_post_or_get() -> None:
    async with sandbox_with(cache_limit=1) as (_, client):
        first, _, again = [await ask(client, zip_code) for zip_code in ("85001", "85002", "85001")]
        assert first[1] == again[1]
        async with client.get(
            "/places", params={"q": "85001 bars", "page": 1, "num": 10, "apiKey": "sandbox-key"}
        ) as got:
            assert await got.read() == first[1]


@pytest.mark.parametrize(
    ("headers", "path", "sent", "status", "message"),
    [
        ({"X-API-KEY": "wrong"}, "/places", {}, 403, "Unauthorized."),
        ({}, "/places", {}, 403, "Unauthorized. Sign up for a free account."),
        ({}, "/nowhere", {}, 403, "Unauthorized. Sign up for a free account."),
        (GOOD, "/nowhere", {}, 404, "Cannot POST /nowhere"),
        (GOOD, "/places", {"q": " "}, 400, "Missing query parameter"),
        (GOOD, "/places", {"q": None}, 400, "Missing query parameter"),
        (GOOD, "/places", {"page": 0}, 400, "page must be a whole number from 1"),
        (GOOD, "/maps", {"page": 2}, 400, "Parameter ll (GPS location) is required for paginated maps search"),
    ],
)
async def test_refusals_have_the_shape_of_the_real_ones(
    headers: dict[str, str], path: str, sent: dict[str, Any], status: int, message: str
) -> None:
    async with sandbox_with() as (sandbox, client):
        got, body, _ = await ask(client, path=path, headers=headers, **sent)
        assert got == status
        assert json.loads(body)["message"] == message
        assert json.loads(body)["statusCode"] == status
        assert sandbox.stats()["by_status"] == {str(status): 1}
        assert sandbox.stats()["credits"] == 0


async def test_a_foreign_key_is_not_written_to_the_log() -> None:
    async with sandbox_with() as (sandbox, client):
        await ask(client, headers={"X-API-KEY": "a-real-secret-1234"})
        assert [entry.key for entry in sandbox.log] == ["…1234"]


@pytest.mark.parametrize("body", [b"[{}]", b"{", b'"bars"', b""])
async def test_batches_and_nonsense_are_a_400(body: bytes) -> None:
    async with sandbox_with() as (_, client), client.post("/places", data=body, headers=GOOD) as response:
        assert response.status == 400
        assert (await response.json())["statusCode"] == 400


async def test_a_key_without_credits_gets_a_400_and_others_continue() -> None:
    async with sandbox_with(credits=2, other_keys=("second",)) as (sandbox, client):
        answers = [await ask(client, page=page) for page in (1, 2, 3)]
        assert [status for status, _, _ in answers] == [200, 200, 400]
        assert json.loads(answers[2][1]) == {"message": "Not enough credits", "statusCode": 400}
        assert (await ask(client, headers={"X-API-KEY": "second"}))[0] == 200
        assert sandbox.stats()["credits_left"] == {"sandbox-key": 0, "second": 1}
        assert sandbox.stats()["credits"] == 3


async def test_more_than_the_limit_in_a_second_is_a_429_without_retry_after() -> None:
    async with sandbox_with(rate_limit=5) as (sandbox, client):
        answers = await asyncio.gather(*(ask(client, page=page) for page in range(1, 9)))
        assert sorted(status for status, _, _ in answers) == [200] * 5 + [429] * 3
        assert all("Retry-After" not in headers for _, _, headers in answers)
        assert sandbox.stats()["max_starts_per_second"] == 8
        assert sandbox.stats()["credits"] == 5


async def test_starts_are_counted_when_the_limit_is_off() -> None:
    async with sandbox_with(rate_limit=None) as (sandbox, client):
        answers = await asyncio.gather(*(ask(client, page=page % 10 + 1) for page in range(400)))
        assert {status for status, _, _ in answers} == {200}
        starts = [entry.at for entry in sandbox.log]
        assert sandbox.stats()["max_starts_per_second"] == max(sum(t - 1 < s <= t for s in starts) for t in starts)
        assert sandbox.stats()["distinct"] == 10
        assert sandbox.stats()["resent"] == 390


@pytest.mark.parametrize(("fault", "status"), [(Fault.HTTP500, 500), (Fault.HTTP503, 503), (Fault.HTTP429, 429)])
async def test_a_scripted_error_comes_as_often_as_requested_and_costs_nothing(fault: Fault, status: int) -> None:
    async with sandbox_with(script=(Rule(fault, zip="85001", page=2, times=2),)) as (sandbox, client):
        assert [(await ask(client, page=page))[0] for page in (1, 2, 2, 2)] == [200, status, status, 200]
        assert [entry.fault for entry in sandbox.log] == [None, fault, fault, None]
        assert sandbox.stats()["credits"] == 2
        assert sandbox.stats()["by_fault"] == {fault.value: 2}


async def test_a_malformed_answer_is_a_200_that_is_not_json() -> None:
    async with sandbox_with(script=(Rule(Fault.MALFORMED),)) as (sandbox, client):
        status, body, _ = await ask(client)
        assert status == 200
        with pytest.raises(ValueError):
            json.loads(body)
        assert next(iter(sandbox.log)).delivered


async def test_a_dropped_answer_ends_in_the_middle_and_is_charged() -> None:
    async with sandbox_with(script=(Rule(Fault.DROP),)) as (sandbox, client):
        with pytest.raises(aiohttp.ClientPayloadError):
            await ask(client)
        (entry,) = sandbox.log
        assert (entry.status, entry.delivered, entry.credits) == (200, False, 1)
        assert (await ask(client))[0] == 200


async def test_a_reset_connection_gives_no_byte() -> None:
    async with sandbox_with(script=(Rule(Fault.RESET),)) as (sandbox, client):
        with pytest.raises((aiohttp.ServerDisconnectedError, aiohttp.ClientOSError)):
            await ask(client)
        assert next((entry.status, entry.delivered) for entry in sandbox.log) == (0, False)


@pytest.mark.parametrize(("charged", "price"), [(True, 1), (False, 0)])
async def test_a_timed_out_request_is_never_answered_and_charged_by_a_switch(charged: bool, price: int) -> None:
    knobs = {"script": (Rule(Fault.TIMEOUT),), "charge_unseen": charged, "credits": 5}
    async with sandbox_with(**knobs) as (sandbox, client):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await ask(client)
        await sandbox.log.ended(1)
        first = next(iter(sandbox.log))
        assert (first.status, first.delivered, first.credits, first.done is not None) == (0, False, price, True)
        assert sandbox.stats()["credits_left"] == {"sandbox-key": 5 - price}


async def test_a_client_that_leaves_before_the_answer_is_logged_as_not_served() -> None:
    async with sandbox_with(latency_ms=60_000) as (sandbox, client):
        waiting = asyncio.create_task(ask(client))
        await sandbox.log.arrived(1)
        assert sandbox.stats()["in_flight"] == 1
        waiting.cancel()
        await sandbox.log.ended(1)
        (entry,) = sandbox.log
        assert (entry.status, entry.delivered, entry.credits) == (0, False, 1)
        assert sandbox.stats()["in_flight"] == 0


async def test_a_client_that_leaves_as_its_answer_is_due_is_logged_and_charged_once(tmp_path: Path) -> None:
    """On a busy machine the loop is late: it learns in one turn that the client has left and that the answer is due."""
    log = tmp_path / "requests.jsonl"
    body = b'{"q":"85001 bars","page":1,"num":10}'
    head = f"POST /places HTTP/1.1\r\nX-API-KEY: sandbox-key\r\nContent-Length: {len(body)}\r\n\r\n"
    async with sandbox_with(latency_ms=100, latency_sigma=0.0, credits=10, log_path=str(log)) as (sandbox, _):
        url = urlsplit(sandbox.url)
        with socket.create_connection((url.hostname, url.port)) as client:
            client.sendall(head.encode() + body)
            await sandbox.log.arrived(1)
        time.sleep(0.2)
        await sandbox.log.ended(1)
        for _ in range(10):  # what else the loop has to do about this connection
            await asyncio.sleep(0)
        stats = sandbox.stats()
        assert (stats["credits"], stats["in_flight"], stats["credits_left"]) == (1, 0, {"sandbox-key": 9})
    (entry,) = read_log(log.read_bytes().splitlines())
    assert (entry.status, entry.delivered, entry.credits) == (0, False, 1)


async def test_what_is_in_flight_when_the_sandbox_stops_is_logged_as_not_served() -> None:
    async with sandbox_with(latency_ms=60_000) as (sandbox, client):
        waiting = asyncio.create_task(ask(client))
        await sandbox.log.arrived(1)
        await sandbox.stop()
        with pytest.raises(aiohttp.ClientError):
            await waiting
        assert [(entry.status, entry.delivered) for entry in sandbox.log] == [(0, False)]


async def test_slow_and_fixed_latency_add_up() -> None:
    async with sandbox_with(latency_ms=40, slow_ms=60, script=(Rule(Fault.SLOW, page=2),)) as (sandbox, client):
        await ask(client, page=1)
        await ask(client, page=2)
        plain, slow = [entry.done - entry.at for entry in sandbox.log if entry.done]
        assert plain >= 0.039
        assert slow >= 0.099


async def test_log_normal_latency_is_spread_by_seed_around_its_median() -> None:
    async with sandbox_with(latency_ms=20, latency_sigma=0.5) as (sandbox, _):
        delays = [sandbox.serper.latency(str(zip_code), "bars", 1, 1) for zip_code in range(85001, 86001)]
        assert sorted(delays)[500] == pytest.approx(0.02, rel=0.1)
        assert min(delays) < 0.01
        assert max(delays) > 0.04
        assert delays[0] == sandbox.serper.latency("85001", "bars", 1, 1)


async def test_a_huge_answer_is_streamed_whole_and_valid() -> None:
    async with sandbox_with(huge_bytes=3_000_000, script=(Rule(Fault.HUGE),)) as (sandbox, client):
        _, body, _ = await ask(client)
        assert len(body) == 3_000_000
        assert len(json.loads(body)["places"]) == 10
        assert next(iter(sandbox.log)).delivered
        assert (await ask(client))[0] == 200


async def test_a_huge_answer_that_is_not_read_to_its_end_is_not_delivered() -> None:
    async with sandbox_with(huge_bytes=200_000_000, script=(Rule(Fault.HUGE),)) as (sandbox, client):
        async with client.post("/places", json={"q": "85001 bars"}, headers=GOOD) as response:
            await response.content.readexactly(1000)
            response.close()
        await sandbox.log.ended(1)
        (entry,) = sandbox.log
        assert (entry.status, entry.delivered) == (200, False)


async def test_the_admin_routes_read_the_log_script_faults_and_change_settings() -> None:
    async with sandbox_with() as (sandbox, client):
        await ask(client)
        await ask(client, page=2)
        async with client.get("/_sandbox/log", params={"since": 1}) as response:
            assert read_log((await response.read()).splitlines()) == [entry for entry in sandbox.log if entry.n == 2]
        async with client.post("/_sandbox/faults", json=[{"fault": "http500", "page": 3}]) as response:
            assert await response.json() == {"added": 1}
        async with client.post("/_sandbox/config", json={"credits": 1, "rate_limit": None}) as response:
            assert response.status == 200
        assert [(await ask(client, page=3))[0] for _ in range(3)] == [500, 200, 400]
        async with client.get("/_sandbox/stats") as response:
            stats = await response.json()
        assert (stats["requests"], stats["distinct"], stats["resent"]) == (5, 3, 2)
        assert stats["repeated"] == [{"endpoint": "places", "keyword": "bars", "zip": "85001", "page": 3, "times": 3}]
        assert stats["largest_stall_ms"] >= 0
        async with client.post("/_sandbox/reset") as response:
            assert response.status == 200
        assert sandbox.stats()["requests"] == 0
        assert (await ask(client))[0] == 200  # the balance is as at the start


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("/_sandbox/config", b'{"seed": 3}', "cannot change"),
        ("/_sandbox/config", b'{"latency_ms": -3}', "latency_ms"),
        ("/_sandbox/config", b"{", "not valid JSON"),
        ("/_sandbox/faults", b'[{"fault": "flood"}]', "http500"),
        ("/_sandbox/faults", b'{"rules": 3}', "list of rules"),
    ],
)
async def test_wrong_admin_requests_get_the_error(path: str, body: bytes, words: str) -> None:
    async with sandbox_with() as (_, client), client.post(path, data=body) as response:
        assert response.status == 400
        assert words in (await response.json())["message"]


async def test_pipelined_requests_split_anywhere_are_answered_in_order() -> None:
    async with sandbox_with() as (sandbox, _):
        port = int(sandbox.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        bodies = [b'{"q":"85001 bars","page":%d}' % page for page in (1, 2, 3)]
        stream = b"".join(
            b"POST /places HTTP/1.1\r\nx-api-key: sandbox-key\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
            for body in bodies
        )
        for start in range(0, len(stream), 7):
            writer.write(stream[start : start + 7])
            await writer.drain()
            await asyncio.sleep(0)
        pages = []
        for _ in bodies:
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            pages.append(json.loads(await reader.readexactly(length))["searchParameters"]["page"])
        assert pages == [1, 2, 3]
        writer.close()


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"nonsense\r\n\r\n", b"400"),
        (b"POST /places HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n", b"411"),
        (b"POST /places HTTP/1.1\r\ncontent-length: 99999999\r\n\r\n", b"413"),
        (b"GET /" + b"x" * 40_000, b"431"),
    ],
)
async def test_what_is_not_http_is_refused_and_the_connection_ends(head: bytes, status: bytes) -> None:
    async with sandbox_with() as (sandbox, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", int(sandbox.url.rpartition(":")[2]))
        writer.write(head)
        answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 " + status)
        writer.close()


def test_it_refuses_to_listen_beyond_this_machine() -> None:
    with pytest.raises(Rejected, match=r"127\.0\.0\.1"):
        SerperSandbox(host="0.0.0.0")


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT, None])
async def test_alone_it_announces_its_url_logs_to_a_file_and_ends_cleanly(
    tmp_path: Path, end: signal.Signals | None
) -> None:
    path = tmp_path / "requests.jsonl"
    command = [
        sys.executable,
        "-m",
        "forager.sandbox",
        "--seed",
        "9",
        "--full",
        "--log-path",
        str(path),
        "--until-stdin-closes",
    ]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdin is not None
    url = json.loads(process.stdout.readline())["url"]
    async with aiohttp.ClientSession(url) as client:
        assert (await ask(client))[0] == 200
    assert [(entry.zip, entry.status) for entry in read_log(path.read_bytes().splitlines())] == [("85001", 200)]
    if end is None:
        process.stdin.close()  # as when the process that started it is killed
    else:
        os.kill(process.pid, end)
    assert await asyncio.to_thread(process.wait, 10) == 0
    process.stdin.close()
    process.stdout.close()


def test_a_wrong_option_ends_with_a_sentence() -> None:
    command = [sys.executable, "-m", "forager.sandbox", "--fault", "flood=0.1"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert ended.returncode == 2
    assert "There is no fault 'flood'" in ended.stderr
