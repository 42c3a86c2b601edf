"""Output of commands for jobs that failed, wait or were stopped, where no Forager is running."""

import contextlib
import json
import sqlite3
from pathlib import Path

from tests.support.cli import Forager

NO_WORKER = "No worker is running: start `forager up`, or run `forager worker --until-idle`."
REFUSED = "http://127.0.0.1:9/"
"""The guard refuses an address of this machine: a task that fails at once."""


def queued(forager: Forager) -> str:
    forager("schedules", "add", "bars", "--every", "6h", "-p", "keyword=bars", "-p", "state=RI", "--no-budget")
    return str(forager("schedules", "run", "bars", "--json").data["job_id"])


def test_retry_prints_the_number_of_queued_tasks_and_that_no_worker_runs(forager: Forager, tmp_path: Path) -> None:
    (tmp_path / "pages").write_text(f"{REFUSED}1\n{REFUSED}2\n")
    assert forager("scrape", "batch", "pages", "--as", "job_posting").code == 1
    letter = forager("dead", "list", "--json").data[0]

    said = [forager("dead", "retry", letter["id"]), *(forager("jobs", "retry", letter["job"]) for _ in range(2))]

    again = f"1 task queued again. {NO_WORKER}\n"
    assert [each.out for each in said] == [again, again, "Nothing to retry: this job has no failed tasks.\n"]


def test_a_job_without_a_worker_shows_the_wait_in_one_sentence(forager: Forager) -> None:
    job = queued(forager)

    watched = forager("jobs", "watch", job)
    said = [forager("schedules", "run", "bars").out, watched.err, forager("jobs", "resume", job).out]

    assert watched.code == 1
    assert [NO_WORKER in each for each in said] == [True, True, True]


def failed_batch(forager: Forager, tmp_path: Path, pages: int = 2) -> str:
    """The id of a job whose pages all failed."""
    (tmp_path / "pages").write_text("".join(f"{REFUSED}{number}\n" for number in range(pages)))
    assert forager("scrape", "batch", "pages", "--as", "job_posting").code == 1
    return str(forager("jobs", "list", "--json").data[0]["id"])


def test_a_failed_job_shows_why_its_tasks_failed(forager: Forager, tmp_path: Path) -> None:
    job = failed_batch(forager, tmp_path)

    (failure,) = forager("jobs", "show", job, "--json").data["failures"]
    assert (failure["reason"], failure["tasks"]) == ("egress_refused", 2)
    assert failure["error"].startswith(REFUSED), failure
    shown = " ".join(forager("jobs", "show", job).out.split())
    assert "failures 2 egress_refused: http://127.0.0.1:9/" in shown
    assert "failures" not in forager("jobs", "show", queued(forager)).out


def test_a_job_is_found_by_the_beginning_of_its_id(forager: Forager) -> None:
    job = queued(forager)

    assert job in forager("jobs", "show", job[:8]).out
    assert forager("jobs", "pause", job[:4].upper()).code == 0
    assert forager("jobs", "show", job[:13], "--json").data["state"] == "paused"


def test_an_id_that_nothing_or_no_id_begins_with_is_an_error(forager: Forager) -> None:
    queued(forager)

    unknown, not_an_id = forager("jobs", "show", "ffffffff-ffff"), forager("jobs", "show", "my job")

    assert (unknown.code, unknown.err.startswith("forager: No job id begins with")) == (4, True)
    assert (not_an_id.code, "is not a job id" in not_an_id.err) == (2, True)


def test_several_jobs_that_begin_alike_are_named(forager: Forager, tmp_path: Path) -> None:
    jobs = [queued(forager)]
    while len({job[0] for job in jobs}) == len(jobs):  # two ids that begin with the same digit are not far
        jobs.append(str(forager("schedules", "run", "bars", "--json").data["job_id"]))
    database = sqlite3.connect(tmp_path / ".forager" / "ledger.db")
    for number, job in enumerate(jobs):
        database.execute("UPDATE jobs SET public_id = ? WHERE public_id = ?", (f"abcd{number:04}{job[8:]}", job))
    database.commit()
    database.close()

    ran = forager("jobs", "show", "abcd")

    assert ran.code == 2
    assert "Several job ids begin with 'abcd'" in ran.err


