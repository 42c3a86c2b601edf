"""Tasks and dead letters as reports show them, page by page."""

from typing import Any
from uuid import UUID, uuid4

import pytest

from forager.core.errors import NotFound
from forager.core.ids import claim_text, task_numbers
from forager.ledger.reports import QueryPage
from tests.support.places_rig import PlacesRig
from tests.support.reports import mixed_job, whole

# ── tasks ──


async def test_the_tasks_of_a_job_come_page_by_page(rig: PlacesRig) -> None:
    job = await mixed_job(rig)
    await rig.submit("another", pages=2)
    tasks = await whole(lambda cursor: rig.reports.tasks(job, cursor=cursor, limit=2))
    keys = [task.key for task in tasks]
    assert keys == sorted(keys)
    assert {task.key: task.state for task in tasks} == {
        "85001/1": "completed", "85001/2": "skipped", "85001/3": "skipped",
        "85003/1": "failed", "85003/2": "skipped", "85003/3": "skipped",
        "85004/1": "running", "85004/2": "queued", "85004/3": "queued",
    }  # fmt: skip
    assert {task.job for task in tasks} == {job}
    assert {task.lane for task in tasks} == {"serper"}


async def test_tasks_are_found_by_public_state(rig: PlacesRig, small_window: int) -> None:
    job = await mixed_job(rig)
    counts = {}
    for state in ("queued", "running", "completed", "failed", "skipped", "cancelled"):

        async def ask(cursor: str | None, state: str = state) -> QueryPage[Any]:
            return await rig.reports.tasks(job, state=state, cursor=cursor)

        counts[state] = [task.key for task in await whole(ask)]
    assert counts == {
        "queued": ["85004/2", "85004/3"], "running": ["85004/1"], "completed": ["85001/1"], "failed": ["85003/1"],
        "skipped": ["85001/2", "85001/3", "85003/2", "85003/3"], "cancelled": [],
    }  # fmt: skip


async def test_a_task_shows_its_claim_cost_facts_and_body(rig: PlacesRig) -> None:
    job = await mixed_job(rig)
    by_key = {task.key: task for task in (await rig.reports.tasks(job)).items}
    done = await rig.reports.task(by_key["85001/1"].id)
    assert (done.attempts, done.cost, done.error) == (1, 1, None)
    assert done.facts == {"api_status": 200, "api_ms": 120, "results_count": 7}
    assert done.body == {"keyword": "bars", "zip": "85001", "page": 1, "pages": 3, "state": "AZ"}
    assert done.claim is not None
    assert done.claimed_at is not None
    ms = round(done.claimed_at.timestamp() * 1000)
    assert done.claim == claim_text(ms, int(done.claim.rsplit("-", 1)[1], 16))
    assert by_key["85001/2"].after == done.id
    assert by_key["85004/1"].claim is not None
    assert by_key["85004/2"].claim is None
    assert task_numbers(done.id) is not None


async def test_a_task_that_waits_for_a_retry_shows_its_due_time(rig: PlacesRig) -> None:
    job = await rig.submit(pages=1)
    await rig.retry_later((await rig.lease())["85001/1"])
    (task,) = (await rig.reports.tasks(job, state="queued")).items
    assert (task.attempts, task.cost, task.guessed, task.error) == (1, 1, 1, "Serper failed (500).")
    assert task.due_at is not None
    assert (task.claim, task.claimed_at) == (None, None)  # nobody holds it


async def test_an_unknown_task_is_named(rig: PlacesRig) -> None:
    for unknown in (uuid4(), UUID("00000000-0009-8000-8000-000000000009")):
        with pytest.raises(NotFound, match=str(unknown)):
            await rig.reports.task(unknown)
        with pytest.raises(NotFound, match=str(unknown)):
            await rig.reports.dead_letter(unknown)


# ── dead letters ──


async def test_dead_letters_come_newest_first_over_all_jobs(rig: PlacesRig, small_window: int) -> None:
    jobs = []
    for n in range(3):
        jobs.append(await rig.submit(f"word {n}", zips=("85001", "85003", "85004"), pages=1))
        for lease in (await rig.lease()).values():
            await rig.refuse(lease)
    dead = await whole(lambda cursor: rig.reports.dead(cursor=cursor, limit=2))
    assert len({letter.id for letter in dead}) == len(dead) == 9
    ends = [letter.ended_at for letter in dead if letter.ended_at]
    assert len(ends) == 9
    assert ends == sorted(ends, reverse=True)
    assert {letter.pipeline for letter in dead} == {"places"}
    of_one = await whole(lambda cursor: rig.reports.dead(job=jobs[0], cursor=cursor, limit=2))
    assert [letter.job for letter in of_one] == [jobs[0]] * 3
    assert await whole(lambda cursor: rig.reports.dead(pipeline="products", cursor=cursor)) == []


async def test_a_discarded_dead_letter_is_hidden_and_a_retried_one_is_no_longer_listed(rig: PlacesRig) -> None:
    job = await rig.submit(zips=("85001", "85003", "85004"), pages=1)
    for lease in (await rig.lease()).values():
        await rig.refuse(lease)
    discarded, retried, left = (await rig.reports.dead()).items
    await rig.ledger.discard(discarded.id)
    await rig.ledger.retry_tasks([retried.id])
    assert [letter.id for letter in (await rig.reports.dead()).items] == [left.id]
    assert (await rig.reports.job(job)).failed == 2
    with pytest.raises(NotFound):
        await rig.reports.dead_letter(retried.id)


async def test_a_dead_letter_shows_what_came_back__PL_9(rig: PlacesRig) -> None:
    await rig.submit(pages=1)
    await rig.refuse((await rig.lease())["85001/1"], "no such thing")
    (letter,) = (await rig.reports.dead()).items
    detail = await rig.reports.dead_letter(letter.id)
    assert detail.evidence is not None
    assert detail.evidence.text == '{"message":"no such thing"}'
    assert detail.evidence.size == len(detail.evidence.text)
    assert detail.body["zip"] == "85001"
    assert detail.error is not None
    assert "no such thing" in detail.error
