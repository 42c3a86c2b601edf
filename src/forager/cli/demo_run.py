"""The plain demo: a job on an embedded store of its own, in this process."""

import asyncio
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import orjson

import forager.api  # noqa: F401 - imported while the upstream starts, since it takes as long
from forager.app.config import new_settings
from forager.cli.supervise import supervised_command
from forager.client.connect import in_process, over_http
from forager.core.errors import Conflict, Rejected, StoreLocked, StoreUnavailable
from forager.ledger.sqlite.lock import read_owner
from forager.sdk.cli import progress, render
from forager.sdk.cli.client import ProblemFound
from forager.sdk.cli.demo import CrashDemo, Demo, DemoAudit, DemoUpstream
from forager.sdk.cli.invocation import Reached, run_loop
from forager.sdk.cli.run_job import seconds_of, work_on
from forager.secrets.service_key import read_service_key

if TYPE_CHECKING:
    from rich.console import Console


def run_demo(demo: Demo, home: Path, upstream: DemoUpstream, *, as_json: bool) -> None:
    """Run the demo's job and print what it found, or with `as_json` all of it as data."""
    began = time.monotonic()
    if not as_json:
        render.notes().print(demo.intro)
    job, results = run_loop(_run_demo(demo, home, upstream, as_json=as_json))
    seconds = time.monotonic() - began
    data = home / "ledger.db"
    if as_json:
        render.show_json({"job": job, demo.name: results, "data": str(data), "seconds": round(seconds, 2)})
        return
    demo.show(job, results)
    console = render.out()
    console.print(render.facts([("data", render.near(data))]))
    render.show_next(demo.next_steps(home))


async def _run_demo(demo: Demo, home: Path, upstream: DemoUpstream, *, as_json: bool) -> tuple[Mapping[str, Any], Any]:
    settings = new_settings(home=home, **demo.settings(upstream))
    if demo.again is not None:
        async with in_process(settings) as at:
            await _run_job(demo, at, upstream, as_json=as_json)
        await demo.again(upstream)
    async with in_process(settings) as at:
        job = await _run_job(demo, at, upstream, as_json=as_json)
        return job, await demo.found(at.api, job["id"])


async def _run_job(demo: Demo, at: Reached, upstream: DemoUpstream, *, as_json: bool) -> Mapping[str, Any]:
    assert at.engine is not None  # noqa: S101 - in_process opened it
    created = await at.api.post(demo.path, demo.job_for(upstream))
    view = progress.choose_view(render.notes(), quiet=as_json, words=demo.words)
    follow = demo.follow if not as_json and render.out().is_terminal else None
    return await work_on(at.api, at.engine, created["job_id"], view, demo.words, follow=follow)


# Prepares a demo: an empty data folder, and the simulated upstream in its own process.


_MARK = ".made-by-forager-demo"


def fresh_folder(home: Path) -> Path:
    """Return an empty data folder. Files of an earlier demo are removed; a folder that is not from a demo is not
    touched."""
    from forager.ledger.sqlite.lock import make_private, read_owner

    if home.exists():
        if not (home / _MARK).exists() and any(home.iterdir()):
            raise Conflict(f"{home} is not from a demo, so it is left alone. Move it away, or use another --home.")
        if (owner := read_owner(home / "lock")) is not None:
            raise StoreLocked(f"A demo is running in {home} already (process {owner.pid}). Wait for it, or end it.")
        shutil.rmtree(home)
    try:
        make_private(home)
        (home / _MARK).touch(mode=0o600)
    except OSError as error:
        raise Rejected(
            f"The demo cannot make its folder {home} ({error.strerror}). Name another data folder with --home."
        ) from error
    return home


@contextmanager
def upstream_process(demo: Demo, home: Path) -> Iterator[Callable[[], DemoUpstream]]:
    """Serve the demo's upstream in a process that ends with this one. Yields a function that waits until it answers."""
    log = home / "requests.jsonl"
    command = demo.upstream(log)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=clean_environment()) as process:  # noqa: S603 - the demo's own command line
        try:
            yield lambda: _ready(process, log)
        finally:
            process.terminate()


def clean_environment(**ours: str) -> dict[str, str]:
    """Return the environment without the user's Forager settings, so that a demo runs with the defaults."""
    kept = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "VIRTUAL_ENV", "SYSTEMROOT")
    python = {name: value for name, value in os.environ.items() if name.startswith("PYTHON")}
    return {**python, **{name: os.environ[name] for name in kept if name in os.environ}, **ours}


