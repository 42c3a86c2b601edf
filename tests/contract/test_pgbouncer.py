"""Through a PgBouncer in transaction mode: the heart of the ledger's contract, and what only a pooler changes.

`FORAGER_TEST_PGBOUNCER=1` opens the ledgers of all other contract tests through one as well.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from forager.app.checks import examine
from forager.app.compose import open_app
from forager.app.config import new_settings
from forager.core.errors import Rejected, StoreUnavailable
from forager.core.ledger import NewJob, Submitted
from forager.ledger.catalog import Catalog
from forager.ledger.postgres import PostgresLedger
from forager.ledger.schema.connect import in_schema
from forager.ledger.schema.migrate import create_postgres
from forager.sdk.feature import Finding
from tests.contract.test_ledger_append import test_many_who_add_together_make_one_job_and_each_task_once
from tests.contract.test_ledger_control import test_retry_queues_the_failed_and_holds_their_followers_trap_5__PL_12
from tests.contract.test_ledger_lease import (
    test_a_budget_holds_with_what_is_in_flight_trap_6__PL_11,
    test_jobs_take_turns_even_one_task_at_a_time__PL_7,
    test_many_leases_at_once_never_share_a_task__PL_6,
)
from tests.contract.test_ledger_rechecks import test_many_who_dispatch_at_once_make_one_task_of_each_record
from tests.contract.test_ledger_records import (
    test_change_numbers_are_dense_and_in_order_under_load_trap_1,
    test_odd_text_is_stored_as_it_is,
    test_where_both_names_have_a_row_they_become_one__PL_13,
)
from tests.contract.test_ledger_sessions import (
    test_end_gives_everything_back_unburned__R7,
    test_work_is_never_left_in_a_sleeping_lane_by_a_race_trap_2,
)
from tests.contract.test_ledger_settle import (
    test_a_mixed_group_is_settled_together,
    test_children_join_the_job_once_each,
    test_late_settlement_of_a_lost_claim_is_refused_without_a_trace__PL_6,
)
from tests.contract.test_ledger_submit import (
    test_a_plan_that_fails_in_the_middle_of_a_big_job_leaves_nothing__PL_3,
    test_twenty_submissions_at_once_with_one_key_make_one_job__PL_3,
)
from tests.support.acts import acts, many
from tests.support.engine import open_postgres
from tests.support.pgbouncer import PgBouncer, every_ledger_behind
from tests.support.postgres import Postgres, PostgresServer
from tests.support.rig import Rig, postgres_rig
from tests.support.rig_pipelines import calls, catalog

SLICE = (
    test_a_budget_holds_with_what_is_in_flight_trap_6__PL_11,
    test_a_mixed_group_is_settled_together,
    test_a_plan_that_fails_in_the_middle_of_a_big_job_leaves_nothing__PL_3,
    test_change_numbers_are_dense_and_in_order_under_load_trap_1,
    test_children_join_the_job_once_each,
    test_end_gives_everything_back_unburned__R7,
    test_jobs_take_turns_even_one_task_at_a_time__PL_7,
    test_late_settlement_of_a_lost_claim_is_refused_without_a_trace__PL_6,
    test_many_leases_at_once_never_share_a_task__PL_6,
    test_many_who_add_together_make_one_job_and_each_task_once,
    test_many_who_dispatch_at_once_make_one_task_of_each_record,
    test_odd_text_is_stored_as_it_is,
    test_retry_queues_the_failed_and_holds_their_followers_trap_5__PL_12,
    test_twenty_submissions_at_once_with_one_key_make_one_job__PL_3,
    test_where_both_names_have_a_row_they_become_one__PL_13,
    test_work_is_never_left_in_a_sleeping_lane_by_a_race_trap_2,
)
"""Collected here a second time, with the `rig` of this file."""

# State that the last client left on a server: settings of a transaction, and named statements.
LEFT_BEHIND = """
SELECT (SELECT count(*) FROM pg_prepared_statements) AS statements, current_setting('enable_seqscan') AS seqscan,
  current_setting('search_path') AS path, pg_backend_pid() AS server
