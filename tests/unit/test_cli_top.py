"""`forager top`: what the view contains, in which order, and that Ctrl-C ends the live one."""

import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

from forager.cli.top import ranked
from forager.sdk.cli.invocation import ExitCode
from tests.support.cli import Forager


def queued(forager: Forager) -> str:
    forager("schedules", "add", "bars", "--every", "6h", "-p", "keyword=bars", "-p", "state=RI", "--no-budget")
    return str(forager("schedules", "run", "bars", "--json").data["job_id"])


def test_a_view_has_jobs_lanes_and_sinks_and_reports_that_no_worker_runs(forager: Forager) -> None:
    job = queued(forager)
    forager("lanes", "pause", "serper")

    shown = forager("top", "--once").out

    assert "forager not running" in shown
    assert "no worker is running" in shown
    assert "1 open job" in shown
    assert job[:8] in shown
    assert "bars" in shown
    lane = next(line for line in shown.splitlines() if line.startswith("serper"))
    assert "paused" in lane
    assert any(line.startswith(("webhook", "search")) for line in shown.splitlines())


def test_elsewhere_than_on_a_terminal_one_view_is_printed_and_json_has_its_parts(forager: Forager) -> None:
    job = queued(forager)

    assert job[:8] in forager("top").out  # ends by itself
    data = forager("top", "--json").data

    assert set(data) == {"alone", "overview", "lanes", "sinks"}
    assert [each["id"] for each in data["overview"]["running"]] == [job]


def test_without_jobs_the_view_is_empty_and_without_a_store_it_is_an_error(forager: Forager, store: Path) -> None:
    assert "No open jobs." in forager("top").out
    assert forager("--home", "elsewhere", "top").code == ExitCode.NOT_FOUND
    assert not Path("elsewhere").exists()


def test_lanes_that_are_stopped_come_first_and_idle_ones_are_left_out() -> None:
    def lane(name: str, *, paused: bool = False, owner: str | None = None, **more: object) -> dict[str, object]:
        return {"name": name, "paused": paused, "owner": owner, "state": {}, "waiting": None, **more}

    found = ranked(
        [
            lane("a.example", owner="w"),
            lane("b.example"),
            lane("c.example", owner="w", waiting={"message": "next request in 8 s"}),
            lane("d.example", paused=True),
            lane("e.example", state={"breaker": {"state": "open"}}),
        ]
    )

    assert [each["name"] for each in found] == ["d.example", "e.example", "c.example", "a.example"]


def test_on_a_terminal_the_view_is_redrawn_until_ctrl_c(forager: Forager, store: Path) -> None:
    mine, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "30"}
    command = [sys.executable, "-m", "forager", "--home", str(store), "top", "--every", "0.2"]
    # A shell that starts the tests in the background leaves SIGINT ignored, and a child would inherit that.
    process = subprocess.Popen(
        command,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        os.close(theirs)
        seen, give_up = b"", time.monotonic() + 60
        while seen.count(b"No open jobs.") < 2 and time.monotonic() < give_up:
            if select.select([mine], [], [], 1)[0]:
                seen += os.read(mine, 65536)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == ExitCode.INTERRUPTED
    finally:
        process.kill()
        process.wait()
    os.close(mine)
    assert seen.count(b"No open jobs.") >= 2