def _ready(process: "subprocess.Popen[bytes]", log: Path) -> DemoUpstream:
    """Wait for the line with which the upstream announces where it listens."""
    assert process.stdout is not None  # noqa: S101 - requested above
    line = process.stdout.readline()
    if not line:
        raise StoreUnavailable("The sandbox did not start. Try it alone to see why: forager sandbox")
    announced = orjson.loads(line)
    return DemoUpstream(str(announced.get("url", "")), log, announced)


# `forager demo --crash`: kills a real `forager up` with SIGKILL in the middle of a job, and audits the result.
#
# The audit compares the ledger with the upstream's own log of requests, so the proof does not rest on the ledger alone.


KILL_AT = 0.4
START_SECONDS = 300.0
"""Seconds for which the demo waits for Forager's first start."""
RESTART_SECONDS = 180.0
"""Seconds for which the demo waits for Forager after the kill: a small or busy machine imports slowly."""
LOOK_EVERY = 0.05


def run_crash_demo(demo: Demo, home: Path, upstream: DemoUpstream, *, as_json: bool) -> None:
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


def kill_worker(lock: Path) -> int | None:
    """Kill the owner of a store with SIGKILL. Returns its process id; None if the store has no living owner now, as
    while a supervisor restarts it."""
    owner = read_owner(lock)
    if owner is None:
        return None
    try:
        os.kill(owner.pid, signal.SIGKILL)
    except ProcessLookupError:
        return None
    return owner.pid


class KillOnce:
    """A progress view that kills the worker with SIGKILL once enough of the job is done."""

    def __init__(self, inner: progress.ProgressView, home: Path, console: "Console | None") -> None:
        self._inner = inner
        self._lock = home / "lock"
        self._console = console
        self.killed: dict[str, Any] | None = None

    def update(self, job: progress.Job) -> None:
        self._inner.update(job)
        if self.killed is None and progress.done(job) >= KILL_AT * job["total"] and not progress.has_stopped(job):
            pid = kill_worker(self._lock)
            if pid is not None:
                self.killed = {"pid": pid, "at": progress.done(job), "in_flight": job["running"]}
                self._say(pid, job)

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
def running_up(demo: Demo, home: Path, upstream: DemoUpstream) -> Iterator["subprocess.Popen[bytes]"]:
    """Run `forager up` as a user would, on a free port, in the demo's folder."""
    ours = {f"FORAGER_{name.upper()}": variable(value) for name, value in demo.settings(upstream).items()}
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


def variable(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


async def _run(
    demo: Demo, crash: CrashDemo, home: Path, up: "subprocess.Popen[bytes]", upstream: DemoUpstream, *, as_json: bool
) -> tuple[Any, Any, dict[str, Any]]:
    await until_up(home, up)
    console = None if as_json else render.notes()
    view = KillOnce(progress.choose_view(console or render.notes(), quiet=as_json, words=demo.words), home, console)
    api = over_http(lambda: url_of(home), read_service_key(home) or "", RESTART_SECONDS)
    created = await api.post(demo.path, demo.job_for(upstream))
    job = await progress.follow(api, created["job_id"], view, every=LOOK_EVERY)
    stored = await crash.stored(api, created["job_id"])
    if view.killed is None:
        raise ProblemFound("The job ended before the worker could be killed. Run the demo again.")
    return job, stored, view.killed


async def until_up(home: Path, up: "subprocess.Popen[bytes]") -> None:
    give_up = time.monotonic() + START_SECONDS
    while url_of(home) is None:
        if up.poll() is not None or time.monotonic() > give_up:
            raise StoreUnavailable(f"`forager up` did not start for the demo. See its log: {home / 'up.log'}")
        await asyncio.sleep(LOOK_EVERY)


def url_of(home: Path) -> str | None:
    owner = read_owner(home / "lock")
    return owner.url if owner else None


def _show(job: Mapping[str, Any], audit: DemoAudit, upstream: DemoUpstream) -> None:
    console = render.out()
    console.print()
    took = f"{job['state']} in {render.duration(seconds_of(job))}, crash and restart included"
    console.print(render.facts([("job", took), *audit.facts(), ("audited", str(upstream.log))]))
    console.print(f"\n[bold]{audit.sentence()}[/]", style="red" if audit.failures else "green")
