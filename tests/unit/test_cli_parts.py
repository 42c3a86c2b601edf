"""The parts under the commands: calling the API, following a job, words, stopping."""

import asyncio
import errno
import signal
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest
import typer

from forager.cli.main import report
from forager.cli.schedules import hinted, read_params, seconds
from forager.client import connect
from forager.client.connect import Receive, Scope, Send, call
from forager.core.clock import in_seconds
from forager.core.errors import (
    Conflict,
    FieldError,
    ForagerError,
    NotFound,
    Rejected,
    StoreLocked,
    StoreUnavailable,
    Transient,
)
from forager.pipelines.places.cli import saved, words
from forager.pipelines.products.cli.crawl import seconds as recrawl_seconds
from forager.sdk.cli import invocation, progress, render
from forager.sdk.cli.client import Api, ApiAnswer, ApiUnreachable, JobNotDone, KeyRefused, ServerFault
from forager.sdk.cli.invocation import ExitCode, exit_code_for
from forager.sdk.cli.render import spent_with_assumed
from forager.sdk.cli.run_job import ended, show_result

# ── calling the API ──


class Canned:
    """Answers in turn, and records the requests."""

    where = "a test"

    def __init__(self, *answers: tuple[int, Any]) -> None:
        self._answers = list(answers)
        self.asked: list[tuple[str, str]] = []

    async def __call__(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> ApiAnswer:
        self.asked.append((method, target))
        status, said = self._answers.pop(0)
        return ApiAnswer(status, {}, said if isinstance(said, bytes) else orjson.dumps(said))


def refused(status: int, **about: Any) -> tuple[int, Any]:
    return status, {"success": False, "data": None, "error": "It is so.", "meta": about}


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        (401, KeyRefused, ExitCode.KEY_REFUSED),
        (404, NotFound, ExitCode.NOT_FOUND),
        (409, Conflict, ExitCode.CONFLICT),
        (422, Rejected, ExitCode.USAGE),
        (413, Rejected, ExitCode.USAGE),
        (503, StoreUnavailable, ExitCode.UNAVAILABLE),
        (500, ServerFault, ExitCode.INTERNAL),
    ],
)
async def test_a_refusal_of_the_api_is_the_error_it_stands_for(
    status: int, kind: type[ForagerError], code: ExitCode
) -> None:
    with pytest.raises(kind) as raised:
        await Api(Canned(refused(status)), "key").get("/jobs")

    assert exit_code_for(raised.value) is code


async def test_field_errors_come_through_the_api() -> None:
    wrong = refused(422, fields=[{"field": "state", "message": "two letters"}])

    with pytest.raises(Rejected) as raised:
        await Api(Canned(wrong), "key").post("/places/plan", {})

    assert [(each.field, each.message) for each in raised.value.fields] == [("state", "two letters")]


async def test_an_answer_of_another_program_is_called_so() -> None:
    with pytest.raises(ServerFault, match="not from Forager"):
        await Api(Canned((200, b"<html>hello")), "key").get("/jobs")


async def test_pages_follow_the_cursor_to_the_last_even_over_an_empty_one() -> None:
    def page(rows: list[int], following: str | None) -> tuple[int, Any]:
        return 200, {"success": True, "data": rows, "error": None, "meta": {"next_cursor": following}}

    canned = Canned(page([1, 2], "a"), page([], "b"), page([3], None))

    rows = [row async for rows in Api(canned, "key").pages("/records/place", job=None) for row in rows]

    assert rows == [1, 2, 3]
    assert [target.partition("cursor=")[2] for _, target in canned.asked] == ["", "a", "b"]


async def test_a_request_to_an_unreachable_forager_is_repeated_and_then_reported(
    monkeypatch: pytest.MonkeyPatch, unused_tcp_port: int
) -> None:
    from forager.client.connect import over_http

    monkeypatch.setattr(connect, "PATIENCE", 0.3)
    asked = []

    def find() -> str:
        asked.append(1)
        return f"http://127.0.0.1:{unused_tcp_port}"

    with pytest.raises(ApiUnreachable, match="forager doctor") as raised:
        await over_http(find, "key").get("/jobs")

    assert len(asked) > 2
    assert exit_code_for(raised.value) is ExitCode.UNAVAILABLE


async def test_a_stream_of_the_application_is_read_to_its_end() -> None:
    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        heard = await receive()
        gone = asyncio.ensure_future(receive())
        await asyncio.sleep(0)
        assert not gone.done(), "the client seems to have left before its answer"
        await send({"type": "http.response.start", "status": 201, "headers": [(b"X-One", b"1")]})
        await send({"type": "http.response.body", "body": heard["body"], "more_body": True})
        await send({"type": "http.response.body", "body": scope["query_string"], "more_body": False})
        assert (await gone)["type"] == "http.disconnect"

    assert await call(application, "POST", "/a%20b?x=1", {}, b"hello ") == (201, {"x-one": "1"}, b"hello x=1")


