"""`forager demo`: all pipelines at once, in one data folder, against simulated upstreams.

A real `forager up` does the work in a process of its own; this process creates the jobs and follows them through the
API, as any client would. In the middle the worker is killed with SIGKILL, and its supervisor starts it again. At the
end there is a summary, a report (`report.html`), and commands that work on the data.
"""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from forager.cli.demo_run import KILL_AT, RESTART_SECONDS, clean_environment, kill_worker, until_up, url_of, variable
from forager.cli.demo_view import DemoView, PipelineRow
from forager.cli.supervise import supervised_command
from forager.client.connect import over_http
from forager.core.errors import StoreUnavailable
from forager.sdk.cli import progress, render
from forager.sdk.cli import report_html as html
from forager.sdk.cli.client import Api, ProblemFound
from forager.sdk.cli.demo import DemoUpstream
from forager.sdk.cli.invocation import run_loop, stop_on_signals
from forager.sdk.cli.showcase import DemoWorld, Found, Showcase
from forager.secrets.service_key import read_service_key

LOOK_EVERY = 0.25
REPORT = "report.html"
CHANGES_SHOWN = 10
STUCK_AFTER = 180.0
"""Seconds without progress after which the demo ends with an error."""
FOLLOW_UP_PATIENCE = 60.0
"""Maximum seconds that the demo waits for the jobs that its own have caused."""
STAY_PAUSE = 3.0
"""Seconds between two further rounds of jobs while the demo stays."""
KIND_OF_CHANGE = ("product", "listing")
MONEY = ("price", "rent_min", "rent_max")


@dataclass
class Course:
    """Events of the demo, for its summary and its report."""

    began: float = field(default_factory=time.monotonic)
    killed: dict[str, Any] | None = None
    back_after: float | None = None
    """Seconds from the kill to the first answer of the restarted worker."""
    pace: list[tuple[float, float]] = field(default_factory=list)
    """(seconds since the start, tasks that have ended)."""


@dataclass(frozen=True)
class DemoResult:
    """Everything that the end of the demo shows."""

    found: Mapping[str, Found]
    changes: Sequence[Mapping[str, Any]]
    audits: Sequence[str]
    """Sentences of the audits after the crash."""
    failures: Sequence[str]
    course: Course
    jobs: int
    tasks: int
    seconds: float


def run_all(parts: Sequence[Showcase], home: Path, *, as_json: bool, stay: bool) -> None:
    """Run the demo. Raises `ProblemFound` if the audit finds something lost or stored twice."""
    console = None if as_json else render.notes()
    if console is not None:
        console.print(
            f"[bold]{len(parts)} pipelines at once[/], against simulated upstreams: no key, no network, no cost.\n"
            "In the middle the worker is killed with SIGKILL, on purpose.\n",
            soft_wrap=True,
        )
    with _world(parts, home) as world, _up(parts, home, world) as up:
        result = run_loop(_course(parts, home, world, up, console, stay=stay, as_json=as_json))
    if result.failures:
        raise ProblemFound(f"The audit failed: {'; '.join(result.failures)}. The request logs are in {home}.")


async def _course(
    parts: Sequence[Showcase],
    home: Path,
    world: DemoWorld,
    up: "subprocess.Popen[bytes]",
    console: Any,
    *,
    stay: bool,
    as_json: bool,
) -> DemoResult:
    await until_up(home, up)
    api = over_http(lambda: url_of(home), read_service_key(home) or "", RESTART_SECONDS)
    rows = [PipelineRow(part) for part in parts]
    course = Course()
    with DemoView(console, rows) as view:
        await asyncio.gather(*(_next_look(api, world, row) for row in rows))
        await _follow(api, world, home, rows, course, view)
        await wait_for_follow_up(api, rows)
        view.headline = "done"
    result = await _result(api, world, rows, course)
    report = home / REPORT
    report.write_text(report_page(result), encoding="utf-8")
    if as_json:
        render.show_json(as_data(result, home))
    else:
        show(result, home, stay=stay)
    if stay:
        await _stay(api, world, rows, home, console)
    return result


