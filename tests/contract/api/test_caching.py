"""Lists, records and searches: `ETag` by the last change, 304, answers kept for the next request, nothing leaked."""

from typing import Any

import httpx
import pytest

from forager.api import caching
from tests.support.api import Front, client_of


@pytest.fixture(autouse=True)
def _one_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """A minute must not end within a test."""
    monkeypatch.setattr(caching, "FRESH_SECONDS", 10**9)


async def got(front: Front, path: str, **headers: str) -> httpx.Response:
    return await front.client.get(path, headers=headers)


class Reads:
    """Counts the queries that the application sends to its store."""

    def __init__(self, front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sql: list[str] = []
        fetch = front.app.database.fetch

        async def counted(sql: str, *given: Any, **more: Any) -> Any:
            self.sql.append(sql)
            return await fetch(sql, *given, **more)

        monkeypatch.setattr(front.app.database, "fetch", counted)


async def test_an_unchanged_list_is_not_sent_again_and_a_change_ends_that(front: Front) -> None:
    await front.create(keyword="bars", zips=["85001"], pages=1)
    await front.work()
    first = await got(front, "/api/v1/places?limit=5")
    assert first.status_code == 200
    etag = first.headers["ETag"]
    assert first.headers["Cache-Control"] == "private, no-cache"
    again = await got(front, "/api/v1/places?limit=5", **{"If-None-Match": etag})
    assert (again.status_code, again.content, again.headers["ETag"]) == (304, b"", etag)
    other = await got(front, "/api/v1/places?limit=4", **{"If-None-Match": etag})
    assert other.status_code == 200  # another query
    await front.create(keyword="bars", zips=["85002"], pages=1)
    await front.work()
    changed = await got(front, "/api/v1/places?limit=5", **{"If-None-Match": etag})
    assert changed.status_code == 200
    assert changed.headers["ETag"] != etag
    assert len((await got(front, "/api/v1/places?limit=500")).json()["data"]) > 5


async def test_changes_of_other_kinds_leave_an_answer_as_it_is(front: Front) -> None:
    await front.create(keyword="bars", zips=["85001"], pages=1)
    await front.work()
    path = "/api/v1/records/product?limit=5"
    etag = (await got(front, path)).headers["ETag"]
    await front.create(keyword="pubs", zips=["85002"], pages=1)
    await front.work()
    assert (await got(front, path, **{"If-None-Match": etag})).status_code == 304


async def test_a_hot_query_is_answered_without_asking_the_store_again(
    front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    await front.create(keyword="bars", zips=["85001"], pages=1)
    await front.work()
    first = await got(front, "/api/v1/records/place?limit=5")
    reads = Reads(front, monkeypatch)
    second = await got(front, "/api/v1/records/place?limit=5")
    assert second.json()["data"] == first.json()["data"]
    assert [sql for sql in reads.sql if "tail" not in sql] == []
    one, two = (each.json()["meta"]["request_id"] for each in (first, second))
    assert (one, two) == (first.headers["X-Request-ID"], second.headers["X-Request-ID"])
    assert one != two
    metrics = (await front.client.get("/metrics")).text
    assert 'forager_http_cache_total{outcome="hit"} 1.0' in metrics


async def test_a_kept_answer_is_given_to_no_one_without_a_key_and_not_to_another_role(simple: Front) -> None:
    await simple.create(keyword="bars", zips=["85001"], pages=1)
    await simple.work()
    path = "/api/v1/places?limit=5"
    etag = (await got(simple, path)).headers["ETag"]
    async with client_of(simple.api, None) as stranger:
        assert (await stranger.get(path)).status_code in (401, 403)
        refused = await stranger.get(path, headers={"If-None-Match": etag})
        assert refused.status_code in (401, 403)
        assert "etag" not in refused.headers
    made = await simple.client.post("/api/v1/keys", json={"name": "reader", "role": "viewer"})
    assert made.status_code in (200, 201), made.text
    async with client_of(simple.api, made.json()["data"]["key"]) as viewer:
        seen = await viewer.get(path, headers={"If-None-Match": etag})
        assert seen.status_code == 200  # its own role has its own answers
        assert seen.headers["ETag"] != etag
        assert "X-Service-Key" in seen.headers["Vary"]


async def test_jobs_errors_and_writes_are_not_kept(simple: Front) -> None:
    await simple.create(keyword="bars", zips=["85001"], pages=1)
    assert "ETag" not in (await got(simple, "/api/v1/jobs")).headers
    wrong = await got(simple, "/api/v1/records/nothing")
    assert wrong.status_code >= 400
    assert "ETag" not in wrong.headers
    assert (await got(simple, "/api/v1/jobs")).headers["Cache-Control"] == "no-store"


async def test_what_depends_on_time_is_made_again_after_a_minute(
    simple: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await got(simple, "/api/v1/places")
    monkeypatch.setattr(caching, "FRESH_SECONDS", 10**8)  # another minute
    later = await got(simple, "/api/v1/places", **{"If-None-Match": first.headers["ETag"]})
    assert later.status_code == 200
