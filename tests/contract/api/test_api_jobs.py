"""Jobs, tasks and dead letters through the API, on a real engine and a sandbox."""

import time
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from forager.sandbox import Fault, Rule
from tests.support.api import JOB, ONE_QUERY, Front, open_front


async def test_a_places_job_is_created_in_the_seeds_words__PL_2(front: Front) -> None:
    made = await front.client.post("/api/v1/places/jobs", json=JOB)
    assert made.status_code == 202
    said = made.json()
    assert said["success"] is True
    assert said["error"] is None
    assert set(said["data"]) == {"job_id", "status", "total_queries"}
    assert (said["data"]["status"], said["data"]["total_queries"]) == ("running", 6)
    job = await front.data(f"/api/v1/jobs/{UUID(said['data']['job_id'])}")
    assert (job["state"], job["total"], job["queued"]) == ("queued", 6, 6)
    assert len(front.sandbox.log) == 0, "creation must not wait for the upstream"


async def test_a_job_of_2000_queries_is_created_in_half_a_second__PL_2(store: str | None, tmp_path: Path) -> None:
    """The 95th of a hundred. A busy machine only makes it slower, so the best of three rounds counts."""
    limit = 0.5 if store is None else 1.0
    table = "zip,state\n" + "".join(f"{number},TX\n" for number in range(75_000, 75_200))
    best = float("inf")
    async with open_front(tmp_path, store, table=table) as front:
        for _ in range(3):
            took = sorted([await _creation(front) for _ in range(20)])
            best = min(best, took[18])
            if best <= limit:
                break
    assert best <= limit


async def _creation(front: Front) -> float:
    started = time.perf_counter()
    made = await front.client.post("/api/v1/places/jobs", json={"keyword": "bars", "state": "TX", "pages": 10})
    assert made.json()["data"]["total_queries"] == 2_000
    return time.perf_counter() - started


async def test_the_same_key_returns_the_same_job_and_another_body_is_a_conflict__PL_3(front: Front) -> None:
    key = {"Idempotency-Key": "bars-of-az"}
    first = await front.client.post("/api/v1/places/jobs", json=JOB, headers=key)
    await front.work()
    again = await front.client.post("/api/v1/places/jobs", json=JOB, headers=key)
    assert (first.status_code, again.status_code) == (202, 202)
    assert again.json()["data"] == first.json()["data"]
    assert "Idempotent-Replayed" not in first.headers
    assert again.headers["Idempotent-Replayed"] == "true"
    spelled = await front.client.post("/api/v1/places/jobs", json={**JOB, "keyword": "  bars "}, headers=key)
    assert spelled.json()["data"] == first.json()["data"], "the same job in another spelling is the same job"
    other = await front.client.post("/api/v1/places/jobs", json={**JOB, "pages": 1}, headers=key)
    assert (other.status_code, other.json()["meta"]["code"]) == (409, "conflict")
    assert len(await front.data("/api/v1/jobs")) == 1


async def test_a_key_that_cannot_be_kept_is_refused(simple: Front) -> None:
    for key in (b"", b"x" * 256, b"two words", b"schedule/nightly/1", b"caf\xe9"):
        headers = [(b"Idempotency-Key", key)]
        refused = await simple.client.post("/api/v1/places/jobs", json=JOB, headers=headers)
        assert refused.status_code == 422, key
        assert refused.json()["meta"]["fields"][0]["field"] == "idempotency-key"
    assert await simple.data("/api/v1/jobs") == []


async def test_a_dry_run_is_completed_at_once_and_holds_its_plan__PL_5(front: Front) -> None:
    made = (await front.client.post("/api/v1/places/jobs", json={**JOB, "dry_run": True})).json()["data"]
    plan = (await front.client.post("/api/v1/places/plan", json=JOB)).json()["data"]
    assert (made["status"], made["total_queries"]) == ("completed", 0)
    assert made["plan"] == plan
    assert (plan["zips"], plan["queries"], plan["worst_credits"]) == (3, 6, 6)
    job = await front.data(f"/api/v1/jobs/{made['job_id']}")
    assert (job["state"], job["total"], job["estimate"]) == ("completed", 0, plan)
    assert len(front.sandbox.log) == 0


async def test_a_job_runs_to_its_end_and_every_figure_is_there(front: Front) -> None:
    job = await front.create(keyword="bars", zips=["85001", "85002"], pages=2)
    await front.work()
    report = await front.data(f"/api/v1/jobs/{job}")
    assert (report["state"], report["completed"], report["spent"]) == ("completed", 4, 4)
    assert report["records"] > 20
    tasks = await front.data(f"/api/v1/jobs/{job}/tasks")
    assert [task["key"] for task in tasks] == ["85001/1", "85001/2", "85002/1", "85002/2"]
    assert {task["state"] for task in tasks} == {"completed"}
    one = await front.data(f"/api/v1/tasks/{tasks[0]['id']}")
    assert one["body"]["zip"] == "85001"
    assert one["facts"]["api_status"] == 200
    assert await front.data(f"/api/v1/jobs/{job}/tasks", state="failed") == []
    assert [lane["name"] for lane in await front.data("/api/v1/lanes")] == ["serper"]