async def _next_look(api: Api, world: DemoWorld, row: PipelineRow) -> None:
    look = len(row.looks)
    row.ids = list(await row.part.start(api, world, look))
    row.looks.append([])


async def _follow(
    api: Api, world: DemoWorld, home: Path, rows: Sequence[PipelineRow], course: Course, view: DemoView
) -> None:
    """Poll until every pipeline has ended its last look; kill the worker once on the way. Raises `ProblemFound` if
    nothing has moved for `STUCK_AFTER` seconds."""
    moved, at = -1, time.monotonic()
    while not all(row.is_done for row in rows):
        if (done := sum(progress.done(row.total()) for row in rows)) != moved:
            moved, at = done, time.monotonic()
        elif time.monotonic() - at > STUCK_AFTER:
            names = ", ".join(f"{row.part.title} ({row.now})" for row in rows if not row.is_done)
            raise ProblemFound(f"Nothing has moved for {STUCK_AFTER:.0f} s: {names}. The log is {home / 'up.log'}.")
        polling = asyncio.create_task(_poll(api, rows))
        while not (await asyncio.wait([polling], timeout=LOOK_EVERY))[0]:
            if course.killed and course.back_after is None:
                since = time.monotonic() - course.killed["at"]
                view.headline = f"no worker for {since:.1f} s; its supervisor starts it again"
            view.update()
        await polling
        now = time.monotonic()
        if course.killed and course.back_after is None:
            course.back_after = now - course.killed["at"]
            course.pace.append((now - course.began, float(course.killed["done"])))  # nothing ended in between
            view.say(f"back after {course.back_after:.1f} s: goes on where it was", style="green")
        ended = sum(progress.done(row.total()) for row in rows)
        course.pace.append((now - course.began, float(ended)))
        view.headline = "working" if not course.killed else "working after the crash"
        for row in rows:
            if not row.is_done and row.looks[-1] and all(map(progress.has_stopped, row.looks[-1])):
                if len(row.looks) < row.part.looks:
                    await _next_look(api, world, row)
                else:
                    row.is_done = True
        if course.killed is None and _is_halfway(rows):
            course.killed = _kill(home, rows, view)
        view.update()
        await asyncio.sleep(LOOK_EVERY)


async def wait_for_follow_up(api: Api, rows: Sequence[PipelineRow]) -> None:
    """Wait until the jobs that were caused by those of the demo have ended."""
    names = [row.part.title for row in rows if row.part.follow_up]
    end = time.monotonic() + FOLLOW_UP_PATIENCE
    quiet = 0
    while names and quiet < 2 and time.monotonic() < end:  # twice: a job may begin a moment after its cause has ended
        jobs = [job for name in names for job in await api.get("/jobs", pipeline=name, limit=100)]
        quiet = quiet + 1 if all(map(progress.has_stopped, jobs)) else 0
        await asyncio.sleep(LOOK_EVERY)


async def _poll(api: Api, rows: Sequence[PipelineRow]) -> None:
    for row in rows:
        if row.is_done:
            continue
        jobs = [await api.get(f"/jobs/{job_id}") for job_id in row.ids]
        row.note(jobs, time.monotonic())
        waits = next(filter(None, map(progress.waiting, jobs)), None)
        latest = await api.get("/changes/latest", kinds=",".join(row.part.kinds), limit=1)
        row.now = waits or (_news(latest[0]) if latest else row.words.request(jobs[0]["params"]))


def _news(change: Mapping[str, Any]) -> str:
    """`Oak Tray: price 9.00 → 8.00`, or the title alone of what is new."""
    first = change["fields"][:1]
    told = "".join(
        f": {name.replace('_', ' ')} {_value(each['before'], name)} → {_value(each['after'], name)}"
        for each in first
        for name in (str(each["name"]),)
    )
    return f"{change['title']}{told}"


