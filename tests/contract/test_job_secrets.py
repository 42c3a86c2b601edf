"""Secrets of a job: stored sealed with it, opened for it alone, gone in the transaction that ends it."""

from pathlib import Path
from uuid import UUID, uuid4

import pytest

from forager.core.errors import SealBroken
from forager.core.ledger import NewJob
from forager.core.secret import Secret, about_job
from forager.core.states import TaskState
from forager.ledger.tables.job_secrets import JobSecretTable
from forager.secrets.sealing import Sealer, rotate_keys, sealer_for
from tests.support.rig import Rig, Worker
from tests.support.rig_pipelines import calls

TOKEN = "ya29.canary-of-a-token"


@pytest.fixture
def sealer(tmp_path: Path) -> Sealer:
    return sealer_for(tmp_path)


@pytest.fixture
def table(rig: Rig, sealer: Sealer) -> JobSecretTable:
    return JobSecretTable(rig.ledger.database, sealer)


async def submit(rig: Rig, table: JobSecretTable, tasks: int = 1, key: str | None = None) -> tuple[UUID, int]:
    job = uuid4()
    secrets = table.sealed(job, {"access_token": Secret(TOKEN)})
    new = NewJob("rig", {}, id=job, secrets=secrets, idempotency_key=key)
    made = await rig.ledger.submit(new, calls(tasks))
    assert made.job == job or not made.created
    return made.job, int(rig.job(made.job)["id"])


def stored(rig: Rig) -> int:
    return len(rig.everything()["job_secrets"])


async def test_a_jobs_secret_opens_for_that_job_and_its_text_is_nowhere_in_the_store__RV_2(
    rig: Rig, table: JobSecretTable
) -> None:
    _, number = await submit(rig, table)
    secret = await table.of(number, "access_token")
    assert secret is not None
    assert secret.reveal() == TOKEN
    assert TOKEN not in str(rig.everything())
    assert await table.of(number, "other") is None


async def test_a_secret_moved_to_another_job_does_not_open__RV_2(
    rig: Rig, table: JobSecretTable, sealer: Sealer
) -> None:
    _, first = await submit(rig, table)
    second, _ = await submit(rig, table)
    row = next(row for row in rig.everything()["job_secrets"] if row["job_id"] == first)
    with pytest.raises(SealBroken):
        sealer.unseal(row["sealed"], about_job(second, "access_token"))


@pytest.mark.parametrize("state", [TaskState.COMPLETED, TaskState.FAILED, TaskState.SKIPPED])
async def test_the_secret_is_gone_with_the_end_of_the_job_however_it_ends__RV_2(
    rig: Rig, worker: Worker, table: JobSecretTable, state: TaskState
) -> None:
    _, number = await submit(rig, table, tasks=2)
    first, second = await worker.lease()
    await worker.settle(first)
    assert stored(rig) == 1
    await worker.settle(second, state, error=None if state is TaskState.COMPLETED else "no")
    assert stored(rig) == 0
    assert await table.of(number, "access_token") is None


async def test_the_secret_is_gone_when_the_job_is_cancelled__RV_2(rig: Rig, table: JobSecretTable) -> None:
    job, _ = await submit(rig, table)
    await rig.ledger.cancel(job)
    await rig.ledger.sweep()
    assert stored(rig) == 0


async def test_a_paused_job_keeps_its_secret(rig: Rig, table: JobSecretTable) -> None:
    job, number = await submit(rig, table)
    await rig.ledger.pause(job, "quota")
    assert await table.of(number, "access_token") is not None


async def test_a_repeat_under_the_same_key_is_the_same_job_whatever_its_secret(rig: Rig, table: JobSecretTable) -> None:
    first, _ = await submit(rig, table, key="k")
    again, _ = await submit(rig, table, key="k")
    assert again == first
    assert stored(rig) == 1


async def test_a_retry_brings_a_new_secret_and_one_that_queues_nothing_stores_none__RV_2(
    rig: Rig, worker: Worker, table: JobSecretTable
) -> None:
    job, number = await submit(rig, table)
    (lease,) = await worker.lease()
    await worker.settle(lease, TaskState.FAILED, error="401")
    renewed = table.sealed(job, {"access_token": Secret("another")})
    assert await rig.ledger.retry(job, secrets=renewed) == 1
    secret = await table.of(number, "access_token")
    assert secret is not None
    assert secret.reveal() == "another"
    await worker.drain()
    assert await rig.ledger.retry(job, secrets=renewed) == 0
    assert stored(rig) == 0


async def test_keys_change_while_a_job_runs_and_its_secret_opens_with_the_new_one__RV_2(
    rig: Rig, table: JobSecretTable, sealer: Sealer
) -> None:
    _, number = await submit(rig, table)
    assert (await rotate_keys(sealer, [table])).resealed == 1
    assert await table.stale() == 0
    secret = await table.of(number, "access_token")
    assert secret is not None
    assert secret.reveal() == TOKEN
