"""Guarantees of every sink: order, faults, replays, poison. `test_kills` has the processes that are killed."""

import asyncio
from pathlib import Path

import asyncpg
import pytest

from forager.core.ledger import NewJob
from forager.core.states import TaskState
from forager.core.task import Plan
from tests.contract.sinks.conftest import Rig
from tests.support.chaos import Dice
from tests.support.deliveries import sink_table
from tests.support.rig_pipelines import Call, Seen, Thing
from tests.support.sink_suite import in_order, log_of, settle

DEAR = frozenset({"bigquery", "clickhouse", "duckdb", "s3"})
"""Members whose every batch takes a good part of a second."""
HOSTILE = (
    "=HYPERLINK(1)",
    "+1+cmd|' /C calc'!A0",
    "@SUM(1)",
    "../../outside",
    "/etc/passwd",
    "a/b\\c",
    "x'; DROP TABLE changes; --",
    "`x`; SELECT 1",
    '"}\n{"id":1,"kind":"thing"}',
    "line\nbreak\r\nand\ttab",
    "\u2028\u2029\x85\x1b[31m",
    "{{7*7}}${7*7}%s%n",
    "*",
    "_all",
)
"""Formulas, paths, identifiers, JSON and log lines: as keys and as values."""


async def test_a_new_sink_gets_everything_once_and_in_order_for_each_key(rig: Rig) -> None:
    await rig.make_changes()
    await rig.deliver()
    await rig.check()
    await rig.make_changes(2)
    await rig.deliver()
    await rig.check()
    assert any(len(about) > 1 for about in in_order(rig.member.wanted(await log_of(rig.engine.ledger))).values()) or (
        rig.member.keeps_states
    ), "something must have come more than once, or its order shows nothing"


@pytest.mark.parametrize("lost", [50, pytest.param(1_000, marks=[pytest.mark.chaos, pytest.mark.timeout(3_600)])])
async def test_answers_that_are_lost_after_the_effect_double_nothing__R17(rig: Rig, lost: int) -> None:
    if rig.member.name in DEAR:
        lost //= 10
    dice = Dice()
    rig.sink.answers_lost, rig.sink.loses = lost, lambda: dice.between(1, 5) > 1
    for _ in range(max(1, lost // 50)):
        await rig.make_changes(8)
        await rig.deliver()
    while rig.sink.answers_lost:  # old changes again, some of them more than once
        await sink_table(rig.engine.ledger).replay(rig.sink.name, 0)
        await rig.deliver()
    await rig.check()


async def test_a_replay_from_zero_has_the_same_effect_as_once(rig: Rig) -> None:
    await rig.make_changes()
    await rig.deliver()
    before = rig.effects
    batches = len(rig.sink.batches)
    await sink_table(rig.engine.ledger).replay(rig.sink.name, 0)
    await rig.deliver()
    assert len(rig.sink.batches) > batches, "it came again"
    assert rig.effects == before
    await rig.make_changes(1)
    await rig.deliver()
    await rig.check()


async def test_a_sink_that_was_down_gets_everything_when_it_is_back(rig: Rig) -> None:
    await rig.make_changes(1)
    await rig.deliver()
    rig.sink.down = True
    await rig.make_changes(2)
    for _ in range(3):
        assert not await rig.delivery.deliver_new()
        rig.clock.pass_(60)
    missing = len(rig.effects)
    rig.sink.down = False
    await rig.deliver()
    assert len(rig.effects) > missing
    await rig.check()


async def test_one_poison_change_is_set_aside_and_the_rest_continues(rig: Rig) -> None:
    await rig.make_changes()
    poison = await _that_matters(rig)
    rig.sink.poison = {poison}
    await rig.deliver()
    assert in_order(rig.effects) == in_order(await rig.wanted(without=poison))
    sinks = sink_table(rig.engine.ledger)
    (refused,) = (await sinks.refused(rig.sink.name)).items
    assert (refused.change, refused.tries) == (poison, 5)
    rig.sink.poison = set()
    await sinks.retry(rig.sink.name)
    await rig.deliver()
    assert sorted(rig.effects) == sorted(await rig.wanted()), "late, but there"
    assert (await sinks.refused(rig.sink.name)).items == []
    await sinks.replay(rig.sink.name, 0)
    await rig.deliver()
    assert sorted(rig.effects) == sorted(await rig.wanted()), "and a replay does not double it"


async def test_hostile_keys_and_values_arrive_as_they_are_and_have_no_other_effect__S17__S18__S19__S20(
    rig: Rig, tmp_path: Path
) -> None:
    beside = set(tmp_path.parent.iterdir())
    ledger = rig.engine.ledger
    await ledger.submit(NewJob("rig", {"name": HOSTILE[6]}), [Plan(Call(name=HOSTILE[8]))])
    things = [Thing(uid=text, title=text, tags=list(HOSTILE)) for text in HOSTILE]
    await settle(ledger, TaskState.COMPLETED, records=(*things, *(Seen(uid=text) for text in HOSTILE)))
    await rig.deliver()
    await rig.check()
    assert len(await rig.wanted()) >= (1 if rig.member.name == "webhook" else len(HOSTILE))
    assert set(tmp_path.parent.iterdir()) == beside
    assert not [path for path in tmp_path.rglob("*") if "outside" in path.name or "passwd" in path.name]
    assert (await sink_table(ledger).refused(rig.sink.name)).items == []


@pytest.mark.parametrize("store", ["postgres"], indirect=True)
async def test_a_late_commit_is_neither_skipped_nor_out_of_order_trap_1(rig: Rig, store: str) -> None:
    """While one transaction with a change is open, another begins later; the first commits late. What a numbering loses
    that does not wait for it is shown in `tests/contract/test_change_numbers.py`, by two negative controls."""
    await rig.make_changes(1)
    await rig.deliver()
    late = await asyncpg.connect(store)
    transaction = late.transaction()
    await transaction.start()
    version = await late.fetchval(
        "UPDATE rig_things SET size = 77, version = version + 1 WHERE uid = 'known' RETURNING version"
    )
    number = await late.fetchval("UPDATE tail SET change = change + 1 RETURNING change")
    await late.execute(
        "INSERT INTO changes (id, kind, key, op, version, job_id, at, body)"
        " SELECT $1, 'thing', 'known', 'changed', $2, max(id), 0, '{\"uid\": \"known\", \"size\": 77}' FROM jobs",
        number,
        version,
    )
    quick = asyncio.create_task(rig.make_changes(2))
    await asyncio.sleep(0)
    await rig.deliver()
    assert (await log_of(rig.engine.ledger))[-1].id < number, "nothing after the late one can be read before it"
    await transaction.commit()
    await late.close()
    async with asyncio.timeout(60):
        await quick
    await rig.deliver()
    assert [change.id for change in await log_of(rig.engine.ledger)][number - 1 : number + 2] == [
        number,
        number + 1,
        number + 2,
    ]
    await rig.check()


async def _that_matters(rig: Rig) -> int:
    """A change in the middle without which something would be missing."""
    changes = await log_of(rig.engine.ledger)
    alone = [change.id for change in changes if rig.member.wanted([change])]
    whole = rig.member.wanted(changes)
    return next(n for n in alone[1:] if rig.member.wanted([c for c in changes if c.id != n]) != whole)