async def test_a_generic_job_speaks_our_words(front: Front) -> None:
    made = await front.client.post("/api/v1/jobs", json={"pipeline": "places", "params": ONE_QUERY})
    assert made.status_code == 202
    data = made.json()["data"]
    assert (data["pipeline"], data["state"], data["total"]) == ("places", "queued", 1)
    unknown = await front.client.post("/api/v1/jobs", json={"pipeline": "pets", "params": {}})
    assert unknown.status_code == 404
    assert "places" in unknown.json()["error"], "an error lists what there is"


async def test_jobs_are_listed_newest_first_by_filter_and_cursor(front: Front) -> None:
    made = [await front.create() for _ in range(5)]
    await front.client.post(f"/api/v1/jobs/{made[0]}/cancel")
    listed: list[str] = []
    cursor = None
    while True:
        query = {"limit": 2} | ({"cursor": cursor} if cursor else {})
        page = (await front.client.get("/api/v1/jobs", params=query)).json()
        listed += [job["id"] for job in page["data"]]
        cursor = page["meta"]["next_cursor"]
        if cursor is None:
            break
    assert listed == made[::-1]
    assert [job["id"] for job in await front.data("/api/v1/jobs", state="cancelled")] == [made[0]]
    assert len(await front.data("/api/v1/jobs", state="queued", pipeline="places")) == 4
    for method, path in (("GET", "/jobs"), ("GET", "/dead"), ("POST", "/dead/retry")):
        asked: dict[str, Any] = {"json": {"pipeline": "pets"}} if method == "POST" else {"params": {"pipeline": "pets"}}
        refused = await front.client.request(method, f"/api/v1{path}", **asked)
        (field,) = refused.json()["meta"]["fields"]
        assert (refused.status_code, field["field"]) == (422, "pipeline"), refused.text
        assert field["message"].startswith("unknown pipeline 'pets'; did you mean 'places'? choose from ")


async def test_unknown_names_in_filters_are_refused_with_near_names(front: Front) -> None:
    await front.app.database.write(
        "INSERT INTO domains (domain_name, base_url, created_at, updated_at)"
        " VALUES ('shop.example', 'https://shop.example', 1, 1)"
    )
    near: tuple[tuple[str, dict[str, str], str], ...] = (
        ("/dead", {"reason": "timedout"}, "'timed_out'"),
        ("/dead/reasons", {"reason": "unreacheable"}, "'unreachable'"),
        ("/listings", {"market": "nycc"}, "'nyc'"),
        ("/listings/map", {"market": "nycc"}, "'nyc'"),
        ("/products", {"domain": "shop.exmple"}, "'shop.example'"),
        ("/products/search", {"domain": "shop.exmple", "q": "lamp"}, "'shop.example'"),
        ("/admin/parser-health", {"domain": "shop.exmple"}, "'shop.example'"),
        ("/pages", {"domain": "shop.exmple"}, "'shop.example'"),
        ("/pages", {"kind": "pge"}, "'page'"),
        ("/actions", {"key": "servce key"}, "'service key'"),
        ("/records/product", {"bran": "x"}, "'brand'"),
        ("/records/produkt", {}, "'product'"),
    )
    for path, query, expected in near:
        refused = await front.client.get(f"/api/v1{path}", params=query)
        assert refused.status_code == 422, (path, refused.text)
        assert expected in refused.json()["error"] + str(refused.json()["meta"]["fields"]), (path, refused.text)
    refused = await front.client.post("/api/v1/dead/retry", json={"reason": "timedout"})
    assert (refused.status_code, "'timed_out'" in refused.text) == (422, True)
    known = (
        ("/dead", {"reason": "timed_out"}),
        ("/dead", {"reason": "some_reason_of_a_pipeline"}),
        ("/listings", {"market": "nyc"}),
        ("/products", {"domain": "shop.example"}),
        ("/pages", {"domain": "shop.example"}),
    )
    for path, query in known:
        found = await front.client.get(f"/api/v1{path}", params=query)
        assert (found.status_code, found.json()["data"]) == (200, []), (path, found.text)


