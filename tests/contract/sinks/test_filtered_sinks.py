"""Sinks with a condition: a receiver gets price drops and nothing else, on either store."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from forager.app.sink_filter import FilteredSink, conditions
from forager.core.change import Change
from forager.core.errors import Rejected
from forager.core.ledger import NewJob
from forager.core.record import Record
from forager.core.sink import SinkRow
from forager.core.states import TaskState
from forager.core.task import Plan
from tests.support.deliveries import sink_table
from tests.support.delivery_rig import deliver
from tests.support.engine import EngineRig
from tests.support.rig_pipelines import Call, Seen, Thing
from tests.support.sink_suite import open_store, settle

RECORDS: dict[str, type[Record]] = {Thing.kind: Thing, Seen.kind: Seen}


class Kept:
    """A sink that keeps its changes; `refuses` are keys that it never takes."""

    name, kinds, pipelines = "kept", frozenset({"thing"}), None

    def __init__(self) -> None:
        self.got: list[tuple[str, int | None]] = []
        self.refuses: set[str] = set()

    async def write(self, batch: Sequence[Change]) -> None:
        if any(change.key in self.refuses for change in batch):
            raise ValueError("refused")
        self.got += [(change.key, (change.body or {}).get("size")) for change in batch]


@pytest.fixture
async def engine(store: str) -> AsyncIterator[EngineRig]:
    rig = await open_store(store)
    yield rig
    await rig.close()


async def sizes(engine: EngineRig, *things: tuple[str, int]) -> None:
    """One job, in which each thing gets its size by a task of its own."""
    for number, (uid, size) in enumerate(things):
        await engine.ledger.submit(NewJob("rig", {"name": f"{uid} {number}"}), [Plan(Call(name="only"))])
        await settle(engine.ledger, TaskState.COMPLETED, records=(Thing(uid=uid, size=size),))


def delivery_of(
    engine: EngineRig, kept: Kept, where: str, session: Any, pipelines: frozenset[str] | None = None
) -> Any:
    row = SinkRow("kept", "files", kinds=frozenset({"thing"}), pipelines=pipelines, where=where)
    sink = FilteredSink(kept, row, conditions(row, RECORDS), RECORDS, engine.ledger.database)
    return deliver(engine, sink, session)  # type: ignore[arg-type]  # it needs the ledger alone


async def test_a_sink_gets_drops_and_nothing_else_in_one_batch_and_over_several(engine: EngineRig) -> None:
    kept, session = Kept(), await engine.ledger.begin("deliverer")
    delivery = delivery_of(engine, kept, "old.size > size", session)
    await sizes(engine, ("a", 10), ("b", 5), ("a", 8), ("b", 6), ("a", 9))
    assert await delivery.deliver_new()
    assert kept.got == [("a", 8)]
    await sizes(engine, ("a", 3), ("b", 7), ("c", 1))  # the states before are in batches that were passed
    assert await delivery.deliver_new()
    assert kept.got == [("a", 8), ("a", 3)]


async def test_a_replay_gives_the_same_changes(engine: EngineRig) -> None:
    kept, session = Kept(), await engine.ledger.begin("deliverer")
    delivery = delivery_of(engine, kept, "changed(size) and size < 5", session)
    await sizes(engine, ("a", 10), ("a", 4), ("b", 1), ("a", 9), ("a", 2))
    assert await delivery.deliver_new()
    first = list(kept.got)
    assert first == [("a", 4), ("a", 2)]
    await sink_table(engine.ledger).replay("kept", 0)
    assert await delivery.deliver_new()
    assert kept.got == first * 2


async def test_a_refused_change_is_set_aside_and_its_neighbours_keep_their_state_before(engine: EngineRig) -> None:
    kept, session = Kept(), await engine.ledger.begin("deliverer")
    kept.refuses = {"b"}
    delivery = delivery_of(engine, kept, "old.size > size", session)
    await sizes(engine, ("a", 10), ("b", 10), ("b", 9), ("a", 8), ("a", 7))
    assert await delivery.deliver_new()
    assert kept.got == [("a", 8), ("a", 7)]
    (refused,) = (await sink_table(engine.ledger).refused("kept")).items
    assert refused.key == "b"


async def test_changes_of_other_pipelines_are_states_before_and_are_not_delivered(engine: EngineRig) -> None:
    kept, session = Kept(), await engine.ledger.begin("deliverer")
    delivery = delivery_of(engine, kept, "size < 100", session, frozenset({"another"}))
    await sizes(engine, ("a", 10))
    assert await delivery.deliver_new()
    assert kept.got == []


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (SinkRow("x", "files", where="size < 1"), "needs the kinds"),
        (SinkRow("x", "files", kinds=frozenset({"job"}), where="size < 1"), "needs the kinds"),
        (SinkRow("x", "files", kinds=frozenset({"thing"}), where="syze < 1"), r"'size'\? \(at character 1\)"),
        (SinkRow("x", "files", kinds=frozenset({"thing", "seen"}), where="size < 1"), "of seen"),
    ],
)
def test_a_condition_that_cannot_work_is_refused(row: SinkRow, message: str) -> None:
    with pytest.raises(Rejected, match=message) as caught:
        conditions(row, RECORDS)
    assert caught.value.fields[0].field == "where"
