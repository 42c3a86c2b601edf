"""The lost wake-up on PostgreSQL: an owner that looks too early must not put a lane to sleep on work."""

import asyncio
from typing import Any, cast

import asyncpg

from forager.core.ledger import GivenLane, NewJob
from forager.ledger.postgres.connection import Db
from forager.ledger.postgres.submit import create_whole
from forager.ledger.rules.jobs import Whole, encode
from tests.support.rig import Rig, Worker, postgres_rig
from tests.support.rig_pipelines import calls, catalog


async def _idle_owner(rig: Rig) -> Worker:
    """A worker that owns the lane `api`, which has nothing to do any more."""
    await rig.submit(calls(1, prefix="first"))
    worker = await rig.worker()
    await worker.drain()
    return worker


async def _close(rig: Rig, *connections: Any) -> None:
    for connection in connections:
        await connection.close()
    await rig.ledger.close()
    rig.tables.close()


async def test_an_owner_that_gives_its_lane_waits_for_an_open_submission_and_sees_its_work_trap_2(
    postgres_url: str,
) -> None:
    rig = await postgres_rig(postgres_url)
    owner = await _idle_owner(rig)
    submitter, watcher = await asyncpg.connect(postgres_url), await asyncpg.connect(postgres_url)
    transaction = submitter.transaction()
    await transaction.start()
    plans = encode(calls(1, prefix="second"), catalog())
    await create_whole(cast("Db", submitter), [Whole(NewJob("rig", {"name": "second"}), plans)], owner.lanes, catalog())

    giving = asyncio.create_task(rig.ledger.give_lanes(owner.session, {owner.lanes["api"]: GivenLane()}))
    while not await watcher.fetchval(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    ):
        assert not giving.done(), "the owner did not wait for the submission"
        await asyncio.sleep(0)
    await transaction.commit()
    await giving

    other = await rig.worker("other")
    assert [lease.key for lease in await other.lease()] == ["second0"]
    await _close(rig, submitter, watcher)


async def test_control_a_lane_put_to_sleep_without_the_lock_sleeps_on_work_until_the_sweep_trap_2(
    postgres_url: str,
) -> None:
    rig = await postgres_rig(postgres_url)
    owner = await _idle_owner(rig)
    lane = owner.lanes["api"]
    submitter, naive = await asyncpg.connect(postgres_url), await asyncpg.connect(postgres_url)
    transaction = submitter.transaction()
    await transaction.start()
    await submitter.execute(
        "INSERT INTO jobs (public_id, pipeline, params, state, created_at, total, queued)"
        " VALUES (gen_random_uuid()::text, 'rig', '{}', 'queued', 0, 1, 1)"
    )
    await submitter.execute(
        "INSERT INTO tasks (job_id, lane_id, kind, key, state, price, body)"
        " SELECT max(id), $1, 'call', 'x', 0, 1, '{\"name\":\"x\"}'::bytea FROM jobs",
        lane,
    )
    await submitter.execute(
        "INSERT INTO queue (task_id, lane_id, job_id, rank, state)"
        " SELECT id, lane_id, job_id, 0, 0 FROM tasks WHERE key = 'x'"
    )
    await naive.execute("UPDATE lanes SET owner = NULL, wake_at = NULL WHERE id = $1", lane)  # sees no work, so sleeps
    await transaction.commit()

    other = await rig.worker("other")
    assert other.lanes == {}, "the control did not lose the wake-up"
    assert (await rig.ledger.sweep()).woken == 1
    assert await other.take_lanes() == ["api"]
    assert len(await other.lease()) == 1
    await _close(rig, submitter, naive)


async def test_another_process_is_notified_of_new_work_at_once(postgres_url: str) -> None:
    rig = await postgres_rig(postgres_url)
    other = await postgres_rig(postgres_url, create=False)
    await other.ledger.work_arrived(5)  # the listener stands
    waiting = asyncio.create_task(other.ledger.work_arrived(300))
    await rig.submit(calls(1))
    await asyncio.wait_for(waiting, 60)
    await _close(other)
    await _close(rig)