async def test_a_job_is_paused_with_a_reason_resumed_and_cancelled(front: Front) -> None:
    job = await front.create(**JOB)
    paused = await front.client.post(f"/api/v1/jobs/{job}/pause", json={"reason": "lunch"})
    assert (paused.json()["data"]["state"], paused.json()["data"]["reason"]) == ("paused", "lunch")
    assert (await front.client.post(f"/api/v1/jobs/{job}/pause")).status_code == 200, "twice is once"
    resumed = await front.client.post(f"/api/v1/jobs/{job}/resume")
    assert (resumed.json()["data"]["state"], resumed.json()["data"]["reason"]) == ("queued", None)
    cancelled = await front.client.post(f"/api/v1/jobs/{job}/cancel")
    assert (cancelled.json()["data"]["state"], cancelled.json()["data"]["cancelled"]) == ("cancelled", 6)
    for verb in ("pause", "resume", "retry"):
        refused = await front.client.post(f"/api/v1/jobs/{job}/{verb}")
        assert (refused.status_code, refused.json()["meta"]["code"]) == (409, "conflict"), verb


async def test_nothing_is_done_to_a_job_that_is_not_there(simple: Front) -> None:
    for verb in ("pause", "resume", "cancel", "retry"):
        missing = await simple.client.post(f"/api/v1/jobs/{uuid4()}/{verb}")
        assert (missing.status_code, missing.json()["meta"]["code"]) == (404, "not_found"), verb


async def test_a_dead_letter_is_shown_with_its_evidence_and_retried__PL_12(front: Front) -> None:
    job = await front.create(keyword="bars", zips=["85003"], pages=3)
    await front.work()
    (dead,) = await front.data("/api/v1/dead", job=job)
    assert (dead["key"], dead["pipeline"], dead["state"]) == ("85003/1", "places", "failed")
    assert (dead["reason"], dead["error_type"]) == (None, "parse")
    assert await front.data("/api/v1/dead", job=job, error_type="parse") == [dead]
    assert await front.data("/api/v1/dead", job=job, error_type="network") == []
    assert await front.data(f"/api/v1/jobs/{job}/tasks", error_type="parse", state="failed")
    (attempt,) = await front.data(f"/api/v1/tasks/{dead['id']}/attempts")
    assert (attempt["attempt"], attempt["status"], attempt["error_type"]) == (1, "failed", "parse")
    assert attempt["message"] == dead["error"]
    assert "parse.py" in attempt["traceback"]
    shown = await front.data(f"/api/v1/dead/{dead['id']}")
    assert shown["body"]["zip"] == "85003"
    assert shown["evidence"]["size"] > 0
    again = await front.client.post(f"/api/v1/dead/{dead['id']}/retry")
    assert again.json()["data"] == {"requeued": 3}, "with the two pages behind it"
    assert await front.data("/api/v1/dead") == []
    await front.work()
    assert (await front.data(f"/api/v1/jobs/{job}"))["state"] == "completed"


async def failed_letters(front: Front, keyword: str) -> str:
    """A job whose four queries have all become dead letters."""
    job = await front.create(keyword=keyword, zips=["85001", "85002", "85003", "02139"], pages=1)
    await front.work()
    return job


async def retry_pages(front: Front, **body: Any) -> list[dict[str, Any]]:
    """Follow the pages of a bulk retry to the end."""
    pages: list[dict[str, Any]] = []
    while not pages or pages[-1]["next_cursor"] is not None:
        cursor = {"cursor": pages[-1]["next_cursor"]} if pages else {}
        answer = await front.client.post("/api/v1/dead/retry", json={**body, **cursor})
        assert answer.status_code == 200, answer.text
        pages.append(answer.json()["data"])
    return pages


async def test_a_bulk_retry_reports_requeued_and_skipped_letters_page_by_page(
    store: str | None, tmp_path: Path
) -> None:
    """A letter of a cancelled job neither stops the others nor is silently dropped."""
    async with open_front(tmp_path, store, script=(Rule(Fault.MALFORMED, times=8),)) as front:
        good, cancelled = await failed_letters(front, "bars"), await failed_letters(front, "gyms")
        (one, *_) = await front.data("/api/v1/dead", job=cancelled)
        await front.client.post(f"/api/v1/dead/{one['id']}/retry")
        await front.client.post(f"/api/v1/jobs/{cancelled}/cancel")
        reasons = await front.data("/api/v1/dead/reasons")
        assert [(each["pipeline"], each["error_type"], each["letters"]) for each in reasons] == [("places", "parse", 7)]
        assert await front.data("/api/v1/dead/reasons", job=good, error_type="network") == []
        pages = await retry_pages(front, limit=2)
        assert sum(page["requeued"] for page in pages) == sum(page["letters"] for page in pages) == 4
        assert len(pages) == 4
        over = [each for page in pages for each in page["passed_over"]]
        assert sum(each["letters"] for each in over) == 3
        assert {each["reason"] for each in over} == {"job_cancelled"}
        assert all(each["jobs"] == [cancelled] and "discard" in each["message"] for each in over)
        left = await front.data("/api/v1/dead")
        assert {letter["job"] for letter in left} == {cancelled}
        await front.work()
        assert (await front.data(f"/api/v1/jobs/{good}"))["state"] == "completed"
        refused = await front.client.post("/api/v1/dead/retry", json={"limit": 1_001})
        assert refused.status_code == 422