def test_a_full_disk_is_named_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    code = report(OSError(errno.ENOSPC, "No space left on device", "/data/lock"), as_json=False, debug=False)

    assert code is ExitCode.UNAVAILABLE
    said = "forager: The disk is full (/data/lock). Free some space, then run the command again.\n"
    assert capsys.readouterr().err == said


def test_a_locked_store_is_not_taken_for_any_other_trouble_of_a_store() -> None:
    assert exit_code_for(StoreLocked()) is ExitCode.STORE_LOCKED
    assert exit_code_for(Transient("BigQuery cannot be reached.")) is ExitCode.UNAVAILABLE
    assert exit_code_for(ValueError()) is ExitCode.INTERNAL


# ── following a job ──


def job(**changes: Any) -> dict[str, Any]:
    counters = dict.fromkeys(
        ("queued", "running", "completed", "failed", "skipped", "cancelled", "retries", "spent", "guessed"), 0
    )
    return {"state": "running", "total": 100, "max_cost": None, "params": {"keyword": "bars"}, **counters, **changes}


def test_the_pace_is_that_of_the_last_seconds_and_gives_the_time_left() -> None:
    pace = progress.JobSpeed()
    for second in range(10):
        pace.note(job(completed=5 * second, skipped=5 * second), float(second))

    assert pace.calls == pytest.approx(5.0)
    assert pace.left(job(completed=45, skipped=45)) == pytest.approx(1.0)
    assert progress.JobSpeed().left(job()) is None


def test_the_time_left_follows_the_rate_of_the_lane() -> None:
    slow = job(total=61, lane_rate=1 / 3)
    assert progress.JobSpeed().left(slow) == pytest.approx(183.0), "before the first request has ended"
    pace = progress.JobSpeed()
    pace.note(job(), 0.0)
    burst = job(completed=10, total=110, lane_rate=2.0)
    pace.note(burst, 1.0)
    assert pace.left(burst) == pytest.approx(50.0), "a first burst is not the speed of the job"
    behind = job(completed=10, total=110, lane_rate=100.0)
    assert pace.left(behind) == pytest.approx(10.0), "an upstream that is slower than the lane decides"


def test_the_time_left_ends_with_the_budget() -> None:
    pace = progress.JobSpeed()
    pace.note(job(spent=0), 0.0)
    now = job(completed=2, spent=2, total=1_000, max_cost=5)
    pace.note(now, 2.0)
    assert pace.left(now) == pytest.approx(3.0)


def test_only_early_exit_counts_as_saved() -> None:
    assert saved(job(skipped=7)) == 7
    assert saved(job(skipped=7, failed=1)) is None
    assert saved(job(skipped=7, max_cost=10)) is None


def test_a_job_ended_by_its_budget_reports_that(capsys: pytest.CaptureFixture[str]) -> None:
    ended = job(state="completed", reason="budget", max_cost=50, completed=50, skipped=50, spent=50)
    brought = {"id": "1", "pipeline": "places", "records": 9, "discoveries": 9, "started_at": None, "finished_at": None}

    show_result({**ended, **brought}, words)

    assert "its budget of 50 credits; the remaining tasks are skipped" in capsys.readouterr().out
    assert progress.short_figures(ended, words) == ["50 credits", "50 skipped", "budget spent"]
    assert "budget spent" not in progress.short_figures(job(max_cost=50, skipped=50))
    assert "budget spent" not in progress.short_figures(job(state="paused", reason="budget", max_cost=50))


def test_credits_with_lost_answers_are_shown_separately() -> None:
    assert spent_with_assumed(job(spent=633, guessed=75)) == "633 spent (75 assumed: their answers were lost)"
    assert spent_with_assumed(job(spent=558, guessed=0)) == "558 spent"


def test_a_paused_job_has_stopped_when_nothing_of_it_is_in_flight() -> None:
    assert not progress.has_stopped(job(state="paused", running=1))
    assert progress.has_stopped(job(state="paused"))
    assert progress.has_stopped(job(state="cancelled"))


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        (None, "Job 1 is paused. Resume it: forager jobs resume 1"),
        ("lunch", "Job 1 is paused: lunch. Resume it: forager jobs resume 1"),
        ("Set SERPER_API_KEY.", "Job 1 is paused: Set SERPER_API_KEY. Resume it: forager jobs resume 1"),
    ],
)
def test_a_paused_job_shows_the_reason_and_how_to_resume_it(reason: str | None, said: str) -> None:
    with pytest.raises(JobNotDone) as raised:
        ended({"id": "1", "state": "paused", "reason": reason}, as_json=True)

    assert raised.value.message == said


