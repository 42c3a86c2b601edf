"""What PostgreSQL cannot store as it came: it must harm nobody, least of all what is settled beside it."""

import pytest

from forager.core.errors import StoreError, StoreUnavailable
from forager.core.ledger import Settlement
from forager.core.states import TaskState
from tests.support.rig import Thing, calls, postgres_rig


async def test_a_nul_in_scraped_text_is_replaced_and_refuses_nothing(postgres_url: str) -> None:
    rig = await postgres_rig(postgres_url)
    job = await rig.submit(calls(2))
    worker = await rig.worker()
    first, second = await worker.lease()

    record = Thing(uid="a\x00b", title="one\x00two", tags=["x\x00y"], weak="w\x00")
    await worker.turn(
        [
            Settlement(first, TaskState.COMPLETED, records=[record]),
            Settlement(second, TaskState.FAILED, error="bad\x00"),
        ]
    )

    assert rig.rows(Thing)["a\ufffdb"]["title"] == "one\ufffdtwo"
    assert rig.tasks(job.job)["t1"]["error"] == "bad\ufffd"
    await rig.ledger.close()
    rig.tables.close()


async def test_a_number_too_big_for_its_column_is_no_outage(postgres_url: str) -> None:
    rig = await postgres_rig(postgres_url)
    await rig.submit(calls(1))
    worker = await rig.worker()
    (lease,) = await worker.lease()

    with pytest.raises(StoreError) as refused:
        await worker.settle(lease, records=[Thing(uid="a", size=2**70)])

    assert not isinstance(refused.value, StoreUnavailable)
    await rig.ledger.close()
    rig.tables.close()
