"""A second pass over ZIPs that were cut off: further pages are read once, and only there; neighbouring terms."""

import pytest

from forager.core.errors import Rejected
from forager.pipelines.places.cli import second_pass
from tests.support.api import Front


async def states(front: Front, job: str) -> dict[str, str]:
    seen = await front.data("/api/v1/places/coverage", job=job)
    return {each["zip"]: each["state"] for each in seen["zips"]}


async def test_a_second_pass_reads_only_further_pages_of_what_was_cut_off(front: Front) -> None:
    job = await front.create(keyword="bars", zips=["85001", "85002"], pages=1)
    await front.work()
    before = await states(front, job)
    cut = [code for code, state in before.items() if state == "cut_off"]
    assert cut  # the simulated ZIPs have more than a page
    params = (await front.data(f"/api/v1/jobs/{job}"))["params"]
    (second,) = second_pass(params, cut, [], 3, 50)
    plan = (await front.client.post("/api/v1/places/plan", json=second)).json()["data"]
    assert (plan["queries"], plan["worst_credits"]) == (2 * len(cut), 2 * len(cut))
    asked = len(list(front.sandbox.log.since(0)))
    again = await front.create(**second)
    await front.work()
    calls = list(front.sandbox.log.since(0))[asked:]
    assert {call.page for call in calls} <= {2, 3}
    assert 2 in {call.page for call in calls}
    after = await front.data(f"/api/v1/jobs/{again}")
    assert after["spent"] <= plan["worst_credits"]
    assert set(await states(front, again)) == set(cut)


async def test_a_first_page_behind_the_last_is_refused(simple: Front) -> None:
    body = {"keyword": "bars", "zips": ["85001"], "pages": 3, "first_page": 4}
    got = await simple.client.post("/api/v1/places/jobs", json=body)
    assert got.status_code == 422
    assert "first_page" in got.text


def test_neighbouring_terms_are_a_job_each_with_the_budget_of_each() -> None:
    before = {"keyword": "bars", "state": "AZ", "pages": 3}
    jobs = second_pass(before, ["85001"], ["pubs", "wine bar"], None, 40)
    assert jobs == [
        {"keyword": "pubs", "zips": ["85001"], "pages": 3, "max_credits": 40},
        {"keyword": "wine bar", "zips": ["85001"], "pages": 3, "max_credits": 40},
    ]
    assert second_pass(before, [], [], None, None) == []
    with pytest.raises(Rejected, match="neighbouring terms"):
        second_pass({**before, "pages": 10}, ["85001"], [], None, None)
