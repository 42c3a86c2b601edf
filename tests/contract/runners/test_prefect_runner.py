"""The Prefect runner without a server: its names, its retries, and its error when it cannot start."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from forager.sdk.cli.invocation import ExitCode


def test_serving_without_a_prefect_server_names_the_setting(tmp_path: Path) -> None:
    ran = _serve(tmp_path, {})
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "PREFECT_API_URL" in ran.stderr


def test_flows_and_tasks_have_the_names_of_the_specification_and_no_retries__PL_16(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    import forager.runners.prefect as runner

    flows: list[Any] = [runner.create_scraping_job, runner.process_batch, runner.process_job_batches]
    assert [flow.name for flow in flows] == ["create-scraping-job", "process-batch", "process-job-batches"]
    tasks = [getattr(runner, name) for name in runner.__all__ if getattr(runner, name) not in flows]
    assert len(tasks) == 6
    assert {each.retries for each in (*flows, *tasks)} == {0}
    assert os.environ["DO_NOT_TRACK"] == "1"


def test_a_query_that_waits_for_a_retry_has_not_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    from forager.runners.prefect.application import ended

    assert ended({"completed": 4, "failed": 2, "skipped": 1, "waiting": 8, "ready": 16}) == 7


def test_a_prefect_server_that_does_not_answer_is_named_without_a_traceback(tmp_path: Path) -> None:
    ran = _serve(tmp_path, {"PREFECT_API_URL": "http://127.0.0.1:1/api"})

    assert ran.returncode == ExitCode.UNAVAILABLE
    assert "The Prefect server at http://127.0.0.1:1/api does not answer" in ran.stderr
    assert "Traceback" not in ran.stderr


LOGGED = """
import logging
import structlog
from prefect.logging.configuration import setup_logging
from forager.logging import configure_logs
from forager.runners.prefect.application import share_log

setup_logging()
for _ in range(2):
    configure_logs("INFO", "json")
    share_log()
structlog.get_logger("forager.engine").info("our own line")
logging.getLogger("prefect.flow").info("a line of prefect")
"""


def test_in_a_flow_run_our_lines_and_those_of_prefect_are_written_once_each(tmp_path: Path) -> None:
    environment = {**os.environ, "PREFECT_HOME": str(tmp_path), "DO_NOT_TRACK": "1"}
    ran = subprocess.run(
        [sys.executable, "-c", LOGGED], env=environment, capture_output=True, text=True, timeout=120, check=True
    )
    assert ran.stderr.count("our own line") == 1
    assert ran.stderr.count("a line of prefect") == 1


def _serve(folder: Path, more: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "FORAGER_"))}
    return subprocess.run(
        [sys.executable, "-m", "forager.runners.prefect"],
        env={**environment, **more, "PREFECT_HOME": str(folder)},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
