"""`forager demo --crash`: kills a real `forager up` with SIGKILL in the middle of a job, and audits the result.

The audit compares the ledger with the upstream's own log of requests, so the proof does not rest on the ledger alone.
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

from forager.cli.connect import over_http
from forager.cli.demo_setup import clean_environment
from forager.cli.supervise import supervised_command
from forager.core.errors import Rejected, StoreUnavailable
from forager.kit.cli import progress, render
from forager.kit.cli.demo import Audit, CrashDemo, Demo, Upstream
from forager.kit.cli.errors import ProblemFound
from forager.kit.cli.job_report import seconds_of
from forager.kit.cli.running import run_loop
from forager.ledger.sqlite.lock import read_owner
from forager.secrets.service_key import read_service_key

if TYPE_CHECKING:
    from rich.console import Console

KILL_AT = 0.4
START_SECONDS = 30.0
LOOK_EVERY = 0.05


def run_crash_demo(demo: Demo, home: Path, upstream: Upstream, *, as_json: bool) -> None:
    """Run the demo's job, kill its worker once, and audit the result. Raises `ProblemFound` if something is wrong."""
    if demo.crash is None:
        raise Rejected("This demo has no audit, so it cannot be crashed. Run it without --crash.")
    if not as_json:
        render.notes().print(demo.intro)
    with running_up(demo, home, upstream) as up:
        job, stored, killed = run_loop(_run(demo, demo.crash, home, up, upstream, as_json=as_json))
    audit = demo.crash.audit(upstream, job, stored)
    if as_json:
        render.show_json({"job": job, "killed": killed, "audit": audit.figures(), "sentence": audit.sentence()})
    else:
        _show(job, audit, upstream)
    if audit.failures:
        raise ProblemFound(f"The audit failed: {'; '.join(audit.failures)}. The request log is {upstream.log}.")


class KillOnce:
    """A progress view that kills the worker with SIGKILL once enough of the job is done."""

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
def running_up(demo: Demo, home: Path, upstream: Upstream) -> Iterator["subprocess.Popen[bytes]"]:
    """Run `forager up` as a user would, on a free port, in the demo's folder."""
    ours = {f"FORAGER_{name.upper()}": _as_variable(value) for name, value in demo.settings(upstream).items()}
    environment = clean_environment(FORAGER_HOME=str(home), FORAGER_PORT="0", **ours)
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


def _as_variable(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


async def _run(
    demo: Demo, crash: CrashDemo, home: Path, up: "subprocess.Popen[bytes]", upstream: Upstream, *, as_json: bool
) -> tuple[Any, Any, dict[str, Any]]:
    await _until_up(home, up)
    console = None if as_json else render.notes()
    view = KillOnce(progress.choose_view(console or render.notes(), quiet=as_json, words=demo.words), home, console)
    api = over_http(lambda: _url(home), read_service_key(home) or "")
    created = await api.post(demo.path, demo.job_for(upstream))
    job = await progress.follow(api, created["job_id"], view, every=LOOK_EVERY)
    stored = await crash.stored(api, created["job_id"])
    if view.killed is None:
        raise ProblemFound("The job ended before the worker could be killed. Run the demo again.")
    return job, stored, view.killed


async def _until_up(home: Path, up: "subprocess.Popen[bytes]") -> None:
    give_up = time.monotonic() + START_SECONDS
    while _url(home) is None:
        if up.poll() is not None or time.monotonic() > give_up:
            raise StoreUnavailable(f"`forager up` did not start for the demo. Its log says why: {home / 'up.log'}")
        await asyncio.sleep(LOOK_EVERY)


def _url(home: Path) -> str | None:
    owner = read_owner(home / "lock")
    return owner.url if owner else None


def _show(job: Mapping[str, Any], audit: Audit, upstream: Upstream) -> None:
    console = render.out()
    console.print()
    took = f"{job['state']} in {render.duration(seconds_of(job))}, crash and restart included"
    console.print(render.facts([("job", took), *audit.facts(), ("audited", str(upstream.log))]))
    console.print(f"\n[bold]{audit.sentence()}[/]", style="red" if audit.failures else "green")