async def test_a_bulk_retry_counts_the_letters_of_all_jobs(store: str | None, tmp_path: Path) -> None:
    """Jobs are requeued at the same time; the counts add up for all that."""
    async with open_front(tmp_path, store, script=(Rule(Fault.MALFORMED, times=12),)) as front:
        for number in range(12):
            await front.create(keyword=f"bars {number}", zips=["85001"], pages=1)
        await front.work()
        assert len(await front.data("/api/v1/dead")) == 12
        (page,) = await retry_pages(front)
        assert (page["requeued"], page["letters"], page["passed_over"]) == (12, 12, [])


async def test_the_letters_of_one_job_are_requeued_in_one_transaction(
    store: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_front(tmp_path, store, script=(Rule(Fault.MALFORMED, times=4),)) as front:
        job = await failed_letters(front, "bars")
        before = (await front.data("/api/v1/changes", limit=1_000))[-1]["id"]
        (page,) = await retry_pages(front, job=job)
        assert page == {"requeued": 4, "letters": 4, "passed_over": [], "next_cursor": None}
        changes = await front.data("/api/v1/changes", after=before, kinds="job")
        assert [change["op"] for change in changes] == ["retried"]


async def test_a_failed_job_is_retried_whole__PL_12(front: Front) -> None:
    job = await front.create(keyword="bars", zips=["85003"], pages=2)
    await front.work()
    assert (await front.data(f"/api/v1/jobs/{job}"))["failed"] == 1
    again = await front.client.post(f"/api/v1/jobs/{job}/retry")
    assert again.json()["data"] == {"requeued": 2}


@pytest.mark.parametrize(("method", "suffix"), [("DELETE", ""), ("POST", "/discard")])
async def test_a_discarded_dead_letter_is_hidden_and_still_counted(front: Front, method: str, suffix: str) -> None:
    job = await front.create(keyword="bars", zips=["85003"], pages=1)
    await front.work()
    (dead,) = await front.data("/api/v1/dead")
    gone = await front.client.request(method, f"/api/v1/dead/{dead['id']}{suffix}")
    assert gone.json()["data"] == {"discarded": dead["id"]}
    assert await front.data("/api/v1/dead") == []
    assert (await front.data(f"/api/v1/jobs/{job}"))["failed"] == 1


async def test_a_dead_letter_that_is_not_there_is_a_404(simple: Front) -> None:
    missing = uuid4()
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/retry"), ("POST", "/discard")):
        answer = await simple.client.request(method, f"/api/v1/dead/{missing}{path}")
        assert answer.status_code == 404
    assert (await simple.client.get(f"/api/v1/tasks/{missing}")).status_code == 404
    assert (await simple.client.get(f"/api/v1/jobs/{missing}/tasks")).status_code == 404


async def test_standing_jobs_of_rechecks_are_listed_only_on_request(front: Front) -> None:
    own, standing = await front.create(), await front.create()
    await front.app.database.write(
        "INSERT INTO idempotency (key, fingerprint, job_id, expires_at)"
        " SELECT :key, 'none', id, 0 FROM jobs WHERE public_id = :job",
        {"key": front.app.standing[0], "job": standing},
    )

    assert [job["id"] for job in await front.data("/api/v1/jobs")] == [own]
    assert [job["id"] for job in await front.data("/api/v1/jobs", pipeline="places")] == [own]
    assert [job["id"] for job in await front.data("/api/v1/jobs", internal=True)] == [standing, own]


async def test_tasks_are_found_by_a_text_of_their_key_which_is_taken_literally(front: Front) -> None:
    job = await front.create(**JOB)
    path = f"/api/v1/jobs/{job}/tasks"
    assert {each["key"] for each in await front.data(path, text="85003")} == {"85003/1", "85003/2"}
    for nothing in ("8500_", "8500%", "85\\003"):
        assert await front.data(path, text=nothing) == []


async def test_a_task_shows_where_its_time_went(front: Front) -> None:
    job = await front.create(**ONE_QUERY)
    await front.work()
    (task,) = await front.data(f"/api/v1/jobs/{job}/tasks")
    times = {name: value for name, value in task["facts"].items() if name in ("lane_ms", "fetch_ms", "parse_ms")}
    assert times, "a request was sent, so that its time is known"
    assert all(value >= 1 for value in times.values())
    lane = await front.data("/api/v1/lanes/serper")
    assert lane["per_second"] > 0
    await front.app.series.add()
    assert sum((await front.data("/api/v1/series", range="1h"))["bytes"]) > 0
