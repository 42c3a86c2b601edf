"""The access token, however a job goes: it is in no log line, answer, dead letter, export or dump."""

import asyncio
import io
import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from forager.sandbox import Tenant
from tests.support import kafka
from tests.support.deliveries import deliver_new
from tests.support.logs import logging_to
from tests.support.origin import Origin, Seen, reply
from tests.support.reviews import API, Reviews, open_reviews

CANARY = "canary-9f31c7d2e8"
TENANTS = {
    "expiring": Tenant(locations=6, expires_after=4),
    "disabled": Tenant(locations=6, disabled=("reviews",)),
    "denied": Tenant(locations=6, denied_every=2, gone_every=3),
}


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """The log as it is written in production, without the redaction of known secret values."""
    with logging_to(io.StringIO()) as out:
        yield out


async def told(service: Reviews) -> AsyncIterator[str]:
    """Everything that the API shows about every job."""
    client = service.client
    exports = [f"/api/v1/export/{kind}?format={form}" for kind in ("account", "review") for form in ("jsonl", "csv")]
    for path in ("/health", "/metrics", "/openapi.json", "/api/v1/lanes", "/api/v1/dead", "/api/v1/sinks", *exports):
        yield (await client.get(path)).text
    for letter in (await client.get("/api/v1/dead", params={"limit": 500})).json()["data"]:
        yield (await client.get(f"/api/v1/dead/{letter['id']}")).text
        yield (await client.get(f"/api/v1/tasks/{letter['id']}/attempts")).text
    for job in (await client.get("/api/v1/jobs")).json()["data"]:
        for path in ("", "/tasks", "/events", "/rejected"):
            yield (await client.get(f"/api/v1/jobs/{job['id']}{path}")).text
        for path in (f"{API}/{job['id']}", f"{API}/{job['id']}/events"):
            yield (await client.get(path)).text
        yield (await client.get("/api/v1/demo/stream/nested", params={"job_id": job["id"]})).text


async def stored(home: Path, url: str | None) -> str:
    """Every file of the data folder and every table."""
    files = "".join(path.read_bytes().decode("latin-1") for path in home.rglob("*") if path.is_file())
    if url is None:
        with sqlite3.connect(home / "ledger.db") as db:
            return files + "\n".join(db.iterdump())
    connection = await asyncpg.connect(url)
    try:
        names = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        return files + "".join([str(await connection.fetch(f'SELECT * FROM "{name[0]}"')) for name in names])
    finally:
        await connection.close()


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
async def test_the_token_is_seen_nowhere_however_a_job_ends__S8__RV_2(
    request: pytest.FixtureRequest, store: str, tmp_path: Path, lines: io.StringIO
) -> None:
    url = None if store == "sqlite" else str(request.getfixturevalue("app_postgres_url"))
    folder = tmp_path / "kafka"
    folder.mkdir()
    topics: dict[str, Any] = {
        "kafka_brokers": kafka.brokers_of(folder),
        "kafka_topic_prefix": kafka.prefix_of(folder),
        "kafka_name": kafka.prefix_of(folder) + "reviews",
        "kafka_partitions": 0,
    }
    home = tmp_path / "home"
    async with open_reviews(home, url, locations=4, tenants=TENANTS, **topics) as service:
        tokens = [f"sandbox-{name}.{CANARY}" for name in ("acme", *TENANTS)] + [CANARY]
        jobs = [await service.fetch(token) for token in tokens]
        while_open = await stored(home, url)
        await service.work()
        states = [(await service.seen(job))["status"] for job in jobs]
        assert states == ["completed", "partially_completed", "partially_completed", "partially_completed", "failed"]
        again = await service.client.post(f"{API}/{jobs[1]}/retry", json={"access_token": f"{tokens[1]}2"})
        assert again.json()["data"]["requeued"] > 0
        wrong = await service.client.post(API, json={"access_token": f"{CANARY} with blanks"})
        assert wrong.status_code == 400
        await service.work()
        assert await deliver_new(service.app.ledger, service.app.deliveries["kafka"].sink, service.app.clock)
        shown = [lines.getvalue(), wrong.text, *[text async for text in told(service)]]
        published = [str(kafka.read_topic(folder, topic)) for topic in ("reviews-raw", "reviews-dlq")]
    assert "token_refused" in published[1]
    for text in (*shown, *published, while_open, await stored(home, url)):
        assert CANARY not in text, text[max(0, text.find(CANARY) - 200) :][:400]


async def test_an_upstream_that_repeats_the_token_does_not_put_it_into_a_dead_letter__S8__RV_6(
    tmp_path: Path, lines: io.StringIO
) -> None:
    def echo(seen: Seen) -> bytes:
        return reply(403, b'{"error": {"message": "bad ' + seen.headers["authorization"].encode() + b'"}}')

    async with (
        Origin(echo) as origin,
        open_reviews(tmp_path, google_accounts_url=origin.url(""), allow=[origin.endpoint]) as service,
    ):
        job = await service.fetch(f"sandbox-acme.{CANARY}")
        await service.work()
        assert (await service.seen(job))["status"] == "failed"
        assert CANARY in origin.seen[0].headers["authorization"], "it was sent, and came back"
        for text in [lines.getvalue(), await stored(tmp_path, None), *[text async for text in told(service)]]:
            assert CANARY not in text


async def test_keys_are_rotated_while_a_job_runs_and_it_ends_well__S9__RV_2(service: Reviews) -> None:
    jobs = [await service.fetch(f"sandbox-acme.{number}") for number in range(3)]
    working = asyncio.create_task(service.work())
    rotations = 0
    while not working.done():
        await service.app.rotate_keys()
        rotations += 1
        await asyncio.sleep(0.05)
    await working
    assert rotations > 1
    assert [(await service.seen(job))["status"] for job in jobs] == ["completed"] * 3


async def until_async(service: Reviews, job: str, state: str) -> None:
    async with asyncio.timeout(60):
        while (await service.seen(job))["status"] != state:
            await asyncio.sleep(0.02)


async def test_a_token_of_one_job_never_opens_in_another__RV_2(service: Reviews) -> None:
    first, second = [await service.fetch(f"sandbox-{name}.{CANARY}") for name in ("one", "two")]
    database = service.app.database
    await database.write(
        "UPDATE job_secrets SET sealed = (SELECT s.sealed FROM job_secrets s JOIN jobs j ON j.id = s.job_id"
        " WHERE j.public_id = :first) WHERE job_id = (SELECT id FROM jobs WHERE public_id = :second)",
        {"first": first, "second": second},
    )
    working = asyncio.create_task(service.work())
    await until_async(service, second, "paused")
    await until_async(service, first, "completed")
    working.cancel()
    told = (await service.client.get(f"/api/v1/jobs/{second}")).json()["data"]
    assert "does not open" in told["reason"]
    assert CANARY not in str(told)
    assert {call.tenant for call in service.google.log.calls()} == {"one"}