def test_the_list_shows_pipeline_age_progress_and_why_a_job_waits(forager: Forager) -> None:
    job = queued(forager)

    shown = forager("jobs", "list").out

    assert shown.splitlines()[0].split() == ["job", "pipeline", "state", "request", "progress", "age"]
    assert job[:8] in shown
    assert job not in shown
    assert "places" in shown
    assert "no worker is running" in shown
    assert "no worker is running" in forager("jobs", "show", job).out
    assert max(map(len, shown.splitlines())) <= 80


def test_a_filter_without_matches_reports_that(forager: Forager) -> None:
    queued(forager)

    assert "No failed jobs." in forager("jobs", "list", "--state", "failed").err
    assert "No running places jobs." in forager("jobs", "list", "--state", "running", "--pipeline", "places").err
    assert "No dead letters match." in forager("dead", "list", "--reason", "timed_out").err


def test_tasks_and_logs_of_a_job_show_each_page_and_its_error(forager: Forager, tmp_path: Path) -> None:
    job = failed_batch(forager, tmp_path)

    tasks, logs = forager("jobs", "tasks", job[:8]), forager("jobs", "logs", job[:8], "--json")

    assert f"{REFUSED}0" in tasks.out.replace("\n", "")
    assert [entry["event"] for entry in logs.data] == ["created", "failed", "failed", "ended"]
    assert f"{REFUSED}1" in logs.data[2]["message"] or f"{REFUSED}1" in logs.data[1]["message"]
    assert forager("jobs", "logs", job).out.splitlines()[0].split()[:2] == ["time", "(UTC)"]
    assert "no queued tasks" in forager("jobs", "tasks", job, "--state", "queued").err


def test_dead_letters_are_listed_with_time_job_url_and_reason_and_retried_by_filter(
    forager: Forager, tmp_path: Path
) -> None:
    job = failed_batch(forager, tmp_path, pages=3)
    letters = forager("dead", "list", "--json").data
    listed, shown = forager("dead", "list"), forager("dead", "show", "1-1")

    head, columns, *_ = listed.out.splitlines()
    assert head == f"scrape: {letters[0]['reason']} / {letters[0]['error_type']} (3 dead letters)"
    assert columns.split()[:5] == ["task", "failed", "(UTC)", "job", "what"]
    assert job[:8] in listed.out
    assert listed.out.splitlines()[-1].startswith("3 dead letters, 1 reason.")
    assert max(map(len, listed.out.splitlines())) <= 80
    assert f"{REFUSED}0" in shown.out
    assert "{" not in shown.out
    assert forager("dead", "retry", "--reason", "nonsense").out == "No dead letters match: nothing is queued again.\n"
    few = forager("dead", "list", "--limit", "1").out
    assert "(3 dead letters, 1 listed)" in few
    assert forager("dead", "retry", "1-1", "--json").data == {"requeued": 1, "letters": 1, "passed_over": []}
    again = forager("dead", "retry", "--job", job[:8], "--reason", letters[0]["reason"], "--json")
    assert again.data == {"requeued": 2, "letters": 2, "passed_over": []}
    assert forager("dead", "retry").code == 2
    assert json.loads(forager("dead", "list", "--json").out) == []


def test_rejected_rows_are_written_as_a_file_with_their_number(forager: Forager, tmp_path: Path) -> None:
    job = queued(forager)
    with contextlib.closing(sqlite3.connect(tmp_path / ".forager" / "ledger.db")) as db, db:
        db.execute("UPDATE jobs SET rejected = 1")
        db.execute(
            "INSERT INTO rejected (job_id, task_id, kind, key, reason, payload, at)"
            " VALUES (1, 1, 'place', 'a', 'rating: at most 5', '{\"rating\": 7}', 0)"
        )

    assert f"1 row: forager jobs rejected {job}" in " ".join(forager("jobs", "show", job).out.split())
    row = json.loads(forager("jobs", "rejected", job).out)
    assert (row["reason"], row["payload"]) == ("rating: at most 5", {"rating": 7})
    written = forager("jobs", "rejected", job, "-f", "csv", "-o", "rows.csv", "--json").data
    assert written["rows"] == 1
    assert "rating: at most 5" in (tmp_path / "rows.csv").read_text()
