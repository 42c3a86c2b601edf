"""Steps that hold their process up for longer than its lease (trap 13): what they commit late is refused, every time.

On the embedded store there is one process, so that a stopped one cannot come back late; a step that overruns can. The
rescuer runs before the late commit, and the heartbeat does not notice it, so that only the fence is left.
"""

import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from forager.core.ledger import Session
from forager.core.pipeline import Lane
from forager.core.task import Plan
from forager.engine.work.worker import Worker
from tests.contract.engine.conftest import OpenRig
from tests.support.acts import QUICK, RECORDS, Act, acts
from tests.support.auditor import audit
from tests.support.engine import EngineRig, open_sqlite, until

OVERRUNS = 25
TOGETHER = 5
LEASE = 0.4
BLOCK = 0.1
PIPELINE = acts(Lane("acts", rate=None, concurrency=TOGETHER, retry=QUICK))


def rescue_before_a_late_commit(rig: EngineRig) -> list[int]:
    """Sweep before every heartbeat and hide from it, once a session, that the session is lost. Returns whom it hit."""
    real, lost = rig.ledger.beat, []

    async def beat(session: Session, states: Mapping[int, Any], wants: int = 0) -> datetime | None:
        await rig.ledger.sweep()
        now: datetime | None = await real(session, states, wants)
        if now is not None:
            return now
        deaf = session.id not in lost
        lost.append(session.id)
        return await rig.ledger.now() if deaf else None

    rig.ledger.beat = beat
    return lost


async def overrun(rig: EngineRig, flags: Path) -> tuple[UUID, Worker]:
    """Steps that take, five together, longer than the lease at their first attempt."""
    names = [f"slow{n:02d}" for n in range(OVERRUNS)]
    plans = [Plan(Act(name=name, how="overrun", block=BLOCK, flag=str(flags / name))) for name in names]
    rescue_before_a_late_commit(rig)
    job, worker = await rig.submit(plans), rig.worker()
    async with rig.working(worker):
        await until(lambda: rig.job(job)["finished_at"] is not None)
    assert all((flags / name).exists() for name in names)
    return job, worker


async def test_twenty_five_steps_that_overrun_their_lease_are_fenced_and_leave_no_trace_trap_13__R2__PL_6(
    open_rig: OpenRig, tmp_path: Path
) -> None:
    rig = await open_rig(PIPELINE, lease=LEASE)
    job, worker = await overrun(rig, tmp_path)
    sys.stdout.write(f"{worker.stats.fenced} stale commits fenced\n")
    assert worker.stats.fenced >= OVERRUNS
    assert rig.job(job)["completed"] == worker.stats.ended["completed"] == OVERRUNS
    seen = rig.tables.read("SELECT times_seen FROM act_deeds") + rig.tables.read("SELECT times_seen FROM act_notes")
    assert [row["times_seen"] for row in seen] == [1] * OVERRUNS * 2, "a refused commit left something behind"
    assert {t["attempt"] for t in rig.tasks(job).values()} == {1}, "what was rescued burned nothing"
    rig.check()


async def test_without_the_fence_steps_that_overrun_are_committed_twice_trap_13__R2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control: a build whose settle does not check the claim."""
    monkeypatch.setattr("forager.ledger.sqlite.settle._pass_the_fence", lambda _, all_: (list(all_), set(), []))
    rig = await open_sqlite(tmp_path, [PIPELINE], lease=LEASE)
    _, worker = await overrun(rig, tmp_path)
    assert worker.stats.fenced == 0
    broken = audit(rig.tables, RECORDS)
    assert any("running is" in line for line in broken), broken
    await rig.close()
