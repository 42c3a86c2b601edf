"""The `forager` command as people run it: real processes, the real store, the sandbox as upstream."""

import contextlib
import io
import json
import os
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import httpx
import psutil
import pytest

from forager.cli.main import run
from forager.ledger.sqlite.lock import LockOwner, read_owner
from forager.sdk.cli.invocation import ExitCode
from tests.support.cli import Ran
from tests.support.forked_command import Command, start_command

pytestmark = pytest.mark.acceptance

FORAGER = [sys.executable, "-m", "forager"]
PATIENCE = 120.0


class Machine:
    """A fresh machine: an empty folder, a clean environment, and an upstream that costs nothing."""

    def __init__(self, folder: Path, bytecode: Path) -> None:
        self.folder = folder
        self.home = folder / ".forager"
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("FORAGER_", "SERPER_"))}
        self.environment = {**kept, "COLUMNS": "80", "FORAGER_PORT": "0", "FORAGER_RETRY_DELAY_SECONDS": "0.1"}
        if self.environment.pop("PYTHONDONTWRITEBYTECODE", None):
            # Two dozen processes start here: each would compile everything again.
            self.environment["PYTHONPYCACHEPREFIX"] = str(bytecode)

    def run(self, *arguments: str) -> Ran:
        """A command to its end, in a process that need not load everything again."""
        out, err = self.folder / "run.out", self.folder / "run.err"
        code = self._start(arguments, out, err).wait(PATIENCE)
        return Ran(code, out.read_text(), err.read_text())

    def _start(self, arguments: Sequence[str], out: Path, err: Path) -> Command:
        return start_command(arguments, environment=self.environment, folder=self.folder, out=out, err=err)

    def run_anew(self, *arguments: str, patience: float = PATIENCE) -> "subprocess.CompletedProcess[str]":
        """A command to its end, started as a shell does it."""
        return subprocess.run(
            [*FORAGER, *arguments],
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=patience,
            check=False,
        )

    def data(self, *arguments: str) -> Any:
        """Return the JSON that a command prints. It runs in this process, which has imported everything already."""
        out, err = io.StringIO(), io.StringIO()
        with (
            mock.patch.dict(os.environ, self.environment, clear=True),
            contextlib.chdir(self.folder),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            code = run([*arguments, "--json"])
        assert code == 0, err.getvalue()
        return json.loads(out.getvalue())

    @contextlib.contextmanager
    def forked(self, *arguments: str) -> Iterator[Command]:
        """A command that stays, ended with the block, in a process that need not load everything again."""
        process = self._start(arguments, self.folder / "out", self.folder / "err")
        try:
            yield process
        finally:
            process.terminate()
            process.wait(PATIENCE)

    @contextlib.contextmanager
    def started(self, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
        """The same, started as a shell does it. Its output goes to files, so that no pipe can fill."""
        with (
            (self.folder / "out").open("w") as out,
            (self.folder / "err").open("w") as err,
            subprocess.Popen(
                [*FORAGER, *arguments], env=self.environment, cwd=self.folder, stdout=out, stderr=err, text=True
            ) as process,
        ):
            try:
                yield process
            finally:
                process.terminate()
                process.wait(PATIENCE)

    @property
    def said(self) -> str:
        return (self.folder / "out").read_text() + (self.folder / "err").read_text()

    def owner(self) -> LockOwner | None:
        return read_owner(self.home / "lock")

    def until_up(self) -> LockOwner:
        found: LockOwner = until(lambda: (owner := self.owner()) and owner.url and owner, lambda: self.said)
        return found


def until(happened: Callable[[], Any], said: Callable[[], str] = str) -> Any:
    """The event itself is waited for; the time limit is only there to end a test that has failed."""
    give_up = time.monotonic() + PATIENCE
    while not (found := happened()):
        assert time.monotonic() < give_up, said()
        time.sleep(0.02)
    return found


@pytest.fixture
def machine(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    return Machine(tmp_path, tmp_path_factory.getbasetemp() / "bytecode")


@pytest.fixture
def upstream(machine: Machine) -> Iterator[Path]:
    """The sandbox as `forager sandbox` starts it; gives its log of requests."""
    log = machine.folder / "requests.jsonl"
    out, err = machine.folder / "sandbox.out", machine.folder / "sandbox.err"
    arguments = ("sandbox", "--json", "--latency-ms", "150", "--log-path", str(log))
    process = start_command(arguments, environment=machine.environment, folder=machine.folder, out=out, err=err)
    try:
        ready = json.loads(until(lambda: "\n" in (text := out.read_text()) and text, err.read_text))
        machine.environment |= {
            "FORAGER_SERPER_BASE_URL": ready["url"],
            "SERPER_API_KEY": ready["key"],
            "FORAGER_EGRESS_ALLOW": ready["url"].removeprefix("http://"),
        }
        yield log
    finally:
        process.terminate()
        process.wait(PATIENCE)


def test_a_sandbox_page_is_read_as_published_and_its_webhook_printed(machine: Machine) -> None:
    """Word by word what `forager sandbox` prints, as a new user would type it."""
    (machine.folder / "town").mkdir()
    with (
        (machine.folder / "town" / "out").open("w+") as out,
        subprocess.Popen([*FORAGER, "sandbox"], stdout=out, env=machine.environment, cwd=machine.folder) as process,
    ):
        try:
            said = until(lambda: (text := (machine.folder / "town" / "out").read_text()) and "Logins" in text and text)
            words = [shlex.split(line) for line in said.splitlines() if line.startswith(("  export ", "  forager "))]
            for name in (word for line in words if line[0] == "export" for word in line[1:]):
                machine.environment |= dict([name.split("=", 1)])
            pages = [line[1:] for line in words if line[:2] == ["forager", "scrape"]]
            assert len(pages) == 2
            for command in pages:
                ran = machine.run(*command)
                assert ran.code == 0, ran.err
                assert "company_name" in ran.out
            told = until(lambda: [line for line in _webhooks(machine) if "(1 total, 1 completed, 0 failed)" in line])
            assert all("completed" in line for line in told)
        finally:
            process.terminate()


def _webhooks(machine: Machine) -> list[str]:
    return [line for line in (machine.folder / "town" / "out").read_text().splitlines() if line.startswith("webhook ")]


def test_the_demo_runs_all_pipelines_survives_a_crash_and_every_hint_of_it_works(machine: Machine) -> None:
    """One home, one report, and commands that are run as they are printed; the data must not be stale when `up` opens
    it."""
    ran = machine.run_anew("demo", patience=4 * PATIENCE)

    assert ran.returncode == 0, ran.stderr
    assert "kill -9" in ran.stderr
    assert "back after" in ran.stderr
    told = " ".join(ran.stdout.split())  # lines are folded at the width of the terminal
    assert "Survived kill -9" in told
    assert "0 lost, 0 duplicate records" in told
    summary = [line.split() for line in ran.stdout.splitlines()]
    for name in ("places", "products", "listings", "scrape", "reviews"):
        assert [line for line in summary if line[:1] == [name]], name
    assert " of at most 915 credits" in ran.stdout
    home = machine.home / "demo" / "all"
    assert not (machine.home / "ledger.db").exists(), "a demo must not touch what is not its own"
    page = (home / "report.html").read_text()
    assert "<script" not in page
    assert not re.search(r"(?:src|href)=", page), "the report must load nothing"
    assert page.count("<svg") > 20
    hints = [line.strip() for line in ran.stdout.splitlines() if "--home .forager/demo/all " in line]
    *commands, dashboard = sorted((shlex.split(line)[1:] for line in hints), key=lambda words: "up" in words)
    assert len(commands) == 3
    for words in commands:
        shown = machine.run(*words)
        assert shown.code == 0, (words, shown.err)
        assert len(shown.out.splitlines()) > 1 or (machine.folder / words[-1]).exists(), words
    assert dashboard[-2:] == ["up", "--open"]
    machine.environment["BROWSER"] = "true"  # stands for a browser: it is started with the link and ends
    with machine.started(*dashboard):
        owner = until(lambda: (found := read_owner(home / "lock")) and found.url and found)
        key = {"X-Service-Key": (home / "service.key").read_text().strip()}
        seen = httpx.get(f"{owner.url}/api/v1/overview", headers=key, timeout=PATIENCE).json()["data"]
        assert seen["health"]["status"] == "ok", seen["health"]
        assert seen["attention"] == []
        assert len(seen["changed"]) > 0
        listings = httpx.get(f"{owner.url}/api/v1/listings", headers=key, timeout=PATIENCE).json()["data"]
        assert min(each["freshness_confidence"] for each in listings) >= 80


@pytest.mark.parametrize(
    "name",
    [
        "products",
        *(pytest.param(each, marks=pytest.mark.chaos) for each in ("listings", "places", "reviews", "scrape")),
    ],
)
def test_the_hints_of_the_demo_of_one_pipeline_work(machine: Machine, name: str) -> None:
    ran = machine.run("demo", name)
    assert ran.code == 0, ran.err
    lines = [line.strip() for line in ran.out.partition("\nNext\n")[2].splitlines() if line.startswith("  ")]
    hints = [shlex.split(line) for line in lines if f"--home .forager/demo/{name} " in line]
    assert hints, f"the demo of {name} names no command for what it stored"
    for _, *words in hints:
        shown = machine.run(*words)
        assert shown.code == 0, (name, words, shown.err)
        assert len(shown.out.splitlines()) > 1, (name, words)


def test_the_crash_demo_loses_nothing_and_counts_what_was_sent_again__R2(machine: Machine) -> None:
    ran = machine.run_anew("demo", "--crash", "--json")

    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    audit = told["audit"]
    assert (audit["passed"], audit["lost"], audit["duplicates"]) == (True, 0, 0)
    assert 0 < audit["resent"] == audit["resent_credits"] <= told["killed"]["in_flight"] + 100
    assert told["sentence"].startswith("0 lost, 0 duplicate records; ")


def test_run_does_the_work_itself_and_reports_it(machine: Machine, upstream: Path) -> None:
    ran = machine.run("places", "run", "-k", "bars", "-s", "DE", "--pages", "2")

    assert ran.code == 0, ran.err
    assert "completed" in ran.out
    assert "credits" in ran.err
    job = machine.data("jobs", "list")[0]
    assert job["spent"] == sum(json.loads(line)["credits"] for line in upstream.read_text().splitlines())


def test_loops_of_a_pipeline_without_work_run_in_a_service_only(machine: Machine, upstream: Path) -> None:
    """A loop of products writes the audit of the week. A command that runs one places job must not use it up."""
    ran = machine.run("places", "run", "-k", "bars", "-z", "19801", "-z", "19802")

    assert ran.code == 0, ran.err
    assert _audits(machine) == 0
    with machine.forked("up") as process:
        until(lambda: _audits(machine), lambda: machine.said)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0


def _audits(machine: Machine) -> int:
    with contextlib.closing(sqlite3.connect(f"file:{machine.home / 'ledger.db'}?mode=ro", uri=True)) as store:
        (number,) = store.execute("SELECT count(*) FROM audits WHERE finished_at IS NOT NULL").fetchone()
    return int(number)


def test_ctrl_c_drains_and_the_job_continues_later_without_paying_twice__R7(machine: Machine, upstream: Path) -> None:
    with machine.forked("places", "run", "-k", "bars", "-s", "DE", "--concurrency", "5") as process:
        until(lambda: upstream.exists() and len(upstream.read_text().splitlines()) > 10, lambda: machine.said)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
    assert "forager worker --until-idle" in machine.said

    went_on = machine.run("worker", "--until-idle")

    assert went_on.code == 0, went_on.err
    job = machine.data("jobs", "list")[0]
    sent = [json.loads(line) for line in upstream.read_text().splitlines()]
    assert job["state"] == "completed"
    assert len({(entry["zip"], entry["page"]) for entry in sent}) == len(sent) == job["spent"]


def test_commands_during_up_use_its_api_and_others_get_the_owner_of_the_store(machine: Machine, upstream: Path) -> None:
    with machine.started("up") as process:
        owner = machine.until_up()
        followed = machine.data("places", "run", "-k", "bars", "-z", "19801", "-z", "19802", "--watch")
        assert followed["state"] == "completed"
        assert [job["id"] for job in machine.data("jobs", "list")] == [followed["id"]]
        assert machine.owner() == owner

        link = re.search(r"works once, for 5 minutes\): (http\S+/dashboard/enter\?code=\S+)", machine.said)
        assert link is not None, "the link to the dashboard is printed"
        entered = [httpx.get(link[1], follow_redirects=False) for _ in range(2)]
        assert [(answer.status_code, "set-cookie" in answer.headers) for answer in entered] == [
            (303, True),
            (303, False),
        ]

        for command in ("worker", "up"):
            refused = machine.run(command)
            assert refused.code == 3
            assert f"process {owner.pid}" in refused.err

        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    assert not psutil.pid_exists(owner.pid)


def test_sigterm_drains_and_the_next_start_continues_without_paying_twice__R7(machine: Machine, upstream: Path) -> None:
    with machine.started("up") as process:
        machine.until_up()
        key = (machine.home / "service.key").read_text().strip()
        assert machine.said.count(key) == 1
        machine.data("places", "run", "-k", "bars", "-s", "DE", "--concurrency", "10")
        until(lambda: upstream.exists() and len(upstream.read_text().splitlines()) > 10, lambda: machine.said)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0

    job, sent = machine.data("jobs", "list")[0], len(upstream.read_text().splitlines())
    assert (job["state"], job["running"], job["retries"]) == ("running", 0, 0)
    assert job["completed"] == sent == job["spent"]

    with machine.started("up"):
        machine.until_up()
        assert key not in machine.said, "the key is shown on the first start only"
        ended = machine.data("jobs", "watch", job["id"])
    assert ended["state"] == "completed"
    assert ended["spent"] == len(upstream.read_text().splitlines())


def test_a_killed_up_is_started_again_and_its_job_ends__R4(machine: Machine, upstream: Path) -> None:
    with machine.started("up"):
        first = machine.until_up()
        job = machine.data("places", "run", "-k", "bars", "-s", "DE")["job_id"]
        until(lambda: upstream.exists() and len(upstream.read_text().splitlines()) > 10, lambda: machine.said)
        os.kill(first.pid, signal.SIGKILL)

        ended = machine.data("jobs", "watch", job)

        assert (ended["state"], ended["completed"] + ended["skipped"]) == ("completed", ended["total"])
        assert machine.until_up().pid != first.pid


@pytest.mark.parametrize("command", ["scrape", "crawl"])
def test_a_wait_shows_its_reason_and_ctrl_c_shows_how_to_resume_or_cancel(machine: Machine, command: str) -> None:
    machine.data("lanes", "pause", "shop.example", "--new")
    with machine.forked(command, "https://shop.example/page") as process:
        until(lambda: "waiting: shop.example is paused by an operator" in machine.said, lambda: machine.said)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == ExitCode.INTERRUPTED, machine.said

    (job,) = machine.data("jobs", "list")
    assert f"Resume job {job['id']}: forager worker --until-idle" in machine.said
    assert f"Cancel it: forager jobs cancel {job['id']}" in machine.said


def test_a_worker_until_idle_ends_when_nothing_can_run_and_lists_what_is_left(machine: Machine) -> None:
    machine.data("schedules", "add", "bars", "--every", "6h", "-p", "keyword=bars", "-p", "state=RI", "--no-budget")
    job = machine.data("schedules", "run", "bars")["job_id"]
    machine.data("lanes", "pause", "serper")

    ran = machine.run("worker", "--until-idle")

    assert ran.code == 0, ran.err
    assert "1 job left that cannot run now:" in ran.err
    assert job[:8] in ran.out
    assert "serper is paused by an operator" in " ".join(ran.out.split())
