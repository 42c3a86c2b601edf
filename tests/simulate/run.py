"""Runs one plan: process after process on one store, until everything has come to its end or has not."""

import asyncio
import contextlib
import gc
import logging
import shutil
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import structlog

from forager.app.application import App
from forager.app.compose import open_app
from forager.app.config import new_settings
from forager.core.errors import Conflict, ForagerError, NotFound, Rejected, StoreError
from forager.core.schedules import Schedule
from forager.core.secret import Secret
from forager.core.sink import SinkRow
from forager.pipelines.reviews.wiring import submit_token
from forager.settings import Settings
from tests.simulate import people, verdict
from tests.simulate.loop import SimulatedLoop
from tests.simulate.machine import carry_messages, install, machine
from tests.simulate.plan import HORIZON, Act, Plan, PlannedJob, PlannedRule, PlannedWatch
from tests.simulate.upstreams import KINDS, Upstreams
from tests.simulate.world import ProcessDied, SimulatedClock, Stuck, World

LOOK_EVERY = 5.0
CALM = 8 * 3_600.0
"""Simulated seconds after the last fault in which everything must come to its end."""
MOST_LIVES = 60


@dataclass
class Result:
    """The result of one seed. Crosses processes as JSON."""

    seed: int
    digest: str = ""
    findings: list[str] = field(default_factory=list)
    simulated: float = 0.0
    cpu: float = 0.0
    """Seconds of one processor."""
    steps: int = 0
    lives: int = 0
    fired: dict[str, int] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    facts: dict[str, int] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    modules: list[str] = field(default_factory=list)
    """Our modules that were loaded."""


def run(plan: Plan, folder: Path, template: Path, break_it: Callable[[], None] | None = None) -> Result:
    """Simulate one plan in this process, which must be a fork made for it: clock and chance are replaced."""
    began = time.process_time()
    world = World(plan)
    install(world)
    gc.disable()  # what a dead process has left must not run
    listen(world)
    if break_it is not None:
        break_it()
    story = Story(world, folder, template)
    findings = story.tell()
    return Result(
        plan.seed,
        world.digest,
        findings,
        world.now,
        time.process_time() - began,
        world.steps,
        world.life,
        dict(world.fired),
        dict(world.counts),
        story.facts,
        world.lines,
    )


def listen(world: World) -> None:
    """Write the names of warnings and errors to the trace, instead of a log."""

    def keep(_: object, method: str, event: Any) -> Any:
        if method in ("warning", "error", "exception", "critical"):
            error = sys.exc_info()[1]
            world.tell("log", event.get("event"), "" if error is None else type(error).__name__)
            if event.get("event") == "loop_failed" and error is not None and not isinstance(error, ForagerError):
                world.defects.append("".join(traceback.format_exception(error))[-1500:])
        raise structlog.DropEvent

    structlog.configure(processors=[keep], wrapper_class=structlog.BoundLogger, cache_logger_on_first_use=False)
    logging.disable(logging.CRITICAL)


