"""Sinks in real processes: killed in the middle of a batch, and two at once on one PostgreSQL."""

import asyncio
import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.chaos import Dice, gone
from tests.support.engine import until
from tests.support.sink_process import Options, start
from tests.support.sink_suite import MEMBERS, Effect, Member, in_order, log_of, make_changes, open_store

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(params=[each for each in MEMBERS if each.killable], ids=lambda each: each.name)
def member(request: pytest.FixtureRequest, tmp_path: Path) -> Member:
    chosen: Member = request.param
    chosen.prepare(tmp_path)
    return chosen


KILLED = -9
LEASE = 2.0


async def _prepare(store: str, jobs: int) -> None:
    engine = await open_store(store)
    await make_changes(engine.ledger, jobs)
    await engine.close()


async def _check(store: str, member: Member, folder: Path) -> None:
    engine = await open_store(store, create=False)
    arrived, wanted = member.effects(engine.tables, folder), member.wanted(await log_of(engine.ledger))
    engine.check()
    await engine.close()
    assert in_order(arrived) == in_order(wanted)


@pytest.mark.parametrize("death", ["half", pytest.param("all", marks=pytest.mark.chaos)])
async def test_a_kill_in_the_middle_of_a_batch_loses_and_doubles_nothing(
    member: Member, store: str, tmp_path: Path, death: str
) -> None:
    await _prepare(store, 4)
    options = Options(store, member.name, str(tmp_path), death=death, lease=LEASE)
    for nth in (1, 2):
        assert await gone(start(replace(options, nth=nth)), 60) == KILLED
    assert await gone(start(replace(options, death="")), 60) == 0
    await _check(store, member, tmp_path)


async def test_a_build_that_moves_the_cursor_first_loses_changes(tmp_path: Path) -> None:
    """The negative control of the test above."""
    store, member = str(tmp_path), next(each for each in MEMBERS if each.name == "files")
    await _prepare(store, 4)
    options = Options(store, member.name, str(tmp_path), death="half", nth=2, broken=True)
    assert await gone(start(options), 60) == KILLED
    assert await gone(start(replace(options, death="")), 60) == 0
    with pytest.raises(AssertionError):
        await _check(store, member, tmp_path)


async def test_kills_at_any_moment_lose_and_double_nothing(member: Member, store: str, tmp_path: Path) -> None:
    dice, kills = Dice(), 0
    await _prepare(store, 6)
    options = Options(store, member.name, str(tmp_path), forever=True, lease=LEASE, log=str(tmp_path / "log"))
    for _ in range(4):
        process = start(options)
        await asyncio.sleep(0.2 + dice.seconds(0.4))
        process.kill()
        kills += await gone(process, 60) == KILLED
    assert kills == 4
    assert await gone(start(replace(options, forever=False)), 60) == 0
    await _check(store, member, tmp_path)


async def test_of_two_processes_one_at_a_time_delivers_and_the_other_takes_over(
    member: Member, postgres_url: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    await _prepare(postgres_url, 2)
    options = Options(postgres_url, member.name, str(tmp_path), forever=True, lease=LEASE, log=str(log))
    processes = {process.pid: process for process in (start(options), start(options))}
    engine = await open_store(postgres_url, create=False)

    def written() -> list[tuple[int, float, float]]:
        lines = log.read_text().splitlines() if log.exists() else []
        return [(pid, began, ended) for pid, began, ended, _ in map(json.loads, lines)]

    async def arrived() -> None:
        wanted: list[Effect] = member.wanted(await log_of(engine.ledger))
        await until(lambda: in_order(member.effects(engine.tables, tmp_path)) == in_order(wanted), 60)

    await arrived()
    await until(written, 60)  # a batch is logged a moment after it has arrived
    owner = written()[-1][0]
    assert {pid for pid, _, _ in written()} == {owner}, "the other has nothing to do"
    processes[owner].kill()
    await gone(processes.pop(owner), 10)
    await make_changes(engine.ledger, 2)
    await arrived()
    await until(lambda: written()[-1][0] != owner, 60)
    for process in processes.values():
        process.kill()
        await gone(process, 60)
    moments = sorted((began, ended) for _, began, ended in written())
    assert all(before[1] <= after[0] for before, after in pairwise(moments)), "never two at once"
    await engine.close()