"""
LONG = 60.0


@pytest.fixture
async def rig(postgres: Postgres, postgres_template: str, pgbouncer: PgBouncer) -> AsyncIterator[Rig]:
    """A fresh ledger behind the pooler; the auditor, who has the last word, is connected directly."""
    url = postgres.create_database(postgres_template)
    with every_ledger_behind(pgbouncer):
        made = await postgres_rig(url, create=False)
    yield made
    made.check()
    await made.ledger.close()
    made.tables.close()
    postgres.drop_database(url)


async def test_a_process_without_the_pooler_setting_is_refused_with_the_remedy(
    tmp_path: Path, postgres_url: str, pgbouncer: PgBouncer
) -> None:
    url = pgbouncer.through(postgres_url)
    with pytest.raises(Rejected, match=r"pooler is between .* FORAGER_DATABASE_POOLED=true"):
        async with open_app(new_settings(home=tmp_path, database_url=url)):
            pass
    (found,) = await _findings(tmp_path, url)
    assert (found.state, "FORAGER_DATABASE_POOLED=true" in found.remedy) == ("problem", True)

    async with open_app(new_settings(home=tmp_path, database_url=url, database_pooled=True)):
        pass  # the schema was created through the pooler
    (found,) = await _findings(tmp_path, url, database_pooled=True)
    assert (found.state, "through a connection pooler" in found.message) == ("ok", True)
    (direct,) = await _findings(tmp_path, postgres_url)
    assert direct.state == "ok"


async def test_transactions_set_what_they_need_and_leave_nothing_behind_on_any_server__PR_21(
    postgres_url: str, pgbouncer: PgBouncer
) -> None:
    address = in_schema(postgres_url, "apart")
    create_postgres(pgbouncer.through(address), catalog())
    ledger = await PostgresLedger.open(pgbouncer.through(address), catalog(), pooled=True)
    await ledger.submit(NewJob("rig", {}), calls(10))
    settings = "current_setting('enable_seqscan') AS seqscan, current_setting('search_path') AS path"
    apart = asyncio.Barrier(3)

    async def read() -> None:
        for _ in range(10):
            (hot,) = await ledger.database.write(f"SELECT {settings}")
            (report,) = await ledger.database.fetch(f"SELECT {settings}, count(*) AS jobs FROM jobs GROUP BY 1, 2")
            assert (hot["seqscan"], hot["path"]) == ("off", "apart")
            assert (report["seqscan"], report["path"], report["jobs"]) == ("on", "apart", 1)

    async def look(found: list[asyncpg.Record]) -> None:
        db = await asyncpg.connect(pgbouncer.through(postgres_url), statement_cache_size=0)
        async with db.transaction():
            found.append(await db.fetchrow(LEFT_BEHIND))  # type: ignore[arg-type]
            await apart.wait()  # each holds a server of its own
        await db.close()

    await asyncio.gather(*(read() for _ in range(3)))
    found: list[asyncpg.Record] = []
    await asyncio.gather(*(look(found) for _ in range(3)))
    assert len({row["server"] for row in found}) == 3
    assert {(row["statements"], row["seqscan"], row["path"]) for row in found} == {(0, "on", '"$user", public')}
    await ledger.close()


@pytest.mark.parametrize("notified", [True, False], ids=["notified", "polling"])
async def test_work_of_another_process_is_found_by_a_notification_or_by_polling(
    postgres_url: str, pgbouncer: PgBouncer, notified: bool
) -> None:
    pipelines = [acts()]
    with every_ledger_behind(pgbouncer, notified=notified):
        rig = await open_postgres(postgres_url, pipelines)
    async with rig.working(worker := rig.worker(), patience=LONG):
        while not worker.alive:
            await asyncio.sleep(0.01)
        ledger = await PostgresLedger.open(postgres_url, Catalog(pipelines))
        submitted = await ledger.submit(NewJob("acts", {}), many(5))
        while rig.job(submitted.job)["state"] != "completed":
            await asyncio.sleep(0.01)
        await ledger.close()
    rig.check()
    await rig.close()


async def test_work_continues_when_a_server_that_died_behind_its_pooler_is_back__R8(
    postgres_server: PostgresServer,
) -> None:
    url = postgres_server.create_database()
    create_postgres(url, catalog())
    with PgBouncer(url) as bouncer:
        ledger = await PostgresLedger.open(bouncer.through(url), catalog(), pooled=True)
        await asyncio.to_thread(postgres_server.kill)
        submitting = asyncio.create_task(_submitted(ledger))
        await asyncio.to_thread(postgres_server.start)
        async with asyncio.timeout(LONG):
            assert (await submitting).total == 3
        await ledger.close()


async def _submitted(ledger: PostgresLedger) -> Submitted:
    """Submit a job as soon as the store takes it. A pooler holds a transaction back for a while before it refuses."""
    while True:
        try:
            return await ledger.submit(NewJob("rig", {}), calls(3))
        except StoreUnavailable:
            await asyncio.sleep(0.05)


async def _findings(home: Path, url: str, **more: Any) -> list[Finding]:
    settings = new_settings(home=home, database_url=url, **more)
    found = await asyncio.to_thread(examine, lambda: settings)
    return [each for each in found if each.check == "store"]
