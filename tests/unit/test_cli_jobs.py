"""What the commands say about jobs that failed, wait or were stopped, where no Forager is running."""

from pathlib import Path

from tests.support.cli import Forager

NO_WORKER = "No worker is running: start `forager up`, or run `forager worker --until-idle`."
REFUSED = "http://127.0.0.1:9/"
"""The guard refuses an address of this machine: a task that fails at once."""


def queued(forager: Forager) -> str:
    forager("schedules", "add", "bars", "--every", "6h", "-p", "keyword=bars", "-p", "state=RI")
    return str(forager("schedules", "run", "bars", "--json").data["job_id"])


def test_retry_says_how_much_it_queued_and_that_nobody_works(forager: Forager, tmp_path: Path) -> None:
    (tmp_path / "pages").write_text(f"{REFUSED}1\n{REFUSED}2\n")
    assert forager("scrape", "batch", "pages", "--as", "job_posting").code == 1
    letter = forager("dead", "list", "--json").data[0]

    said = [forager("dead", "retry", letter["id"]), *(forager("jobs", "retry", letter["job"]) for _ in range(2))]

    again = f"1 task queued again. {NO_WORKER}\n"
    assert [each.out for each in said] == [again, again, "Nothing is queued again: this job has no failed tasks.\n"]


def test_what_waits_for_a_worker_says_so_in_one_sentence(forager: Forager) -> None:
    job = queued(forager)

    watched = forager("jobs", "watch", job)
    said = [forager("schedules", "run", "bars").out, watched.err, forager("jobs", "resume", job).out]

    assert watched.code == 1
    assert [NO_WORKER in each for each in said] == [True, True, True]
