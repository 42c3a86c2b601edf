"""Pins of lanes to regions over HTTP and by command, in the whole application."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from forager.ledger.tables.regions import NEEDS_POSTGRES
from tests.support.api import Front, open_front

PINS = "/api/v1/regions/pins"


@pytest.fixture
async def shared(tmp_path: Path, app_postgres_url: str) -> AsyncIterator[Front]:
    """An application on PostgreSQL whose worker is in the region eu."""
    async with open_front(tmp_path, app_postgres_url, settings={"region": "eu"}) as front:
        yield front


async def test_a_lane_is_pinned_used_by_its_region_listed_and_unpinned(shared: Front) -> None:
    made = await shared.client.post(PINS, json={"lane": "serper", "region": "eu", "fail_over": "10m"})
    assert made.json()["data"] == {"lane": "serper", "region": "eu", "fail_over_seconds": 600.0}
    job = await shared.create()
    await shared.work()
    assert (await shared.data(f"/api/v1/jobs/{job}"))["completed"] > 0
    await shared.app.regions.follow()
    (region,) = await shared.data("/api/v1/regions")
    assert (region["name"], region["lanes"], region["failed_over"]) == ("eu", 1, [])
    assert region["pins"] == [{"lane": "serper", "region": "eu", "fail_over_seconds": 600.0}]
    gone = await shared.client.delete(f"{PINS}/serper")
    assert gone.json()["data"] == {"unpinned": "serper"}
    assert (await shared.client.delete(f"{PINS}/serper")).status_code == 404


async def test_a_worker_of_another_region_leaves_the_job_to_its_own(shared: Front) -> None:
    await shared.client.post(PINS, json={"lane": "serper", "region": "us"})
    job = await shared.create()
    session = await shared.app.ledger.begin("here", ["celery", "celery@eu"])
    assert [lane.name for lane in await shared.app.ledger.take_lanes(session, 10)] == []
    assert (await shared.data(f"/api/v1/jobs/{job}"))["queued"] > 0


@pytest.mark.parametrize("wrong", [{"region": "EU!"}, {"lane": "no host/at all"}, {"fail_over": "soon"}])
async def test_a_pin_that_makes_no_sense_is_refused(shared: Front, wrong: dict[str, str]) -> None:
    got = await shared.client.post(PINS, json={"lane": "shop.example", "region": "eu", **wrong})
    assert got.status_code == 422
    assert next(iter(wrong)) in got.text


async def test_the_embedded_store_refuses_regions_with_a_remedy(tmp_path: Path) -> None:
    async with open_front(tmp_path) as front:
        assert await front.data("/api/v1/regions") == []
        got = await front.client.post(PINS, json={"lane": "serper", "region": "eu"})
        assert got.status_code == 422
        assert NEEDS_POSTGRES.split(".")[0] in got.text
