"""Ends of a command, and what the client returns: a file that cannot be written, a budget for nothing, a page."""

from pathlib import Path

import pytest

from forager.client.groups import PageResult
from forager.sdk.cli.client import JobNotDone
from forager.sdk.cli.run_job import check_done
from tests.support.cli import Forager


def test_a_file_that_cannot_be_written_is_refused_before_the_search(forager: Forager, tmp_path: Path) -> None:
    ran = forager("web", "oak", "--read", "1", "--output", str(tmp_path / "missing" / "oak.md"))
    assert ran.code == 2
    assert "--output: cannot be written: No such file or directory" in ran.err
    assert not (tmp_path / ".forager").exists()


def test_a_job_whose_budget_pays_for_nothing_says_so_and_counts_no_failures() -> None:
    job = {"id": "5f0c", "state": "failed", "reason": "budget", "failed": 0}
    with pytest.raises(JobNotDone, match="has completed nothing: its budget does not pay for its first request"):
        check_done(job)
    with pytest.raises(JobNotDone, match=r"2 tasks of job 5f0c failed\. See why: forager dead list"):
        check_done({**job, "reason": None, "failed": 2})


def test_a_page_of_the_client_is_a_mapping_of_its_fields() -> None:
    page = PageResult("https://a.example/", "page", {"title": "Oak", "price": 12}, "t", "j")
    assert dict(page) == {"title": "Oak", "price": 12}
    assert list(page) == ["title", "price"]
    assert page["title"] == "Oak"
