"""`forager demo --crash`: a real `forager up` is killed with SIGKILL in the middle of a job, and the books are audited.

The proof does not come from the ledger alone: what was sent is counted by the sandbox, and what should have been found
is worked out again from the sandbox's world.
"""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from forager.cli import progress, render
from forager.cli.connect import over_http
from forager.cli.demo_audit import CrashAudit, audit_crash
from forager.cli.demo_run import credits_line, say_what_runs
from forager.cli.demo_setup import JOB, RATE, RETRY_DELAY, UPSTREAM_KEY, Upstream, clean_environment
from forager.cli.errors import ProblemFound
from forager.cli.running import run_loop
from forager.cli.supervise import supervised_command
from forager.core.errors import StoreUnavailable
from forager.ledger.sqlite.lock import read_owner
from forager.secrets.service_key import read_service_key

if TYPE_CHECKING:
    from rich.console import Console

    from forager.cli.client import Api

KILL_AT = 0.4
START_SECONDS = 30.0
LOOK_EVERY = 0.05


def run_crash_demo(home: Path, upstream: Upstream, *, as_json: bool) -> None:
    if not as_json:
        say_what_runs()
    with running_up(home, upstream) as up:
        job, stored, killed = run_loop(_run(home, up, as_json=as_json))
    found = audit_crash(upstream.log, job, stored)
    if as_json:
        render.show_json({"job": job, "killed": killed, "audit": found.figures(), "sentence": found.sentence()})
    else:
        _show(job, found, home)
    if not found.passed:
        raise ProblemFound(f"The audit failed: {'; '.join(found.failures)}. The request log is {upstream.log}.")


class KillOnce:
    """A view that looks on, and kills the worker with SIGKILL when enough is done."""

    def __init__(self, inner: progress.View, home: Path, console: "Console | None") -> None:
        self._inner = inner
        self._lock = home / "lock"
        self._console = console
        self.killed: dict[str, Any] | None = None

    def update(self, job: progress.Job) -> None:
        self._inner.update(job)
        if self.killed is None and progress.done(job) >= KILL_AT * job["total"] and not progress.has_stopped(job):
            owner = read_owner(self._lock)
            if owner is not None:
                os.kill(owner.pid, signal.SIGKILL)
                self.killed = {"pid": owner.pid, "at": progress.done(job), "in_flight": job["running"]}
                self._say(owner.pid, job)

    def _say(self, pid: int, job: progress.Job) -> None:
        if self._console is not None:
            self._console.print(
                f"kill -9 {pid}: {progress.done(job):,} of {job['total']:,} done, {job['running']} in flight."
                " Its supervisor starts it again.",
                style="red",
                soft_wrap=True,
            )

    def __enter__(self) -> Self:
        self._inner.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._inner.__exit__(kind, error, trace)


@contextmanager
def running_up(home: Path, upstream: Upstream) -> Iterator["subprocess.Popen[bytes]"]:
    """`forager up` as anybody would start it, on a free port, in the demo's folder."""
    environment = clean_environment(
        FORAGER_HOME=str(home),
        FORAGER_PORT="0",
        FORAGER_SERPER_BASE_URL=upstream.url,
        FORAGER_SERPER_API_KEY=UPSTREAM_KEY,
        FORAGER_EGRESS_ALLOW=upstream.address,
        FORAGER_SERPER_RATE=str(RATE),
        FORAGER_RETRY_DELAY_SECONDS=str(RETRY_DELAY),
    )
    with (
        (home / "up.log").open("wb") as log,
        subprocess.Popen(  # noqa: S603 - our own command line
            supervised_command(["up"]), env=environment, cwd=home, stdout=log, stderr=log, start_new_session=True
        ) as process,
    ):
        try:
            yield process
        finally:
            process.terminate()


async def _run(home: Path, up: "subprocess.Popen[bytes]", *, as_json: bool) -> tuple[Any, list[Any], dict[str, Any]]:
    await _until_up(home, up)
    console = None if as_json else render.notes()
    view = KillOnce(progress.choose_view(console or render.notes(), quiet=as_json), home, console)
    async with over_http(lambda: _url(home), read_service_key(home) or "") as api:
        created = await api.post("/places/jobs", JOB)
        job = await progress.follow(api, created["job_id"], view, every=LOOK_EVERY)
        stored = await _stored(api, created["job_id"])
    if view.killed is None:
        raise ProblemFound("The job ended before the worker could be killed. Run the demo again.")
    return job, stored, view.killed


async def _stored(api: "Api", job_id: str) -> list[str]:
    """The place of every sighting that the job has in the ledger."""
    return [row["place_uid"] async for page in api.pages("/records/sighting", job=job_id) for row in page]


async def _until_up(home: Path, up: "subprocess.Popen[bytes]") -> None:
    give_up = time.monotonic() + START_SECONDS
    while _url(home) is None:
        if up.poll() is not None or time.monotonic() > give_up:
            raise StoreUnavailable(f"`forager up` did not start for the demo. Its log says why: {home / 'up.log'}")
        await asyncio.sleep(LOOK_EVERY)


def _url(home: Path) -> str | None:
    owner = read_owner(home / "lock")
    return owner.url if owner else None


def _show(job: Mapping[str, Any], found: CrashAudit, home: Path) -> None:
    from forager.cli.jobs import seconds_of

    console = render.out()
    console.print()
    console.print(
        render.facts(
            [
                ("job", f"{job['state']} in {render.duration(seconds_of(job))}, crash and restart included"),
                ("places", f"{render.count(found.stored)} stored, {render.count(found.expected)} expected"),
                ("credits", credits_line(job)),
                ("upstream", f"{render.count(found.requests)} requests, {render.count(found.credits)} credits charged"),
                ("audited", str(home / "requests.jsonl")),
            ]
        )
    )
    console.print(f"\n[bold]{found.sentence()}[/]", style="green" if found.passed else "red")
