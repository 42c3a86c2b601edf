"""A hypothesis state machine over the ledger (R6): actions of people, workers and crashes, in any order.

After every rule the auditor reads the raw tables. The machine itself records who holds what, so that it can predict
which settlement is accepted and which is fenced. At the end of each run every job must end.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from forager.core.errors import Conflict
from forager.core.ledger import GivenLane, Lease, NewJob, Settlement, Submitted
from forager.core.outcome import Skip
from forager.core.states import TaskState
from forager.core.task import Plan
from tests.support.auditor import Row
from tests.support.item_model import ItemModel
from tests.support.ledger_moves import LANES, dues, extras, limits, plans, records
from tests.support.rig import Rig, Worker
from tests.support.rig_pipelines import Call, DearCall, Item, SoleCall

T = TypeVar("T")

ENDS = (TaskState.COMPLETED, TaskState.FAILED, TaskState.SKIPPED, TaskState.READY, TaskState.WAITING)
ENDED = (4, 5, 6, 7)
STANDING = """
SELECT t.id, t.kind, t.key, t.state FROM {} t JOIN idempotency i ON i.job_id = t.job_id WHERE i.key = '{}'
"""


class LedgerMachine(RuleBasedStateMachine):
    def __init__(self, make: Callable[[], Awaitable[Rig]], again: Callable[[Rig], Awaitable[Rig]] | None) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.make = make
        self.again = again
        self.jobs: list[UUID] = []
        self.workers: list[Worker] = []
        self.live: dict[int, tuple[Worker, Lease]] = {}
        self.lost: list[tuple[Worker, Lease]] = []
        self.completed: dict[int, Row] = {}
        self.items = ItemModel()
        self.told = 0
        self.passed = 0.0
        """Seconds that rules let pass …"""
        self.not_before: dict[tuple[int, str, str], float] = {}
        """… and by task: when it may run at the earliest."""

    def _due(self, seconds: int | None) -> datetime | None:
        return None if seconds is None else self.run_(self._now()) + timedelta(seconds=seconds)

    async def _now(self) -> datetime:
        return await self.rig.ledger.now()

    def run_(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    @initialize()
    def open(self) -> None:
        self.rig = self.run_(self._open())

    async def _open(self) -> Rig:
        return await self.make()

    # ── people ──

    @rule(shape=plans, limits=limits)
    def submit(self, shape: list[tuple[str, int, bool, bool, int | None]], limits: dict[str, Any]) -> None:
        work: list[Plan] = []
        begun = self._seconds()
        for i, (lane, rank, dear, follows, moment) in enumerate(shape):
            kind = DearCall if dear else Call
            before = [p.task.key() for p in work if p.task.kind == kind.kind]
            after = before[-1] if follows and before else None
            work.append(Plan(kind(name=f"t{i}", where=lane), rank, after, self._due(moment)))
        self.jobs.append(self.run_(self.rig.submit(work, **limits)).job)
        number = self.rig.job(self.jobs[-1])["id"]
        for plan, (*_, moment) in zip(work, shape, strict=True):
            self.not_before[number, plan.task.kind, plan.task.key()] = begun + (moment or 0)

    @rule(shape=plans, again=st.booleans(), key=st.sampled_from((" x", " y")))
    def append(self, shape: list[tuple[str, int, bool, bool, int | None]], again: bool, key: str) -> None:
        """To a standing job; some of its tasks are of the kind of which one is open for each key."""
        work: list[Plan] = []
        for i, (_, rank, sole, follows, moment) in enumerate(shape):
            kind = SoleCall if sole else Call
            before = [p.task.key() for p in work if p.task.kind == kind.kind]
            after = before[-1] if follows and before else None
            work.append(Plan(kind(name=f"x{i}", where=LANES[i % 2]), rank, after, self._due(moment)))
        new = NewJob("rig", {"name": key}, idempotency_key=key, standing=True)
        had = self._tasks_of(key)
        with suppress(Conflict):
            added = self.run_(self._append(new, work, again))
            assert added.total == self._added(had, {(plan.task.kind, plan.task.key()) for plan in work}, again)
            self.jobs = list(dict.fromkeys([*self.jobs, added.job]))

    def _tasks_of(self, key: str) -> dict[tuple[str, str], Row]:
        """The tasks of a standing job, by kind and key."""
        rows = self.rig.tables.read(STANDING.format(self.rig.tables.tasks, key))
        return {(row["kind"], row["key"]): row for row in rows}

    def _added(self, had: Mapping[tuple[str, str], Row], names: set[tuple[str, str]], again: bool) -> int:
        """Return the number of tasks that must be new or queued again. The latter may change from now on."""
        reopened = {had[name]["id"] for name in names & had.keys() if again and had[name]["state"] in ENDED}
        self.completed = {number: row for number, row in self.completed.items() if number not in reopened}
        return len(names - had.keys()) + len(reopened)

    async def _append(self, job: NewJob, work: list[Plan], again: bool) -> Submitted:
        return await self.rig.ledger.append(job, work, again=again)

    @precondition(lambda self: self.jobs)
    @rule(verb=st.sampled_from(("pause", "resume", "resume", "cancel", "retry", "retry")), which=st.integers(0, 50))
    def tell(self, verb: str, which: int) -> None:
        with suppress(Conflict):
            self.run_(getattr(self.rig.ledger, verb)(self.jobs[which % len(self.jobs)]))

    @rule(which=st.integers(0, 50), discard=st.booleans())
    def dead_letter(self, which: int, discard: bool) -> None:
        dead = [(job, key) for job in self.jobs for key, state in self.rig.states(job).items() if state == "failed"]
        if dead:
            task = self.rig.task_id(*dead[which % len(dead)])
            with suppress(Conflict):
                self.run_(self.rig.ledger.discard(task) if discard else self._retry(task))

    async def _retry(self, task: UUID) -> None:
        assert await self.rig.ledger.retry_tasks([task]) >= 1

    @precondition(lambda self: self.jobs)
    @rule(lane=st.sampled_from(LANES), paused=st.booleans())
    def pause_lane(self, lane: str, paused: bool) -> None:
        if self.rig.tables.read(f"SELECT 1 AS one FROM lanes WHERE name = '{lane}'"):
            self.run_(self.rig.ledger.pause_lane(lane, paused=paused))

    # ── workers ──

    @precondition(lambda self: len(self.workers) < 3)
    @rule()
    def begin(self) -> None:
        self.workers.append(self.run_(self.rig.worker()))

    @precondition(lambda self: self.workers)
    @rule(which=st.integers(0, 5), give=st.booleans())
    def move_lanes(self, which: int, give: bool) -> None:
        worker = self.workers[which % len(self.workers)]
        if give:
            self.run_(
                self.rig.ledger.give_lanes(worker.session, {n: GivenLane({"n": 1}) for n in worker.lanes.values()})
            )
            worker.lanes.clear()
        else:
            self.run_(worker.take_lanes())

    @precondition(lambda self: self.workers)
    @rule(which=st.integers(0, 5), most=st.integers(1, 4))
    def lease(self, which: int, most: int) -> None:
        worker = self.workers[which % len(self.workers)]
        self._hold(worker, self.run_(worker.lease(most)))

    @precondition(lambda self: self.workers)
    @rule(which=st.integers(0, 5), begun=st.booleans(), waits=st.booleans())
    def lease_suspects(self, which: int, begun: bool, waits: bool) -> None:
        worker = self.workers[which % len(self.workers)]
        if not any(owner is worker for owner, _ in self.live.values()):
            self._hold(worker, self.run_(self._suspects(worker, begun=begun, waits=waits)))

    async def _suspects(self, worker: Worker, *, begun: bool, waits: bool) -> Sequence[Lease]:
        await worker.take_lanes()
        if begun:
            return await worker.begin_suspects(waits=waits)
        return await self.rig.ledger.lease_suspects(worker.session)

    def _hold(self, worker: Worker, leases: Sequence[Lease]) -> None:
        for lease in leases:
            assert lease.task_id not in self.live, f"task {lease.task_id} is held twice"
            moment = self.not_before.get((lease.job_id, lease.kind, lease.key), 0.0)
            assert self._seconds() >= moment - 0.01, f"task {lease.task_id} runs {moment - self._seconds()} s too early"
            self.live[lease.task_id] = (worker, lease)

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        """A group of this worker's attempts, and now and then one whose claim it has lost."""
        worker = data.draw(st.sampled_from([owner for owner, _ in self.live.values()]))
        mine = [lease for owner, lease in self.live.values() if owner is worker]
        group = [self._end(data, lease) for lease in data.draw(st.lists(st.sampled_from(mine), unique=True))]
        stale = [lease for owner, lease in self.lost if owner is worker][-2:]
        group += [self._end(data, lease) for lease in stale]
        most = data.draw(st.integers(0, 3))
        batch = self.run_(worker.cycle(group, most))
        assert sorted(batch.fenced) == sorted(lease.task_id for lease in stale)
        for settlement in group:
            self.live.pop(settlement.lease.task_id, None) if settlement.lease not in stale else None
        self.lost += [(worker, s.lease) for s in group if s.lease not in stale]
        self._hold(worker, batch.leases)
        accepted = [s for s in group if s.lease not in stale]
        self.items.settle(accepted)
        self.told += sum(len(s.extras.effects) for s in accepted if s.extras is not None)

    def _end(self, data: st.DataObject, lease: Lease) -> Settlement:
        state = data.draw(st.sampled_from(ENDS))
        more: dict[str, Any] = {"cost": data.draw(st.integers(0, lease.price))}
        if state is TaskState.COMPLETED:
            more["records"] = data.draw(records)
            more["extras"] = data.draw(extras)
            children = data.draw(st.lists(st.tuples(st.sampled_from(LANES), st.integers(0, 9), dues), max_size=2))
            more["tasks"] = [
                Plan(
                    Call(name=f"c{n}", where=lane),
                    after=lease.key if n % 2 and lease.kind == Call.kind else None,
                    due=self._due(moment),
                )
                for lane, n, moment in children
            ]
            more["skip"] = [Skip(f"t{n}", "enough") for n in data.draw(st.lists(st.integers(0, 5), max_size=1))]
        elif state in (TaskState.READY, TaskState.WAITING):
            more |= {"wait": data.draw(st.sampled_from((0, 5, 40))), "burned": data.draw(st.booleans())}
            more["halt"] = data.draw(st.none() | st.none() | st.just("the key was refused"))
        return Settlement(lease, state, error=None if state is TaskState.COMPLETED else "because", **more)

    # ── time, death, mending ──

    @rule(seconds=st.sampled_from((1, 6, 20)))
    def time_passes(self, seconds: int) -> None:
        for worker in self.workers:
            assert self.run_(self.rig.ledger.beat(worker.session, {}))
        self._pass_time(seconds)

    def _seconds(self) -> float:
        """Since the beginning. On the store whose clock is its own, real time passes as well."""
        return self.passed + (time.monotonic() if self.again is None else 0.0)

    def _on_our_clock(self, task: Row) -> Row:
        """The row with its moments where they were before `pass_time` moved them into the past."""
        moved = round(self.passed * 1000) if self.rig.clock is None else 0
        moments = {name: task[name] + moved for name in ("ended_at", "waited_until", "due") if task[name] is not None}
        return {**task, **moments}

    def _pass_time(self, seconds: float) -> None:
        self.passed += seconds
        self.rig.pass_time(seconds)
        if self.rig.clock is None:
            self.items.pass_time(seconds)

    @precondition(lambda self: self.workers)
    @rule(survivors=st.sets(st.integers(0, 2)))
    def crash(self, survivors: set[int]) -> None:
        self._pass_time(20)
        alive = [w for i, w in enumerate(self.workers) if i in survivors]
        for worker in alive:
            assert self.run_(self.rig.ledger.beat(worker.session, {}))
        self._pass_time(11)
        self.run_(self.rig.ledger.sweep())
        self._lose([w for w in self.workers if w not in alive])

    @precondition(lambda self: self.workers)
    @rule(which=st.integers(0, 5))
    def end(self, which: int) -> None:
        worker = self.workers[which % len(self.workers)]
        self.run_(self.rig.ledger.end(worker.session))
        self._lose([worker])

    @precondition(lambda self: self.again is not None)
    @rule()
    def restart(self) -> None:
        """On the embedded store everybody dies with the process."""
        if self.again is not None:
            self._lose(self.workers)
            self.rig = self.run_(self._restart())

    async def _restart(self) -> Rig:
        assert self.again is not None
        return await self.again(self.rig)

    @rule()
    def sweep(self) -> None:
        self.run_(self.rig.ledger.sweep())

    def _lose(self, workers: list[Worker]) -> None:
        gone = [(w, lease) for w, lease in self.live.values() if w in workers]
        for _, lease in gone:
            del self.live[lease.task_id]
        self.lost += [(w, lease) for w, lease in gone if self.again is None]
        self.workers = [w for w in self.workers if w not in workers]

    # ── what must hold ──

    @invariant()
    def the_tables_agree(self) -> None:
        if hasattr(self, "rig"):
            self.rig.check()

    @invariant()
    def what_is_completed_never_changes(self) -> None:
        if hasattr(self, "rig"):
            tasks = self.rig.tables.read("SELECT * FROM tasks WHERE state = 4")
            rows = {row["id"]: self._on_our_clock(row) for row in tasks}
            for number, row in self.completed.items():
                now = {**rows[number], "followed": row["followed"]}  # that somebody comes after it may be learnt later
                assert now == row
            self.completed.update(rows)

    @invariant()
    def items_are_what_was_told_of_them(self) -> None:
        if hasattr(self, "rig"):
            assert not self.items.differences(self.rig.rows(Item))

    @invariant()
    def effects_have_happened_once(self) -> None:
        if hasattr(self, "rig"):
            rows = self.rig.tables.read("SELECT count FROM rig_tallies WHERE name = 'told'")
            assert sum(row["count"] for row in rows) == self.told

    def teardown(self) -> None:
        if not hasattr(self, "rig"):
            return
        try:
            self.run_(self._everything_ends())
        finally:
            self.run_(self.rig.ledger.close())
            self.rig.tables.close()
            self.runner.close()

    async def _everything_ends(self) -> None:
        """Nothing is stuck: with the pauses lifted, one worker brings every job to its end."""
        rig = self.rig
        for row in rig.tables.read("SELECT name FROM lanes"):
            await rig.ledger.pause_lane(row["name"], paused=False)
        for job in self.jobs:
            if rig.job(job)["state"] == "paused":
                await rig.ledger.resume(job)
        for worker in self.workers:
            await rig.ledger.end(worker.session)
        last = await rig.worker("last")
        for _ in range(200):
            if all(rig.job(job)["finished_at"] for job in self.jobs):
                return
            await last.drain()
            await last.complete(await rig.ledger.lease_suspects(last.session))
            await rig.ledger.sweep()
            rig.pass_time(15)
            assert await rig.ledger.beat(last.session, {})
        raise AssertionError([(rig.job(j)["state"], rig.states(j)) for j in self.jobs if not rig.job(j)["finished_at"]])