class Story:
    """The processes of one seed, one after another."""

    def __init__(self, world: World, folder: Path, template: Path) -> None:
        self.world = world
        self.folder = folder
        self.home = folder / "home"
        shutil.copytree(template, self.home)
        self.upstreams = Upstreams(world)
        carry_messages(world, self.upstreams)
        self.settings: Settings = new_settings(**self.upstreams.settings(self.home))
        self.clock = SimulatedClock(world)
        self.accepted: dict[int, UUID] = {}
        """Jobs whose submission was acknowledged, by number."""
        self.done: set[Act] = set()
        self.stored: set[PlannedWatch | PlannedRule] = set()
        """Watches and rules that were stored."""
        self.facts: dict[str, int] = {}
        self._findings: list[str] = []
        self._graves: list[Any] = []

    def tell(self) -> list[str]:
        world = self.world
        try:
            while not self._one_process():
                if world.life > MOST_LIVES:
                    raise Stuck(f"{MOST_LIVES} processes, and it has not ended")
                if self._findings:
                    return self._findings
        except Stuck as error:
            world.tell("STUCK", error)
            return [f"stuck: {error}"]
        except Exception as error:
            world.tell("FAILED", type(error).__name__, error)
            return [f"failed: {type(error).__name__}: {error} {traceback.format_exc()[-2500:]}"]
        return [*self._findings, *world.defects]

    def _one_process(self) -> bool:
        """Run one process. Returns True if all is done."""
        world = self.world
        world.life += 1
        world.is_dead = False
        start = world.fault("start")
        if start is not None:
            world.wall_ahead += start.seconds
        loop = SimulatedLoop(world)
        self.upstreams.attach(loop)
        self._graves.append(loop)
        world.tell("PROCESS", "calm" if world.is_calm else "")
        try:
            ended: bool = loop.run_until_complete(self._live(loop))
        except ProcessDied:
            world.tell("DIED")
            self._bury()
            return False
        except StoreError as error:  # at its start, say on a full disk: whoever runs it starts it again
            world.tell("EXITED", type(error).__name__)
            self._bury()
            return False
        world.tell("ENDED")
        return ended

    def _bury(self) -> None:
        """Copy the files as they are now, for the next process. The dead one keeps its locks and its open files, on
        files that no process uses any more."""
        world = self.world
        asyncio._set_running_loop(None)
        grave = self.folder / f"grave-{world.life}"
        self.home.rename(grave)
        shutil.copytree(grave, self.home, ignore=shutil.ignore_patterns("*.db-shm", "lock", "*-shm"))
        self._findings += [f"after death {world.life}: {line}" for line in verdict.tables_agree(self)]
        world.now += world.stream("downtime").choice((0.5, 3.0, 20.0, 90.0))

    # ── one process ──

    async def _live(self, loop: SimulatedLoop) -> bool:
        world = self.world
        stop = asyncio.Event()
        loop.stop_asked = stop.set
        async with open_app(
            self.settings, clock=self.clock, machine=machine(world, self.upstreams), must_fit=True
        ) as app:
            await self._add_sinks(app)
            if world.is_calm:
                await self._pause_schedules(app)
            async with app.engine() as working:
                if world.is_calm:
                    return await self._come_to_an_end(app, working)
                await self._act(app, stop, working)
        if world.now >= HORIZON:
            world.is_calm = True
        return False

    async def _add_sinks(self, app: App) -> None:
        rows = {
            "hook": SinkRow("hook", "webhook", KINDS, options={"url": self.upstreams.hook.url("/hook")}),
            "lake": SinkRow("lake", "files", options={"every_seconds": 1}),
        }
        for name in self.world.plan.sinks:
            if app.roster.row(name) is None:
                with contextlib.suppress(Conflict):
                    await app.roster.add(rows[name])

    async def _act(self, app: App, stop: asyncio.Event, working: asyncio.Task[None]) -> None:
        """Submit jobs and do what people do, each at its time, until a SIGTERM or the end of the faults."""
        world = self.world
        while not stop.is_set() and world.now < HORIZON:
            if working.done():
                working.result()
            for job in world.plan.jobs:
                if job.at <= world.now and job.number not in self.accepted:
                    await self._submit(app, job)
            await self._add_watches_and_rules(app)
            for act in world.plan.acts:
                if act.at <= world.now and act not in self.done:
                    self.done.add(act)
                    with contextlib.suppress(Conflict, NotFound, Rejected, StoreError):
                        await self._do(app, act)
            await self.clock.sleep(LOOK_EVERY)

    async def _add_watches_and_rules(self, app: App) -> None:
        world = self.world
        every: list[PlannedWatch | PlannedRule] = [*world.plan.watches, *world.plan.rules]
        for each in every:
            if each.at > world.now or each in self.stored:
                continue
            try:
                await people.add_channel(app, world.plan, self.upstreams)
                if isinstance(each, PlannedWatch):
                    await people.add_watch(app, each, self.upstreams)
                else:
                    await people.add_rule_about(app, each)
            except StoreError as error:
                world.tell("add", each.name, type(error).__name__)
                return
            self.stored.add(each)
            world.tell("added", each.name)

    async def _submit(self, app: App, job: PlannedJob) -> None:
        """As a client does that repeats its request until it has an answer."""
        params, token = self.upstreams.params(job)
        key = f"sim-{job.number}"
        try:
            if token:
                made = await submit_token(app, Secret(token), key=key)
            else:
                made = await app.submit(job.pipeline, params, key=key)
        except StoreError as error:
            self.world.tell("submit", job.number, type(error).__name__)
            return
        self.accepted[job.number] = made.job
        self.world.tell("submitted", job.number, job.pipeline, made.total)

    async def _do(self, app: App, act: Act) -> None:
        world = self.world
        world.tell("act", act)
        if act.verb == "schedule":
            schedule = Schedule(
                f"every-{act.which}", "places", {"keyword": "cafes", "zips": ["85001"], "pages": 1}, every=180
            )
            await app.put_schedule(schedule, no_budget=True)
            return
        if act.verb == "pause-lane":
            lanes = await app.database.fetch("SELECT name FROM lanes ORDER BY id")
            if lanes:
                await app.ledger.pause_lane(lanes[act.which % len(lanes)]["name"], paused=True)
            return
        if act.verb in ("check-watch", "pause-watch"):
            if world.plan.watches:
                watch = world.plan.watches[act.which % len(world.plan.watches)]
                if act.verb == "pause-watch":
                    await people.pause_watch(app, watch)
                elif watch in self.stored:
                    await people.check_watch(app, watch)
            return
        numbers = sorted(self.accepted)
        if not numbers:
            return
        number = numbers[act.which % len(numbers)]
        job = self.accepted[number]
        match act.verb:
            case "pause":
                await app.ledger.pause(job)
            case "cancel":
                await app.ledger.cancel(job)
            case "retry":
                await app.retry(job)
            case _:
                params, token = self.upstreams.params(next(each for each in world.plan.jobs if each.number == number))
                if not token:
                    made = await app.submit(
                        next(each for each in world.plan.jobs if each.number == number).pipeline,
                        params,
                        key=f"sim-{number}",
                    )
                    if made.job != job:
                        self._findings.append(f"job {number} was submitted again and is another one")

    # ── the end ──

    async def _pause_schedules(self, app: App) -> None:
        """Schedules make work without end. Watches go on."""
        for row in await app.database.fetch("SELECT name FROM schedules ORDER BY name"):
            await app.schedules.pause(str(row["name"]), paused=True)

    async def _come_to_an_end(self, app: App, working: asyncio.Task[None]) -> bool:
        """Lift every pause, and wait until nothing is left to do."""
        world, until = self.world, self.world.now + CALM
        for row in await app.database.fetch("SELECT name FROM lanes WHERE paused ORDER BY id"):
            await app.ledger.pause_lane(row["name"], paused=False)
        for row in await app.database.fetch("SELECT public_id FROM jobs WHERE state = 'paused' ORDER BY id"):
            with contextlib.suppress(ForagerError):
                await app.ledger.resume(UUID(str(row["public_id"])))
        for job in world.plan.jobs:
            if job.number not in self.accepted:
                await self._submit(app, job)
        await self._add_watches_and_rules(app)
        paused = {row["name"] for row in await app.database.fetch("SELECT name FROM page_watches WHERE paused")}
        for watch in world.plan.watches:
            if watch.name in paused:
                await people.resume_watch(app, watch)
        while not await self._is_done(app):
            if working.done():
                working.result()
            if world.now > until:
                left = await app.database.fetch(
                    "SELECT kind, key, state, error FROM tasks WHERE state IN (0,1,2,3,8) ORDER BY id"
                )
                jobs = await app.database.fetch(
                    "SELECT id, pipeline, state, reason FROM jobs WHERE finished_at IS NULL"
                )
                self._findings.append(f"not finished {CALM:g} s after the last fault: {left[:5]} {jobs[:5]}")
                return True
            await self.clock.sleep(LOOK_EVERY)
        self._findings += await verdict.at_the_end(self, app)
        return True

    async def _is_done(self, app: App) -> bool:
        if await app.ledger.has_work():
            return False
        for name in app.roster.names:
            at = await app.sinks.position(name)
            if at.cursor < at.last:
                return False
        if verdict.unseen(self):
            return False
        return not await app.ledger.has_work()
