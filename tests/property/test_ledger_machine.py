"""The state machine over the ledger (R6) with the moves of its recheck, on both stores."""

import os
import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

from forager.core.errors import Conflict
from forager.core.ledger import Settlement
from forager.core.recheck import RecheckStatus
from forager.core.states import TaskState
from forager.core.task import Plan, Task
from tests.support.ledger_machine import LedgerMachine
from tests.support.ledger_moves import PASSED, names
from tests.support.rig import Rig, create_store, end_in_pages_of, postgres_rig, sqlite_rig
from tests.support.rig_pipelines import RECHECK, Call, Item, catalog, look_again

FULL_SIZE = 1_000
"""A profile with more examples than this (`fuzz`) is followed; otherwise the run has the size of CI."""


class RecheckingMachine(LedgerMachine):
    """The ledger's own moves, and those of the recheck over its items."""

    @rule(most=st.integers(1, 3), paused=st.sampled_from((False, False, False, True)))
    def dispatch(self, most: int, paused: bool) -> None:
        """Items whose time has come become tasks, the oldest first; nothing happens while the recheck is paused or its
        job is being cancelled."""
        self.run_(self.rig.rechecks.pause(RECHECK.name, paused=paused))
        before, had = self.rig.rows(Item), self._tasks_of(RECHECK.job_key)
        due = [] if paused else self.items.due(self.run_(self._now()))
        try:
            done = self.run_(self.rig.dispatch(most))
        except Conflict:
            assert self.rig.rows(Item) == before
            return
        after = self.rig.rows(Item)
        taken = [uid for uid in due if after[uid]["due"] is None]
        assert done.records == len(taken) == min(most, len(due))
        left = [before[uid]["due"] for uid in due if uid not in taken]
        assert all(before[uid]["due"] <= moment for uid in taken for moment in left)
        self.items.clear_due(taken)
        made = [look_again(self.items.items[uid].item) for uid in taken]
        names = {(task.kind, task.key()) for task in made if isinstance(task, Task)}
        assert done.tasks == self._added(had, names, again=True)
        job = self.run_(self._recheck()).job
        self.jobs = list(dict.fromkeys([*self.jobs, *([job] if job else [])]))

    @rule(uid=names, most=st.integers(1, 3))
    def work_through(self, uid: str, most: int) -> None:
        """A worker completes all that it can lease, and finds an item that is due at once, for the recheck."""
        if not self.workers:
            self.begin()
        self.dispatch(most, paused=False)
        self.jobs.append(self.run_(self.rig.submit([Plan(Call(name="find"))])).job)
        worker = self.workers[0]
        self._hold(worker, self.run_(worker.lease(4)))
        leases = [lease for owner, lease in self.live.values() if owner is worker]
        group = [Settlement(lease, TaskState.COMPLETED, records=[Item(uid=uid, due=PASSED)]) for lease in leases]
        assert not self.run_(worker.cycle(group)).fenced
        for lease in leases:
            del self.live[lease.task_id]
            self.lost.append((worker, lease))
        self.items.settle(group)

    async def _recheck(self) -> RecheckStatus:
        return await self.rig.rechecks.status(RECHECK.name)


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    end_in_pages_of(2, monkeypatch)


@pytest.mark.timeout(1200)
def test_no_order_of_events_breaks_the_ledger_on_sqlite__R6(tmp_path: Path) -> None:
    template = tmp_path / "template" / "ledger.db"
    template.parent.mkdir()
    create_store(template)
    folders = iter(range(10**9))

    async def make() -> Rig:
        path = tmp_path / str(next(folders)) / "ledger.db"
        path.parent.mkdir()
        shutil.copy(template, path)
        return await sqlite_rig(path)

    async def again(rig: Rig) -> Rig:
        await rig.ledger.close()
        rig.tables.close()
        last = tmp_path / max((p.name for p in tmp_path.iterdir() if p.name.isdigit()), key=int)
        return await sqlite_rig(last / "ledger.db", rig.clock)

    _run(lambda: RecheckingMachine(make, again))


@pytest.mark.timeout(1200)
def test_no_order_of_events_breaks_the_ledger_on_postgres__R6(request: pytest.FixtureRequest) -> None:
    pytest.importorskip("forager.ledger.postgres", reason="forager.ledger.postgres does not import yet")
    postgres = request.getfixturevalue("postgres")
    from forager.ledger.schema.migrate import create_postgres

    template = postgres.create_database()
    create_postgres(template, catalog())

    async def make() -> Rig:
        rig = await postgres_rig(postgres.create_database(urlsplit(template).path[1:]), create=False)
        rig.catalog.shared = frozenset({"site"})  # of the two lanes, one has an owner and one is shared
        return rig

    _run(lambda: RecheckingMachine(make, None), examples=15)  # each of them costs six times what it costs on SQLite


def _run(machine: Callable[[], RecheckingMachine], examples: int = 25) -> None:
    """Run the machine with a seed of its own each time; `make fuzz` has many more examples."""
    number = int(os.environ.get("FORAGER_TEST_SEED") or random.randrange(2**32))
    sys.stdout.write(f"FORAGER_TEST_SEED={number}\n")
    chosen = settings()
    if chosen.max_examples < FULL_SIZE:
        chosen = settings(max_examples=examples, stateful_step_count=30)
    size = settings(chosen, deadline=None, print_blob=True, suppress_health_check=list(HealthCheck), database=None)
    factory: Any = seed(number)(machine)  # hypothesis takes a factory, its annotation wants a class
    run_state_machine_as_test(factory, settings=size)
