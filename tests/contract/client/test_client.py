"""The Python client against the real API: over HTTP, and in its own process without a server."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from forager.client import (
    ApiConflict,
    ApiInvalid,
    ApiNoAnswer,
    ApiNotFound,
    ApiUnauthorized,
    AsyncForager,
    Forager,
    JobNotCompleted,
    PackageMissing,
)
from forager.client import rows as client_rows
from forager.sandbox import SerperConfig
from scripts import api_clients
from tests.support.api import KEY, ONE_QUERY, Front, open_front
from tests.support.origin import Origin, Seen, reply
from tests.support.scrape import QUICK
from tests.support.served import served

ENVELOPE = b'{"success": true, "data": {"job_id": "j"}, "error": null, "meta": {}}'


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[tuple[Front, str]]:
    """A Forager that works and listens, and its address."""
    async with open_front(folder) as front, served(front.api) as url, front.app.engine(schedules=False):
        yield front, url


def settings_of(front_url: str, zips: Path) -> dict[str, object]:
    host = front_url.removeprefix("http://")
    return {
        "serper_api_key": SerperConfig().key,
        "serper_base_url": front_url,
        "egress_allow": (host,),
        "zip_table": zips,
    }


async def test_a_job_is_estimated_run_and_read_over_http(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, url), AsyncForager(url, KEY) as forager:
        plan = await forager.places.plan("bars", zips=["85001"], pages=1)
        job = await forager.places.run("bars", zips=["85001"], pages=1)
        places = await forager.records.iter("place").to_list()

    assert plan["worst_credits"] == 1
    assert (job["state"], job["spent"], job["pipeline"]) == ("completed", 1, "places")
    assert len(places) == job["discoveries"] > 0


async def test_a_site_is_mapped_crawled_and_read_over_http(tmp_path: Path) -> None:
    policies = tmp_path / "policies.yaml"
    policies.write_text(QUICK)
    pages = {
        "/": '<main><h1>Home</h1><p>Welcome to the guide.</p><a href="/one">One</a><a href="/two">Two</a></main>',
        "/one": "<main><h1>One</h1><p>The first page of the guide, about oak.</p></main>",
        "/two": "<main><h1>Two</h1><p>The second page of the guide, which is on tables.</p></main>",
    }

    def answer(seen: Seen) -> bytes:
        body = pages.get(seen.target)
        return reply(404, b"") if body is None else reply(200, body.encode(), Content_Type="text/html")

    async with Origin(answer) as site:
        host = urlsplit(site.url("/")).netloc
        async with (
            open_front(tmp_path, policies=policies, allow=(host,)) as front,
            served(front.api) as url,
            front.app.engine(schedules=False),
            AsyncForager(url, KEY) as forager,
        ):
            found = await forager.map(site.url("/"))
            planned = await forager.sites.plan(site.url("/"), limit=2)
            job = await forager.sites.crawl(site.url("/"), sitemap=False)
            stored = await forager.sites.pages(host, content=True).to_list()
            one = await forager.sites.page(site.url("/one"))
            with pytest.raises(JobNotCompleted):
                await forager.map("http://127.0.0.1:9/", limit=1)

    assert {urlsplit(each).path for each in found} == set(pages)
    assert (planned["known"], planned["at_most"]) == (3, 2)
    assert (job["state"], job["pipeline"]) == ("completed", "sites")
    assert {urlsplit(each["url"]).path for each in stored} == set(pages)
    assert "about oak" in one["content"]


async def test_plain_code_does_the_same_and_needs_no_server(tmp_path: Path) -> None:
    """The store is opened in this process, whose engine does the work."""
    (tmp_path / "front").mkdir()
    async with open_front(tmp_path / "front") as front:
        given = settings_of(front.sandbox.url, tmp_path / "front" / "zips.csv")

        def program() -> tuple[Any, ...]:
            with Forager(home=tmp_path / "home", settings=given) as forager:
                job = forager.places.run("bars", zips=["85001"], pages=1)
                titles = [place["title"] for place in forager.places.iter(keyword="bars")]
                changed = [each.kind for each in forager.changes.follow(forever=False, kinds=["place"])]
            return job["state"], len(titles), set(changed), len(changed)

        state, titles, kinds, changed = await asyncio.to_thread(program)

    assert (state, kinds) == ("completed", {"place"})
    assert titles == changed > 0


async def test_every_operation_of_the_api_has_a_method_and_the_generated_files_are_up_to_date(tmp_path: Path) -> None:
    async with open_front(tmp_path) as front:
        document = front.api.openapi()
    operations = {each["operationId"] for path in document["paths"].values() for each in path.values()}
    forager, plain = AsyncForager("http://127.0.0.1:1", "k"), Forager("http://127.0.0.1:1", "k")

    assert {name for name in operations if not callable(getattr(forager.api, name, None))} == set()
    assert {name for name in operations if not callable(getattr(plain.api, name, None))} == set()
    # In a process of its own: what other tests have imported could change the names of models.
    check = [sys.executable, "-m", "scripts.api_clients", "--check"]
    ran = await asyncio.to_thread(
        subprocess.run, check, cwd=api_clients.ROOT, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout


def test_plain_and_asynchronous_groups_have_the_same_methods() -> None:
    forager, plain = AsyncForager("http://127.0.0.1:1", "k"), Forager("http://127.0.0.1:1", "k")
    groups = {name for name, each in vars(forager).items() if not name.startswith("_")}
    assert {"api", "jobs", "records", "changes", "web", "sites", "places", "products", "listings", "reviews"} <= groups
    for group in sorted(groups):
        one, other = (
            {name for name in dir(getattr(client, group)) if not name.startswith("_")} for client in (forager, plain)
        )
        assert one == other, group
    ours = {"scrape", "scrape_many", "crawl", "map", "request", "close"}
    assert ours <= set(dir(forager)) & set(dir(plain))


async def test_errors_are_classes_with_the_reason_of_the_api(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, url), AsyncForager(url, KEY, patience=0) as forager:
        with pytest.raises(ApiInvalid) as invalid:
            await forager.places.run("bars", state="ZZ")
        with pytest.raises(ApiNotFound) as missing:
            await forager.jobs.get("00000000-0000-0000-0000-000000000000")
        await forager.places.run(**ONE_QUERY, idempotency_key="mine")
        with pytest.raises(ApiConflict):
            await forager.places.run("cafes", zips=["85001"], idempotency_key="mine")
        async with AsyncForager(url, "wrong") as stranger:
            with pytest.raises(ApiUnauthorized) as refused:
                await stranger.api.list_jobs()
    async with AsyncForager("http://127.0.0.1:9", KEY, patience=0) as nowhere:
        with pytest.raises(ApiNoAnswer, match="forager up"):
            await nowhere.api.show_health()

    assert (invalid.value.status, invalid.value.code, invalid.value.fields[0].field) == (422, "invalid", "state")
    assert (missing.value.status, missing.value.code) == (404, "not_found")
    assert missing.value.request_id
    assert refused.value.code == "unauthorized"


async def test_a_creation_whose_answer_was_lost_is_sent_again_with_the_same_key() -> None:
    def answer(_: Seen) -> bytes:
        return b"" if len(origin.seen) == 1 else reply(202, ENVELOPE)

    async with Origin(answer) as origin, AsyncForager(origin.url(""), "k") as forager:
        made = await forager.api.create_places_job({"keyword": "bars"})

    keys = [seen.headers.get("idempotency-key") for seen in origin.seen]
    assert made["job_id"] == "j"
    assert len(keys) == 2
    assert keys[0] == keys[1] is not None


async def test_a_request_without_a_key_that_changes_something_is_not_sent_again() -> None:
    async with Origin(lambda _: b"") as origin, AsyncForager(origin.url(""), "k") as forager:
        with pytest.raises(ApiNoAnswer):
            await forager.api.retry_job("j")

    assert len(origin.seen) == 1


async def test_a_request_to_a_busy_forager_is_repeated_after_the_given_time() -> None:
    busy = b'{"success": false, "data": null, "error": "later", "meta": {"code": "busy"}}'

    def answer(_: Seen) -> bytes:
        return reply(503, busy, Retry_After="0") if len(origin.seen) < 3 else reply(200, ENVELOPE)

    async with Origin(answer) as origin, AsyncForager(origin.url(""), "k") as forager:
        await forager.api.list_lanes()

    assert len(origin.seen) == 3


async def test_changes_continue_at_the_cursor_in_the_file(tmp_path: Path) -> None:
    cursor = tmp_path / "cursor"
    async with running(tmp_path) as (_, url), AsyncForager(url, KEY) as forager:
        await forager.places.run(**ONE_QUERY)
        every = [each.id async for each in forager.changes.follow(forever=False)]
        first = []
        async for each in forager.changes.follow(cursor_file=cursor, forever=False):
            first.append(each.id)
            if len(first) == 3:
                break  # a program that dies here has handled three, and two of them are noted
        second = [each.id async for each in forager.changes.follow(cursor_file=cursor, forever=False)]

    assert first == every[:3]
    assert second == every[2:]
    assert cursor.read_text() == str(every[-1])


async def test_waiting_for_a_paused_job_ends_with_an_error_that_has_its_report(tmp_path: Path) -> None:
    async with open_front(tmp_path) as front, served(front.api) as url, AsyncForager(url, KEY) as forager:
        job = await forager.places.run(**ONE_QUERY, wait=False)
        with pytest.raises(TimeoutError, match="queued"):
            await forager.jobs.wait(job["id"], timeout=0.2)
        await forager.jobs.pause(job["id"])
        with pytest.raises(JobNotCompleted) as paused:
            await forager.jobs.wait(job["id"])

    assert paused.value.job["state"] == "paused"


async def test_rows_become_an_arrow_table_and_a_missing_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow")
    async with running(tmp_path) as (_, url), AsyncForager(url, KEY) as forager:
        await forager.places.run(**ONE_QUERY)
        table = await forager.records.iter("place").to_arrow()
        rows = await forager.records.iter("place").to_list()

        def missing(name: str) -> Any:
            raise ImportError(name)

        monkeypatch.setattr(client_rows, "import_module", missing)
        with pytest.raises(PackageMissing, match="pip install pandas"):
            await forager.records.iter("place").to_pandas()

    assert table.num_rows == len(rows) > 0
    assert "place_uid" in table.column_names


@pytest.mark.parametrize(
    ("given", "problem"),
    [({"url": "http://x", "home": "y"}, "not both"), ({"url": "ftp://x"}, "http://")],
)
def test_an_address_that_cannot_be_meant_is_refused(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        AsyncForager(**given)
