"""Reports over both stores: what front doors show, page by page, in public words, without ever scanning history."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID, uuid4

import pytest

from forager.core.errors import NotFound, Rejected
from forager.core.ids import claim_text, task_numbers
from forager.core.ledger import NewJob
from forager.ledger.database import Row
from forager.ledger.reports import Page, PagesSeen, PlaceFilter, Reports
from forager.ledger.reports import page as paging
from tests.support.places_rig import PlacesRig, found, postgres_places, sqlite_places

T = TypeVar("T")


@pytest.fixture(params=["sqlite", "postgres"])
async def rig(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[PlacesRig]:
    if request.param == "sqlite":
        rig = await sqlite_places(tmp_path)
    else:
        rig = await postgres_places(request.getfixturevalue("postgres_url"))
    yield rig
    await rig.close()


@pytest.fixture
def small_window(monkeypatch: pytest.MonkeyPatch) -> int:
    """Few rows are looked at per page, so that a small table is as a big one."""
    monkeypatch.setattr(paging, "WINDOW", 4)
    return 4


async def whole(ask: Callable[[str | None], Awaitable[Page[T]]]) -> list[T]:
    """All pages of a list."""
    items: list[T] = []
    cursor: str | None = None
    for _ in range(1_000):
        page = await ask(cursor)
        items.extend(page.items)
        if page.next_cursor is None:
            return items
        cursor = page.next_cursor
    raise AssertionError("the pages have no end")


async def mixed_job(rig: PlacesRig) -> UUID:
    """One ZIP ended early, one failed on page 1, one is in flight."""
    job = await rig.submit(zips=("85001", "85003", "85004"), pages=3, max_credits=100)
    leases = await rig.lease()
    await rig.answer(leases["85001/1"], found(1, 7))
    await rig.refuse(leases["85003/1"])
    return job


# ── jobs ──


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


async def test_one_parameter_of_many_jobs_is_told_as_it_was_given(rig: PlacesRig) -> None:
    given: list[Any] = ["https://example.com/ü?a=1", 5, ["a", {"b": None}], None]
    params: list[dict[str, Any]] = [{"told": value, "other": "x" * 1_000} for value in given]
    params += [{"other": 1}] * 100
    jobs = [(await rig.ledger.submit(NewJob("places", each), [])).job for each in params]
    told = await rig.reports.param_of_jobs([*jobs, uuid4()], "told")
    assert told == {job: ("places", each.get("told")) for job, each in zip(jobs, params, strict=True)}
    assert await rig.reports.param_of_jobs([], "told") == {}


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

        async def ask(cursor: str | None, state: str = state) -> Page[Any]:
            return await rig.reports.jobs(state=state, cursor=cursor)

        assert [job.id for job in await whole(ask)] == jobs, state
    assert await whole(lambda cursor: rig.reports.jobs(pipeline="products", cursor=cursor)) == []


async def test_a_job_is_cancelled_from_the_moment_that_somebody_says_so(rig: PlacesRig) -> None:
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
        ("cursor", rig.reports.jobs(cursor=paging.encode_cursor(["id"], [1, 2]))),
        ("cursor", rig.reports.jobs(cursor=paging.encode_cursor(["id"], ["1"]))),
        ("cursor", rig.reports.jobs(cursor=paging.encode_cursor(["id"], [2**64 - 1]))),
        ("cursor", rig.reports.lanes(cursor=paging.encode_cursor(["name"], ["a\0b"]))),
        ("limit", rig.reports.jobs(limit=0)),
        ("kind", rig.reports.export_page("nothing")),
    ]
    for field, ask in asked:
        with pytest.raises(Rejected) as refused:
            await ask
        assert [problem.field for problem in refused.value.fields] == [field]


async def test_a_cursor_of_another_list_is_refused(rig: PlacesRig) -> None:
    job = await mixed_job(rig)
    of_tasks = (await rig.reports.tasks(job, limit=1)).next_cursor
    assert of_tasks is not None
    with pytest.raises(Rejected, match="cursor"):
        await rig.reports.jobs(cursor=of_tasks)
    of_job, of_all = [(await rig.reports.places(PlaceFilter(job=each), limit=1)).next_cursor for each in (job, None)]
    for asked, cursor in ((PlaceFilter(), of_job), (PlaceFilter(job=job), of_all)):
        assert cursor is not None
        with pytest.raises(Rejected, match="cursor"):
            await rig.reports.places(asked, cursor=cursor)


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

        async def ask(cursor: str | None, state: str = state) -> Page[Any]:
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


async def test_a_task_that_waits_for_a_retry_says_until_when(rig: PlacesRig) -> None:
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
    ends = [letter.ended_at for letter in dead]
    assert ends == sorted(ends, reverse=True)
    assert {letter.pipeline for letter in dead} == {"places"}
    of_one = await whole(lambda cursor: rig.reports.dead(job=jobs[0], cursor=cursor, limit=2))
    assert [letter.job for letter in of_one] == [jobs[0]] * 3
    assert await whole(lambda cursor: rig.reports.dead(pipeline="products", cursor=cursor)) == []


async def test_a_discarded_dead_letter_is_hidden_and_a_retried_one_is_none(rig: PlacesRig) -> None:
    job = await rig.submit(zips=("85001", "85003", "85004"), pages=1)
    for lease in (await rig.lease()).values():
        await rig.refuse(lease)
    discarded, retried, left = (await rig.reports.dead()).items
    await rig.ledger.discard(discarded.id)
    await rig.ledger.retry_task(retried.id)
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


# ── places ──


async def test_places_are_found_by_what_is_asked(rig: PlacesRig, small_window: int) -> None:
    bars = await rig.submit("bars", zips=("85001", "10001"), pages=1)
    await rig.run(lambda key: found(1, 10) if key == "85001/1" else found(8, 10))
    pubs = await rig.submit("pubs", zips=("85003",), pages=1)
    await rig.run(lambda key: found(16, 5))
    numbers = {
        PlaceFilter(): range(1, 21),
        PlaceFilter(job=bars): range(1, 18),
        PlaceFilter(job=pubs): range(16, 21),
        PlaceFilter(zip="10001"): range(11, 18),  # the job had seen 8 to 10 in 85001 already
        PlaceFilter(job=bars, zip="10001"): range(11, 18),
        PlaceFilter(keyword="pubs"): range(16, 21),
        PlaceFilter(state="NY"): range(11, 18),
        PlaceFilter(keyword="bars", state="AZ"): range(1, 11),
        PlaceFilter(category="Bar"): range(1, 21, 2),
        PlaceFilter(zip="85003", category="Pub"): (16, 18, 20),
        PlaceFilter(job=pubs, category="Pub", min_rating=4.7): (18,),
        PlaceFilter(min_rating=4.85): (19,),
        PlaceFilter(title="bAR 1"): (1, *range(10, 20)),
        PlaceFilter(title="%"): (),
        PlaceFilter(title="_"): (),
        PlaceFilter(category="Zoo"): (),
    }
    for asked, expected in numbers.items():

        async def ask(cursor: str | None, asked: PlaceFilter = asked) -> Page[Any]:
            return await rig.reports.places(asked, cursor=cursor, limit=3)

        got = [place.place_uid for place in await whole(ask)]
        assert got == [f"ChIJ{n:06d}" for n in expected], asked


async def test_a_place_is_found_by_its_cid_too__PL_13(rig: PlacesRig) -> None:
    await rig.submit(pages=1)
    await rig.run(lambda key: found(1, 2))
    place = await rig.reports.place("ChIJ000001")
    assert (place.title, place.times_seen, place.version) == ("Bar 1", 1, 1)
    assert place.cid is not None
    assert await rig.reports.place(place.cid) == place
    with pytest.raises(NotFound):
        await rig.reports.place("nobody")


async def test_a_record_has_its_history(rig: PlacesRig) -> None:
    jobs = []
    for n, phone in enumerate(("1", "2", "2", "3")):
        jobs.append(await rig.submit(f"word {n}", pages=1))
        await rig.run(lambda key, phone=phone: found(1, 1, phoneNumber=phone))
    changes = await whole(lambda cursor: rig.reports.history("place", "ChIJ000001", cursor=cursor, limit=1))
    assert [(c.op, c.version, c.job) for c in changes] == [
        ("changed", 3, jobs[3]), ("changed", 2, jobs[1]), ("new", 1, jobs[0]),
    ]  # fmt: skip
    assert [(c.body or {})["phone"] for c in changes] == ["3", "2", "1"]
    of_job = await rig.reports.history("job", str(jobs[0]))
    assert [change.op for change in of_job.items] == ["ended", "created"]


async def test_an_export_has_every_record_once(rig: PlacesRig) -> None:
    bars = await rig.submit("bars", zips=("85001", "85003"), pages=1)
    await rig.run(lambda key: found(1, 10) if key == "85001/1" else found(6, 9))
    pubs = await rig.submit("pubs", zips=("85001",), pages=1)
    await rig.run(lambda key: found(14, 3))

    async def keys(kind: str, job: UUID | None = None) -> list[str]:
        return [row["place_uid"] async for page in rig.reports.export(kind, job=job, limit=4) for row in page]

    assert sorted(await keys("place")) == [f"ChIJ{n:06d}" for n in range(1, 17)]
    assert await keys("place", bars) == [f"ChIJ{n:06d}" for n in range(1, 15)]
    assert await keys("sighting", pubs) == [f"ChIJ{n:06d}" for n in range(14, 17)]
    assert len(await keys("sighting")) == 14 + 3
    (row,) = (await rig.reports.export_page("sighting", job=pubs, limit=1)).items
    assert row["job"] == pubs
    assert row["payload"] == found(14, 1)[0]
    assert row["first_seen_at"].tzinfo is not None


async def test_a_list_does_not_end_where_a_name_was_merged_away__PL_13(rig: PlacesRig) -> None:
    """Seen by its cid and by its placeId before anybody knew that these are one: one sighting leads nowhere now."""
    by_cid, by_id = {"title": "The Anchor", "cid": "77"}, {"title": "The Anchor", "placeId": "ChIJ-anchor"}
    job = await rig.submit("bars", zips=("85001", "85003", "85004", "85006"), pages=1)
    pages = {"85001/1": [by_cid], "85003/1": [by_id], "85004/1": [by_id | by_cid], "85006/1": found(1, 3)}
    leases = await rig.lease()
    for key, places in pages.items():
        await rig.answer(leases[key], places)

    async def keys(limit: int) -> list[str]:
        return [row["place_uid"] async for page in rig.reports.export("place", job=job, limit=limit) for row in page]

    assert await keys(1) == await keys(100) == ["ChIJ-anchor", *(f"ChIJ{n:06d}" for n in range(1, 4))]


async def test_density_tells_full_pages_from_short_ones__PL_5(rig: PlacesRig) -> None:
    await rig.submit("bars", zips=("85001", "85003"), pages=3)
    await rig.run(lambda key: found(1, {"85001/1": 10, "85001/2": 10, "85001/3": 3}.get(key, 4)))
    await rig.submit("pubs", zips=("85003", "10001"), pages=1)
    await rig.run(lambda key: found(1, 10))
    seen = await rig.reports.density(keyword="bars", state="AZ")
    assert seen.same_keyword == {"85001": PagesSeen(full=2, short=1), "85003": PagesSeen(full=0, short=1)}
    assert seen.any_keyword == {
        "85001": PagesSeen(full=2, short=1),
        "85003": PagesSeen(full=1, short=1),
        "10001": PagesSeen(full=1, short=0),
    }


# ── the ledger as a whole ──


async def test_health_counts_what_is_open(rig: PlacesRig) -> None:
    await mixed_job(rig)
    await rig.ledger.pause(await rig.submit("later", pages=2))
    await rig.ledger.advance("files", 3)
    health = await rig.reports.health()
    assert health.open_jobs == {"running": 1, "paused": 1}
    assert (health.queued, health.running, health.dead_letters, health.sessions) == (4, 1, 1, 1)
    assert health.last_change == await rig.reports.last_change() > 3
    assert [(s.name, s.position, s.behind) for s in health.sinks] == [("files", 3, health.last_change - 3)]


async def test_lanes_and_sessions_are_listed(rig: PlacesRig) -> None:
    await mixed_job(rig)
    (lane,) = (await rig.reports.lanes()).items
    assert (lane.name, lane.owner, lane.paused) == ("serper", "by hand", False)
    await rig.ledger.pause_lane("serper", paused=True)
    assert (await rig.reports.lanes()).items[0].paused
    (session,) = await rig.reports.sessions()
    assert session.name == "by hand"
    assert session.lease_until > session.started_at
    (spent,) = await rig.reports.spending("serper")
    assert spent.spent == 1
    with pytest.raises(NotFound):
        await rig.reports.spending("nowhere")


class _Explaining:
    """A database that writes down how SQLite would answer, beside answering."""

    def __init__(self, rig: PlacesRig) -> None:
        self._database = rig.ledger.database
        self.scans: list[str] = []

    async def fetch(self, sql: str, values: Mapping[str, Any] | None = None) -> Sequence[Row]:
        details = [step["detail"] for step in await self._database.fetch(f"EXPLAIN QUERY PLAN {sql}", values)]
        walked = [d for d in details if re.search(r"SCAN (tasks|jobs|places|sightings|changes)\b(?!.*USING)", d)]
        # Along the primary key, and only so far, is no scan; to sort what was found, or without an end, is one.
        if walked and ("LIMIT" not in sql or any("TEMP B-TREE" in d for d in details)):
            self.scans.append(f"{details}: {sql}")
        return await self._database.fetch(sql, values)

    async def fetch_fresh(self, sql: str, values: Mapping[str, Any] | None = None) -> Sequence[Row]:
        return await self.fetch(sql, values)

    async def write(self, sql: str, values: Mapping[str, Any] | None = None) -> Sequence[Row]:
        raise AssertionError("a report writes nothing")


async def test_no_report_scans_a_table(tmp_path: Path) -> None:
    rig = await sqlite_places(tmp_path)
    job = await mixed_job(rig)
    (letter,) = (await rig.reports.dead()).items
    explaining = _Explaining(rig)
    reports = Reports(explaining, rig.catalog)
    for state in ("queued", "running", "paused"):
        await reports.jobs(state=state, pipeline="places")
    await reports.job(job)
    await reports.tasks(job, state="queued", cursor=paging.encode_cursor(["kind", "key"], ["places.query", "85001/1"]))
    await reports.task(letter.id)
    await reports.dead(job=job, pipeline="places", cursor=paging.encode_cursor(["ended_at", "id"], [2**50, 1]))
    await reports.dead_letter(letter.id)
    await reports.places(PlaceFilter(job=job), cursor=paging.encode_cursor(["sightings.id"], [1]))
    await reports.places(PlaceFilter(category="Bar"), cursor=paging.encode_cursor(["id"], [1]))
    await reports.places(PlaceFilter(zip="85001"), cursor=paging.encode_cursor(["place_uid"], ["ChIJ000001"]))
    await reports.history("place", "ChIJ000001", cursor=paging.encode_cursor(["version", "id"], [9, 9]))
    await reports.export_page("place", job=job)
    await reports.export_page("sighting", job=job)
    await reports.density(keyword="bars", state="AZ")
    await reports.health()
    assert explaining.scans == []
    await rig.close()
