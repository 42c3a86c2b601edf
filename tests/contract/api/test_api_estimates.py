"""The estimate of a plan compared with the price that is then paid, by the sandbox's own count (PL-5)."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from forager.pipelines.places.zips import shipped_zips
from forager.sandbox.audit import audit
from forager.sandbox.world import MIXED_DENSITY
from tests.support.api import Front, open_front

ROOM = 0.25
PAGES = 3
SIZES = {"AZ": 120, "MA": 80}


@pytest.fixture
async def mixed(store: str | None, tmp_path: Path) -> AsyncIterator[Front]:
    """Two states with dense, sparse and empty ZIPs."""
    known = shipped_zips()
    rows = [f"{code.zip},{state}" for state, size in SIZES.items() for code in known.of_state(state)[:size]]
    async with open_front(tmp_path, store, table="\n".join(["zip,state", *rows]), density=MIXED_DENSITY) as opened:
        yield opened


async def planned(front: Front, keyword: str, state: str) -> int:
    asked = {"keyword": keyword, "state": state, "pages": PAGES}
    answer = await front.client.post("/api/v1/places/plan", json=asked)
    return int(answer.json()["data"]["expected_credits"])


async def paid(front: Front, *asked: tuple[str, str]) -> list[int]:
    """Return the cost of real jobs, by the upstream's log."""
    before = audit(front.sandbox.log).credits
    jobs = [await front.create(keyword=keyword, state=state, pages=PAGES) for keyword, state in asked]
    await front.work()
    costs = [int((await front.data(f"/api/v1/jobs/{job}"))["spent"]) for job in jobs]
    assert sum(costs) == audit(front.sandbox.log).credits - before
    return costs


async def test_after_one_job_plans_are_within_a_quarter_of_what_is_then_paid__PL_5(mixed: Front) -> None:
    (first,) = await paid(mixed, ("bars", "AZ"))
    assert first < SIZES["AZ"] * PAGES * 0.8, "a world in which every page is full would prove nothing"
    sent = len(mixed.sandbox.log)
    asked = [("bars", "AZ"), ("cafes", "AZ"), ("bars", "MA"), ("dentists", "MA")]
    expected = [await planned(mixed, *each) for each in asked]
    assert len(mixed.sandbox.log) == sent, "a plan calls nothing"
    costs = await paid(mixed, *asked)
    for (keyword, state), told, cost in zip(asked, expected, costs, strict=True):
        sys.stdout.write(f"{keyword} in {state}: planned {told}, paid {cost}\n")
        assert abs(told - cost) <= ROOM * cost, (keyword, state)
    assert expected[0] == first, "the same question again is known exactly"