def _is_halfway(rows: Sequence[PipelineRow]) -> bool:
    """Return whether the audited jobs are 40 % done and every pipeline has work, so that the kill hits all of them."""
    audited = [row for row in rows if row.part.crash is not None] or list(rows)
    return all(row.total()["total"] for row in rows) and all(
        progress.done(row.total()) >= KILL_AT * max(1, row.total()["total"]) for row in audited
    )


def _kill(home: Path, rows: Sequence[PipelineRow], view: DemoView) -> dict[str, Any] | None:
    pid = kill_worker(home / "lock")
    if pid is None:
        return None
    done = sum(progress.done(row.total()) for row in rows)
    in_flight = sum(row.total()["running"] for row in rows)
    view.say(f"kill -9 {pid}: {done:,} tasks done, {in_flight:,} in flight", style="red")
    return {"pid": pid, "at": time.monotonic(), "done": done, "in_flight": in_flight}


async def _result(api: Api, world: DemoWorld, rows: Sequence[PipelineRow], course: Course) -> DemoResult:
    found = {row.part.title: await row.part.found(api, world, row.looks) for row in rows}
    moved = [change for kind in KIND_OF_CHANGE for change in await _moved(api, kind)]
    failures: list[str] = []
    audits: list[str] = []
    for row in rows:
        jobs = [job for look in row.looks for job in look]
        if open_ := [job for job in jobs if job["state"] != "completed"]:
            failures.append(f"{len(open_)} jobs of {row.part.title} did not complete ({open_[0]['state']})")
        if row.part.crash is not None and course.killed is not None:
            (job,) = row.looks[0]
            stored = await row.part.crash.stored(api, job["id"])
            log = world.log(row.part.upstream)
            audit = row.part.crash.audit(DemoUpstream(world.url(row.part.upstream), log), job, stored)
            audits.append(f"{row.part.title}: {audit.sentence()}")
            failures += audit.failures
    return DemoResult(
        found=found,
        changes=moved,
        audits=audits,
        failures=failures,
        course=course,
        jobs=sum(len(look) for row in rows for look in row.looks),
        tasks=sum(progress.done(row.total()) for row in rows),
        seconds=time.monotonic() - course.began,
    )


