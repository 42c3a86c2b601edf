"""Tasks that take their worker along (R14): found by halving groups, dead-lettered alone; the innocent pay nothing."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

import pytest

from forager.core.states import ALONE_CRASHES, TaskState
from forager.core.task import Plan
from tests.support.acts import RECORDS, Act
from tests.support.auditor import Row, Tables, audit
from tests.support.chaos import tables_of
from tests.support.engine import open_postgres, open_sqlite, until
from tests.support.engine_process import ROOT, Options, pipelines

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]

INNOCENT = 24
STUCK_AFTER = 3.0
SUPERVISE = textwrap.dedent("""
    import sys
    from forager.cli.supervise import Supervisor
    raise SystemExit(Supervisor(sys.argv[2:], stuck_after=float(sys.argv[1]), grace=5.0).run())
""")


async def run_supervised(options: Options, plans: Sequence[Plan], patience: float = 240.0) -> None:
    """The engine under the real supervisor until nothing is left to do."""
    if "://" in options.store:
        rig = await open_postgres(options.store, pipelines(options))
    else:
        rig = await open_sqlite(Path(options.store), pipelines(options))
    await rig.submit(plans)
    await rig.close()
    command = [sys.executable, "-c", SUPERVISE, str(STUCK_AFTER), *options.command]
    process = subprocess.Popen(command, cwd=ROOT, start_new_session=True)
    try:
        await until(lambda: process.poll() is not None, patience)
        assert process.returncode == 0
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def around(*guilty: Act) -> list[Plan]:
    """The guilty among the innocent, who are at work when it strikes."""
    plans = [Plan(Act(name=f"good{n:03d}", seconds=0.05)) for n in range(INNOCENT)]
    for n, act in enumerate(guilty):
        plans.insert(3 + 5 * n, Plan(act))
    return plans


def tasks(tables: Tables) -> dict[str, Row]:
    return {row["key"]: row for row in tables.read(f"SELECT * FROM {tables.tasks} t")}


def check(store: str, guilty: Sequence[str]) -> None:
    tables = tables_of(store)
    try:
        rows = tasks(tables)
        for name in guilty:
            row = rows.pop(name)
            assert TaskState(row["state"]) is TaskState.FAILED, row
            assert row["crashes"] == ALONE_CRASHES
            assert "died" in row["error"]
        assert len(rows) == INNOCENT
        assert {TaskState(row["state"]) for row in rows.values()} == {TaskState.COMPLETED}
        assert {row["attempt"] for row in rows.values()} == {1}, "the innocent burn nothing"
        assert {row["crashes"] for row in rows.values()} == {0}, "nor were they alone when a worker died"
        assert audit(tables, RECORDS) == []
        (deeds,) = tables.read("SELECT count(*) AS n FROM changes WHERE kind = 'deed'")
        assert deeds["n"] == INNOCENT
    finally:
        tables.close()


@pytest.mark.parametrize(
    ("how", "beside"),
    [
        ("segfault", 8),
        ("loop", 2),
        # The supervisor and the next worker see the same as after a segfault: a process that is gone.
        pytest.param("hog", 2, marks=pytest.mark.chaos),
        pytest.param("exit", 2, marks=pytest.mark.chaos),
    ],
)
async def test_a_task_that_kills_its_worker_ends_as_a_dead_letter__R14(tmp_path: Path, how: str, beside: int) -> None:
    options = Options(str(tmp_path), concurrency=beside)
    await run_supervised(options, around(Act(name="guilty", how=how)))
    check(str(tmp_path), ["guilty"])


async def test_a_task_that_kills_its_worker_ends_as_a_dead_letter_on_postgres__R14(postgres_url: str) -> None:
    options = Options(postgres_url, concurrency=2, lease=1.0)
    await run_supervised(options, around(Act(name="guilty", how="segfault")))
    check(postgres_url, ["guilty"])


@pytest.mark.chaos
@pytest.mark.parametrize("how", ["hog", "exit", "loop"])
async def test_every_kind_of_killer_ends_as_a_dead_letter_on_postgres__R14(postgres_url: str, how: str) -> None:
    options = Options(postgres_url, concurrency=2, lease=1.0)
    await run_supervised(options, around(Act(name="guilty", how=how)))
    check(postgres_url, ["guilty"])


@pytest.mark.chaos
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
async def test_many_poisons_at_once_are_found_one_by_one__R14(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    place = str(tmp_path) if store == "sqlite" else str(request.getfixturevalue("postgres_url"))
    guilty = [Act(name=f"guilty-{how}", how=how) for how in ("segfault", "hog", "exit", "loop")]
    lease = 30.0 if store == "sqlite" else 1.0  # there the lock proves a death, here only time does
    await run_supervised(Options(place, concurrency=32, lease=lease), around(*guilty), patience=500)
    check(place, [act.name for act in guilty])


async def test_a_worker_that_cannot_start_is_not_restarted_for_ever(tmp_path: Path) -> None:
    """An end with an exit code before the first beat is final: a person must act."""
    command = [sys.executable, "-c", SUPERVISE, "3", sys.executable, "-c", "raise SystemExit(3)"]
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT)
    assert await asyncio.wait_for(process.wait(), 60) == 3
    assert list(tmp_path.iterdir()) == []
