"""The rate of requests to Google: a token bucket per API, by its settings."""

from pathlib import Path
from typing import Any

import pytest

from forager.app.config import new_settings
from forager.core.errors import Rejected
from forager.pipelines.reviews.wiring import build
from forager.sandbox import Band, Tenant
from tests.support.reviews import open_reviews

CAPACITY, RATE = 10, 25.0
LATE = 0.15
"""Seconds by which a busy machine may deliver a request later than one that was sent after it."""


def lanes(tmp_path: Path, **given: Any) -> set[tuple[float | None, float, int, str]]:
    pipeline = build(new_settings(home=tmp_path, **given))
    assert [lane.name for lane in pipeline.lanes] == ["google:accounts", "google:locations", "google:reviews"]
    return {(lane.rate, lane.per, lane.burst, lane.scope) for lane in pipeline.lanes}


@pytest.mark.parametrize(
    ("given", "rate", "per", "burst"),
    [
        ({}, 100, 10.0, 100),
        ({"google_requests_per_second": 5.0}, 100, 20.0, 100),
        ({"ratelimit": {"CAPACITY": "20", "REFILL_RATE": "4"}}, 20, 5.0, 20),
        ({"ratelimit": {"TOKEN_BUCKET_CAPACITY": "50"}, "google_requests_per_second": 10.0}, 50, 5.0, 50),
        ({"ratelimit": {"REFILL_RATE": "4"}, "google_requests_per_second": 5.0}, 100, 20.0, 100),
    ],
)
def test_each_worker_has_a_bucket_for_each_api_with_the_capacity_and_rate_of_the_settings__RV_5(
    tmp_path: Path, given: dict[str, Any], rate: int, per: float, burst: int
) -> None:
    assert lanes(tmp_path, **given) == {(rate, per, burst, "worker")}


@pytest.mark.parametrize(("limit", "burst"), [(300, 100), (60, 60)])
def test_one_limit_for_all_workers_takes_the_place_of_their_buckets__RV_5(
    tmp_path: Path, limit: int, burst: int
) -> None:
    given: dict[str, Any] = {"google_shared_requests_per_minute": limit, "google_requests_per_second": 50.0}
    assert lanes(tmp_path, **given) == {(limit, 60.0, burst, "all")}


@pytest.mark.parametrize("given", [{"CAPACITY": "0"}, {"CAPACITY": "many"}, {"REFILL_RATE": "-1"}, {"SPEED": "3"}])
def test_a_bucket_that_cannot_be_is_refused_by_its_name__RV_5(tmp_path: Path, given: dict[str, str]) -> None:
    with pytest.raises(Rejected, match=f"RATELIMIT_{next(iter(given))}"):
        lanes(tmp_path, ratelimit=given)


async def test_google_never_sees_more_than_the_bucket_allows__RV_5(tmp_path: Path) -> None:
    tenant = Tenant(accounts=1, empty_accounts=0, locations=40, shared_every=0, reviews=(Band(1.0, 1, 5),))
    bucket: dict[str, Any] = {"google_requests_per_second": RATE, "ratelimit": {"CAPACITY": str(CAPACITY)}}
    async with open_reviews(tmp_path, default=tenant, **bucket) as service:
        await service.fetch()
        await service.work()
        at = sorted(call.at for call in service.google.log.calls("reviews.list"))
    assert len(at) == 40
    for first in range(len(at)):
        for last in range(first, len(at)):
            allowed = CAPACITY + RATE * (at[last] - at[first] + LATE)
            assert last - first + 1 <= allowed, f"{last - first + 1} requests in {at[last] - at[first]:.3f} s"
    assert at[-1] - at[0] >= (40 - CAPACITY) / RATE - LATE


async def test_a_job_waits_for_one_page_of_each_stage_and_no_more__RV_12(tmp_path: Path) -> None:
    """The latency of a job is its critical path: all pages of a stage are under way together. `bench reviews` has the
    figures."""
    tenant = Tenant(accounts=1, empty_accounts=0, locations=20, shared_every=0, reviews=(Band(1.0, 1, 5),))
    async with open_reviews(tmp_path, default=tenant, latency_ms=400.0, latency_sigma=0.0) as service:
        await service.fetch()
        await service.work()
        stages = [service.google.log.calls(f"{stage}.list") for stage in ("accounts", "locations", "reviews")]
    assert [len(calls) for calls in stages] == [1, 1, 20]
    for calls in stages:
        ends = [call.done for call in calls if call.done is not None]
        assert len(ends) == len(calls)
        assert max(call.at for call in calls) < min(ends), "a page waited for another of its stage"
