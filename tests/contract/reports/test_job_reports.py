"""Jobs as reports show them: every counter, newest first, by public state; a cursor of another list is refused."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any
from uuid import uuid4

import pytest

from forager.core.errors import NotFound, Rejected
from forager.core.ledger import NewJob
from forager.pipelines.places.reports import PlaceFilter, find_places
from forager.sdk import queries
from forager.sdk.queries import QueryPage
from tests.support.places_rig import PlacesRig, found
from tests.support.reports import mixed_job, whole


async def test_a_job_shows_its_parameters_and_every_counter(rig: PlacesRig) -> None:
    job = await rig.reports.job(await mixed_job(rig))
    counters = {
        "total": 9, "queued": 2, "running": 1, "completed": 1, "failed": 1, "skipped": 4, "cancelled": 0, "retries": 0,
        "spent": 1, "guessed": 0, "reserved": 1, "records": 7,
    }  # fmt: skip
    assert {name: getattr(job, name) for name in counters} == counters
    assert job.discoveries == 7
    assert (job.pipeline, job.state, job.max_cost) == ("places", "running", 100)
    assert job.params["keyword"] == "bars"
    assert job.started_at is not None
    assert job.started_at >= job.created_at
    assert job.finished_at is None


async def test_one_parameter_of_many_jobs_is_reported_as_it_was_given(rig: PlacesRig) -> None:
    given: list[Any] = ["https://example.com/ü?a=1", 5, ["a", {"b": None}], None]
    params: list[dict[str, Any]] = [{"told": value, "other": "x" * 1_000} for value in given]
    params += [{"other": 1}] * 100
    jobs = [(await rig.ledger.submit(NewJob("places", each), [])).job for each in params]
    told = await rig.reports.param_of_jobs([*jobs, uuid4()], "told")
    assert told == {job: ("places", each.get("told")) for job, each in zip(jobs, params, strict=True)}
    assert await rig.reports.param_of_jobs([], "told") == {}
    standing = NewJob("places", {"told": 1}, idempotency_key=" recheck/pages", standing=True)
    assert await rig.reports.param_of_jobs([(await rig.ledger.append(standing, [])).job], "told") == {}


async def test_standing_jobs_and_those_of_single_values_are_left_out_of_lists(rig: PlacesRig) -> None:
    keys = (
        " recheck/recrawl",
        " recheck/recrawl/a.example",
        " recheck/recrawl/ü.example",
        " recheck/recrawls",
        " other/recrawl",
    )
    made = {}
    for key in keys:
        standing = NewJob("places", {"key": key}, idempotency_key=key, standing=True)
        made[key] = (await rig.ledger.append(standing, [])).job
    plain = await rig.submit("plain", pages=1)
    listed = await rig.reports.jobs(standing=(" recheck/recrawl", " recheck/none"))
    assert [job.id for job in listed.items] == [plain, made[" other/recrawl"], made[" recheck/recrawls"]]


async def test_an_unknown_job_is_named(rig: PlacesRig) -> None:
    unknown = uuid4()
    for ask in (rig.reports.job(unknown), rig.reports.tasks(unknown), rig.reports.dead(job=unknown)):
        with pytest.raises(NotFound, match=str(unknown)):
            await ask


async def test_jobs_come_newest_first_page_by_page(rig: PlacesRig) -> None:
    made = [await rig.submit(f"word {n}", pages=1) for n in range(7)]
    listed = await whole(lambda cursor: rig.reports.jobs(cursor=cursor, limit=3))
    assert [job.id for job in listed] == made[::-1]
    first = await rig.reports.jobs(limit=3)
    await rig.submit("newer", pages=1)
    second = await rig.reports.jobs(limit=3, cursor=first.next_cursor)
    assert [job.id for job in (*first.items, *second.items)] == made[:0:-1]


async def test_jobs_are_found_by_public_state(rig: PlacesRig, small_window: int) -> None:
    done = [await rig.submit(f"done {n}", pages=1) for n in range(6)]
    await rig.run(lambda key: [])
    paused, queued, cancelled = [await rig.submit(word, pages=1) for word in ("paused", "queued", "cancelled")]
    await rig.ledger.pause(paused)
    (running,) = [await rig.submit("running", zips=("85003",), pages=2)]
    await rig.ledger.pause(queued)
    await rig.ledger.pause(cancelled)
    assert list(await rig.lease()) == ["85003/1"]
    await rig.ledger.resume(queued)
    await rig.ledger.cancel(cancelled)
    expected = {"completed": done[::-1], "paused": [paused], "queued": [queued], "running": [running],
                "cancelled": [cancelled], "failed": [], "partially_completed": []}  # fmt: skip
    for state, jobs in expected.items():

        async def ask(cursor: str | None, state: str = state) -> QueryPage[Any]:
            return await rig.reports.jobs(state=state, cursor=cursor)

        assert [job.id for job in await whole(ask)] == jobs, state
    assert await whole(lambda cursor: rig.reports.jobs(pipeline="products", cursor=cursor)) == []


async def test_a_job_is_reported_as_cancelled_from_the_request_on(rig: PlacesRig) -> None:
    job = await mixed_job(rig)
    await rig.ledger.cancel(job)  # a query is still in flight
    assert (await rig.reports.job(job)).state == "cancelled"
    assert (await rig.reports.job(job)).finished_at is None
    assert [j.id for j in (await rig.reports.jobs(state="cancelled")).items] == [job]
    assert (await rig.reports.jobs(state="running")).items == []


async def test_an_unknown_state_or_cursor_is_refused_with_its_field(rig: PlacesRig) -> None:
    job = await rig.submit()
    asked: list[tuple[str, Awaitable[object]]] = [
        ("state", rig.reports.jobs(state="asleep")),
        ("state", rig.reports.tasks(job, state="planning")),
        ("cursor", rig.reports.jobs(cursor="nonsense")),
        ("cursor", rig.reports.jobs(cursor=queries.encode_cursor("jobs", ["id"], [1, 2]))),
        ("cursor", rig.reports.jobs(cursor=queries.encode_cursor("jobs", ["id"], ["1"]))),
        ("cursor", rig.reports.jobs(cursor=queries.encode_cursor("jobs", ["id"], [2**64 - 1]))),
        ("cursor", rig.reports.lanes(cursor=queries.encode_cursor("lanes", ["name"], ["a\0b"]))),
        ("limit", rig.reports.jobs(limit=0)),
        ("kind", rig.reports.export_page("nothing")),
    ]
    for field, ask in asked:
        with pytest.raises(Rejected) as refused:
            await ask
        assert [problem.field for problem in refused.value.fields] == [field]


async def test_a_cursor_of_another_list_is_refused(rig: PlacesRig) -> None:
    job, other = await mixed_job(rig), await rig.submit("pubs", zips=("85006", "85007"), pages=2)
    await rig.run(lambda _: found(1, 2, phoneNumber="2"))  # so that places have a history
    reports = rig.reports
    lists: dict[str, Callable[..., Awaitable[QueryPage[Any]]]] = {
        "jobs": reports.jobs,
        "tasks": partial(reports.tasks, job),
        "other tasks": partial(reports.tasks, other),
        "places": partial(find_places, rig.ledger.database),
        "places of a job": partial(find_places, rig.ledger.database, PlaceFilter(job=job)),
        "places of a ZIP": partial(find_places, rig.ledger.database, PlaceFilter(zip="85001")),
        "records": partial(reports.export_page, "place"),
        "records of a job": partial(reports.export_page, "place", job=job),
        "sightings": partial(reports.export_page, "sighting"),
        "history": partial(reports.history, "place", "ChIJ000001"),
        "other history": partial(reports.history, "place", "ChIJ000002"),
    }
    cursors = {name: (await ask(limit=1)).next_cursor for name, ask in lists.items()}
    for name, cursor in cursors.items():
        assert cursor is not None, name
        for asked, ask in lists.items():
            if asked == name:
                await ask(cursor=cursor)
                continue
            with pytest.raises(Rejected, match="is not a cursor of this list"):
                await ask(cursor=cursor)