async def test_a_job_is_followed_until_it_has_ended() -> None:
    seen = []

    class Noting(progress.NoView):
        def update(self, job: Mapping[str, Any]) -> None:
            seen.append(job["state"])

    states = [(200, {"success": True, "data": job(state=state)}) for state in ("queued", "running", "completed")]
    ended = await progress.follow(Api(Canned(*states), "key"), "x", Noting(), every=0)

    assert (seen, ended["state"]) == (["queued", "running", "completed"], "completed")


# ── words ──


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (None, "-"),
        (float("inf"), "-"),
        (0.04, "0.0 s"),
        (5.0, "5 s"),
        (59.94, "59.9 s"),
        (60, "1 min"),
        (3_725, "1 h 2 min"),
    ],
)
def test_durations_are_short_and_readable(given: float | None, shown: str) -> None:
    assert render.duration(given) == shown


def test_a_planned_moment_that_has_come_is_due() -> None:
    now = datetime(2026, 3, 14, 12, tzinfo=UTC)
    assert render.planned((now + timedelta(hours=5)).isoformat(), now) == "in 5 h"
    assert render.planned(now.isoformat(), now) == render.planned((now - timedelta(days=1)).isoformat(), now) == "due"
    assert render.planned(None, now) == "-"
    assert render.relative(now.isoformat(), now) == "now"
    assert render.relative((now - timedelta(minutes=20)).isoformat(), now) == "20 min ago"


def test_scraped_text_can_neither_colour_nor_move_the_terminal() -> None:
    assert render.plain("\x1b[31m[red]Bar\r\n").plain == "·[31m[red]Bar··"


@pytest.mark.parametrize(("text", "expected"), [("90s", 90), ("30m", 1_800), ("6h", 21_600), ("1.5d", 129_600)])
def test_lengths_of_time_have_units(text: str, expected: float) -> None:
    assert seconds(text) == expected
    assert recrawl_seconds(text) == expected


@pytest.mark.parametrize("text", ["6", "6.0", "6.5", " 6 ", "0.5"])
@pytest.mark.parametrize("parse", [seconds, recrawl_seconds])
def test_a_length_of_time_without_a_unit_is_refused(parse: Callable[[str], float], text: str) -> None:
    with pytest.raises(typer.BadParameter, match=f"'{text}' has no unit; write 90s, 30m, 6h or 1d"):
        parse(text)


def test_the_api_takes_a_plain_number_for_seconds() -> None:
    assert [in_seconds(value) for value in (90, 1.5, "90", "1.5m", None)] == [90, 1.5, 90, 90, None]


def test_parameters_are_json_or_else_text() -> None:
    given = ["pages=2", "state=AZ", 'zips=["02139"]', "keyword=a=b", "zip=02139"]

    assert read_params(given) == {"pages": 2, "state": "AZ", "zips": ["02139"], "keyword": "a=b", "zip": "02139"}


@pytest.mark.parametrize(
    ("given", "field", "said", "written"),
    [
        ("keyword=2024", "keyword", "must be text", """; write -p keyword='"2024"'"""),
        ("zips=85001,02139", "zips", "must be a list", """; write -p zips='["85001","02139"]'"""),
        ("zips=[85001]", "zips.0", "must be text", """; write -p zips='["85001"]'"""),
        ("pages=many", "pages", "must be a whole number", ""),
        ("state=AZ", "keyword", "must be text", ""),
        ('targets=[{"target_url":3}]', "targets.0.target_url", "must be text", ""),
    ],
)
def test_the_error_for_a_misread_parameter_shows_how_to_write_it(
    given: str, field: str, said: str, written: str
) -> None:
    told = hinted(FieldError(field, said), [given])

    assert told == FieldError(field, said + written)


# ── stopping ──


async def test_one_ctrl_c_that_arrives_twice_is_one_and_a_later_one_hurries(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("forager.sdk.cli.invocation.time.monotonic", lambda: now)
    request = invocation.StopRequest()

    request.ask(signal.SIGINT)
    request.ask(signal.SIGINT)
    assert request.is_asked
    hurried = asyncio.create_task(request.wait_for_hurry())
    await asyncio.sleep(0)
    assert not hurried.done()

    now += invocation.ECHO + 0.1
    request.ask(signal.SIGTERM)
    await asyncio.wait_for(hurried, 60)
    assert request.by is signal.SIGINT


def test_a_moment_in_a_table_is_its_distance_from_now() -> None:
    now = datetime(2026, 3, 14, 12, 0, tzinfo=UTC)
    assert render.relative("2026-03-14T11:40:00Z", now) == "20 min ago"
    assert render.relative("2026-03-14T17:00:00Z", now) == "in 5 h"
    assert render.relative(None, now) == "-"
