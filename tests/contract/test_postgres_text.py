"""Text that PostgreSQL cannot store unchanged: it must harm nothing, least of all other settlements of its group."""

from collections.abc import AsyncIterator

import orjson
import pytest

from forager.core.errors import StoreError, StoreUnavailable
from forager.core.ledger import Settlement
from forager.core.states import TaskState
from tests.support.rig import Rig, postgres_rig
from tests.support.rig_pipelines import Seen, Thing, calls


@pytest.fixture
async def rig(postgres_url: str) -> AsyncIterator[Rig]:
    rig = await postgres_rig(postgres_url)
    yield rig
    await rig.ledger.close()
    rig.tables.close()


async def test_a_nul_in_scraped_text_is_replaced_and_refuses_nothing(rig: Rig) -> None:
    job = await rig.submit(calls(2))
    worker = await rig.worker()
    first, second = await worker.lease()

    record = Thing(uid="a\x00b", title="one\x00two", tags=["x\x00y"], weak="w\x00")
    await worker.cycle(
        [
            Settlement(first, TaskState.COMPLETED, records=[record, Seen(uid="a\x00b", note="three\x00")]),
            Settlement(second, TaskState.FAILED, error="bad\x00"),
        ]
    )

    assert rig.rows(Thing)["a\ufffdb"]["title"] == "one\ufffdtwo"
    assert rig.rows(Seen)["a\ufffdb"]["note"] == "three\ufffd"
    assert rig.tasks(job.job)["t1"]["error"] == "bad\ufffd"


async def test_a_number_too_big_for_its_column_is_no_outage(rig: Rig) -> None:
    await rig.submit(calls(1))
    worker = await rig.worker()
    (lease,) = await worker.lease()

    with pytest.raises(StoreError) as refused:
        await worker.settle(lease, records=[Thing(uid="a", size=2**70)])

    assert not isinstance(refused.value, StoreUnavailable)


async def test_a_record_seen_twice_with_a_nul_changes_once(rig: Rig) -> None:
    await rig.submit(calls(2))
    worker = await rig.worker()

    for lease in await worker.lease():
        await worker.settle(lease, records=[Thing(uid="a", title="one\x00"), Thing(uid="a", size=1)])

    (told,) = [c for c in await rig.ledger.changes(0, 100) if c.kind == "thing"]
    assert told.body == {"uid": "a", "title": "one\ufffd", "size": 1}


async def test_json_is_stored_to_the_letter(rig: Rig) -> None:
    await rig.submit(calls(1))
    worker = await rig.worker()
    (lease,) = await worker.lease()

    tags = ['a"b', "\\u0000", "c,]}", "d\x00", "null", "ü\n"]
    await worker.settle(lease, records=[Thing(uid="a", tags=tags), Thing(uid="b", tags=[]), Thing(uid="c")])

    rows = rig.rows(Thing)
    assert {uid: row["tags"] for uid, row in rows.items()} == {"a": orjson.dumps(tags).decode(), "b": "[]", "c": None}


async def test_half_a_character_is_refused_and_is_no_outage(rig: Rig) -> None:
    await rig.submit(calls(1))
    worker = await rig.worker()
    (lease,) = await worker.lease()

    with pytest.raises(StoreError) as refused:
        await worker.settle(lease, records=[Thing.model_construct(uid="a", title="\ud800")])

    assert not isinstance(refused.value, StoreUnavailable)