async def _moved(api: Api, kind: str) -> list[Mapping[str, Any]]:
    """Return the newest changes of a kind of record with money first: a new price is what people look for."""
    changes = await api.get("/changes/latest", kinds=kind, limit=100)
    moved = [change for change in changes if change["op"] == "changed" and change["fields"]]
    moved.sort(key=_interest)
    return moved[: CHANGES_SHOWN // len(KIND_OF_CHANGE)]


def _interest(change: Mapping[str, Any]) -> tuple[bool, bool]:
    """Sort an amount of money first, and a value that replaces another before one that is new or gone."""
    first = change["fields"][0]
    return first["name"] not in MONEY, None in (first["before"], first["after"])


async def _stay(api: Api, world: DemoWorld, rows: Sequence[PipelineRow], home: Path, console: Any) -> None:
    """Keep everything running, and begin new looks one after another, until Ctrl-C."""
    if console is not None:
        console.print(
            f"\nStays up, with new work all the time (Ctrl-C ends it). Dashboard: {_link(home)}", markup=False
        )
    with stop_on_signals() as stop:
        stopped = asyncio.create_task(stop.wait())
        n = 0
        while not stopped.done():
            row = rows[n % len(rows)]
            jobs = [await api.get(f"/jobs/{job_id}") for job_id in row.ids]
            if all(map(progress.has_stopped, jobs)):
                row.looks = row.looks[:1]
                await _next_look(api, world, row)
            n += 1
            await asyncio.wait([stopped], timeout=STAY_PAUSE)


def _link(home: Path) -> str:
    """Return the newest link that signs a browser in; `up` writes one to its log at each start."""
    lines = (home / "up.log").read_bytes().splitlines()
    links = [line for line in lines if line.startswith(b"{") and b'"link"' in line]
    return str(orjson.loads(links[-1])["link"]) if links else str(url_of(home))


# The processes: simulated upstreams, and `forager up`.


@contextmanager
def _world(parts: Sequence[Showcase], home: Path) -> Iterator[DemoWorld]:
    """Serve the upstreams of all pipelines in one process that ends with this one."""
    configs = {
        part.upstream: {**part.config, **({"log_path": str(home / f"{part.upstream}.jsonl")} if part.logs else {})}
        for part in parts
    }
    command = [sys.executable, "-m", "forager.sandbox", "together", "--until-stdin-closes", "--config"]
    with subprocess.Popen(  # noqa: S603 - our own command line
        [*command, orjson.dumps(configs).decode()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=clean_environment(),
        start_new_session=True,  # Ctrl-C is for this process, which ends the others in order
    ) as process:
        try:
            assert process.stdout is not None  # noqa: S101 - requested above
            line = process.stdout.readline()
            if not line:
                raise StoreUnavailable("The sandbox did not start. Try it alone to see why: forager sandbox")
            yield DemoWorld(orjson.loads(line), home)
        finally:
            process.terminate()


@contextmanager
def _up(parts: Sequence[Showcase], home: Path, world: DemoWorld) -> Iterator["subprocess.Popen[bytes]"]:
    """Run `forager up` as a user would, on a free port, with the settings of all parts."""
    merged: dict[str, Any] = {"egress_allow": ()}
    for part in parts:
        given = dict(part.settings(world))
        merged["egress_allow"] += tuple(given.pop("egress_allow", ()))
        merged |= given
    lanes = {address: rules for part in parts for address, rules in part.lanes(world).items()}
    policies = home / "policies.yaml"
    policies.write_bytes(orjson.dumps({"domains": lanes}))  # JSON is YAML
    merged["domain_policies_path"] = policies
    ours = {f"FORAGER_{name.upper()}": variable(value) for name, value in merged.items()}
    environment = clean_environment(FORAGER_HOME=str(home), FORAGER_PORT="0", **ours)
    with (
        (home / "up.log").open("wb") as log,
        subprocess.Popen(  # noqa: S603 - our own command line
            supervised_command(["up", "--json"]),
            env=environment,
            cwd=home,
            stdout=log,
            stderr=log,
            start_new_session=True,
        ) as process,
    ):
        try:
            yield process
        finally:
            process.terminate()


# The end: summary, data and report.


def show(result: DemoResult, home: Path, *, stay: bool = False) -> None:
    """Print the summary and what to try next."""
    console = render.out()
    console.print()
    for title, found in result.found.items():
        for n, (name, value) in enumerate(found.figures):
            console.print(f"[bold]{title if n == 0 else '':<9}[/] [dim]{name:<9}[/] {value}", soft_wrap=True)
    console.print("\n[bold]Changed since the first look[/]")
    rows = render.table("what", "field", "before", "now")
    for change in result.changes:
        first = change["fields"][0]
        rows.add_row(
            *map(
                render.plain,
                (
                    change["title"],
                    first["name"].replace("_", " "),
                    _value(first["before"], first["name"]),
                    _value(first["after"], first["name"]),
                ),
            )
        )
    console.print(rows)
    console.print("\n[bold]Cost, against the estimate[/]")
    console.print(render.facts((title, each.spending.line()) for title, each in result.found.items() if each.spending))
    console.print()
    console.print(f"[bold]{crash_line(result)}[/]", style="red" if result.failures else "green")
    console.print(
        render.facts(
            [
                (
                    "in all",
                    f"{result.tasks:,} tasks of {result.jobs} jobs in {render.duration(round(result.seconds, 1))}",
                ),
                ("report", render.near(home / REPORT)),
            ]
        )
    )
    if not stay:
        console.print("\n[bold]Open the dashboard on this data[/]")
        console.print(f"  {dashboard_command(home)}", markup=False, soft_wrap=True)
        render.show_next(next_steps(home))


def dashboard_command(home: Path) -> str:
    return f"{render.program()} --home {render.near(home)} up --open"


def next_steps(home: Path) -> list[tuple[str, str]]:
    """Three commands that work on the data of the demo."""
    program = f"{render.program()} --home {render.near(home)}"
    return [
        ("what changed, before and now", f"{program} changes --since 1h --kind product --field price"),
        ("apartments under $2,000", f"{program} listings search --max-rent 2000"),
        ("the places as a spreadsheet", f"{program} export place -f csv -o places.csv"),
    ]


def crash_line(result: DemoResult) -> str:
    """Return one sentence about the crash and its audit."""
    killed = result.course.killed
    if killed is None:
        return "The jobs ended before the worker could be killed: no crash this time."
    back = "" if result.course.back_after is None else f", back after {result.course.back_after:.1f} s"
    return f"Survived kill -9 with {killed['in_flight']:,} tasks in flight{back}. {'; '.join(result.audits)}."


def as_data(result: DemoResult, home: Path) -> dict[str, Any]:
    """Return the result for programs."""
    return {
        "found": {title: dict(each.data) for title, each in result.found.items()},
        "spending": {
            title: {"unit": each.spending.unit, "estimated": each.spending.estimated, "spent": each.spending.spent}
            for title, each in result.found.items()
            if each.spending
        },
        "changes": [dict(change) for change in result.changes],
        "crash": {
            "killed": result.course.killed,
            "back_after": result.course.back_after,
            "audits": list(result.audits),
        },
        "failures": list(result.failures),
        "report": str(home / REPORT),
        "dashboard": dashboard_command(home),
        "next": [command for _, command in next_steps(home)],
        "jobs": result.jobs,
        "tasks": result.tasks,
        "seconds": round(result.seconds, 2),
    }


def report_page(result: DemoResult) -> str:
    """Return the report as one HTML document that loads nothing."""
    marks = []
    if result.course.killed is not None:
        killed_at = result.course.killed["at"] - result.course.began
        marks = [(killed_at, "kill -9"), (killed_at + (result.course.back_after or 0), "back")]
    changed = [
        (
            each["kind"],
            each["title"],
            field_["name"].replace("_", " "),
            _value(field_["before"], field_["name"]),
            _value(field_["after"], field_["name"]),
        )
        for each in result.changes
        for field_ in each["fields"][:1]
    ]
    costs = [
        (title, _figure(each.spending.estimated), _figure(each.spending.spent), each.spending.unit, each.spending.note)
        for title, each in result.found.items()
        if each.spending
    ]
    return html.page(
        "Forager: the demo",
        f"{len(result.found)} pipelines at once, against simulated upstreams. Names are invented; the work was real.",
        html.tiles(
            [
                *((title, _tile(each)) for title, each in result.found.items()),
                ("tasks", f"{result.tasks:,}"),
                ("seconds", f"{result.seconds:.0f}"),
            ]
        ),
        html.section(
            "The crash in the middle",
            html.line_chart(result.course.pace, label="Tasks that have ended, over time", marks=marks),
            note=crash_line(result),
        ),
        html.section(
            "Cost, against the estimate",
            html.table(("pipeline", "estimate", "spent", "unit", "note"), costs, right=("estimate", "spent")),
        ),
        html.section("Changed since the first look", html.table(("kind", "what", "field", "before", "now"), changed)),
        *(section for each in result.found.values() for section in each.sections),
    )


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:,.2f}".rstrip("0").rstrip(".")


def _tile(found: Found) -> str:
    """Return the first figure of a pipeline."""
    value = next(iter(found.data.values()), "")
    return f"{value:,}" if isinstance(value, int) else str(value)


def _value(value: Any, name: str = "") -> str:
    """Return a value for people; an amount of money with two decimals, unless it is whole."""
    if isinstance(value, list | dict):
        return render.some(len(value), "item")
    if name in MONEY and isinstance(value, int | float | str):
        with suppress(ValueError):
            amount = float(value)
            return f"{amount:,.0f}" if amount.is_integer() and name != "price" else f"{amount:,.2f}"
    return "none" if value is None else str(value)[:60]
