"""Quiet, cleared and derived fields: what is written without a change, removed, and computed after the merge."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from forager.core.record import CLEAR
from tests.support.rig import Rig, Worker
from tests.support.rig_pipelines import Item, calls

NOON = datetime(2026, 3, 14, 12, tzinfo=UTC)
NOON_MS = round(NOON.timestamp() * 1000)


async def _find(rig: Rig, worker: Worker, *found: Item) -> dict[str, Any]:
    """One job of one task that found these. Returns the row of the first."""
    await rig.submit(calls(1))
    (lease,) = await worker.lease()
    assert not (await worker.settle(lease, records=found)).fenced
    return rig.rows(Item)[found[0].uid]


async def _told(rig: Rig) -> list[tuple[str, int]]:
    return [(c.op, c.version) for c in await rig.ledger.changes(0, 1000) if c.kind == "item"]


async def test_a_quiet_field_is_written_without_a_change_and_without_a_new_version(rig: Rig, worker: Worker) -> None:
    first = await _find(rig, worker, Item(uid="a", title="Lamp"))
    row = await _find(rig, worker, Item(uid="a", due=NOON, etag="x"))
    assert (row["due"], row["etag"], row["title"]) == (NOON_MS, "x", "Lamp")
    assert (row["version"], row["changed_at"], row["times_seen"]) == (1, first["changed_at"], 2)
    assert await _told(rig) == [("new", 1)]


async def test_a_change_has_no_quiet_field_in_its_body(rig: Rig, worker: Worker) -> None:
    await _find(rig, worker, Item(uid="a", title="Lamp", price=Decimal("9.90"), due=NOON, etag="x"))
    await _find(rig, worker, Item(uid="a", title="Lantern", etag="y"))
    bodies = [c.body for c in await rig.ledger.changes(0, 100) if c.kind == "item"]
    assert bodies == [
        {"uid": "a", "title": "Lamp", "price": "9.9", "content": "Lamp/9.9/None/None"},
        {"uid": "a", "title": "Lantern", "price": "9.9", "content": "Lantern/9.9/None/None"},
    ]


async def test_a_quiet_field_beside_a_loud_one_is_one_change(rig: Rig, worker: Worker) -> None:
    await _find(rig, worker, Item(uid="a", title="Lamp"))
    row = await _find(rig, worker, Item(uid="a", title="Lantern", due=NOON))
    assert (row["due"], row["version"]) == (NOON_MS, 2)
    assert await _told(rig) == [("new", 1), ("changed", 2)]


async def test_none_keeps_a_quiet_field_and_clear_removes_it(rig: Rig, worker: Worker) -> None:
    await _find(rig, worker, Item(uid="a", due=NOON, etag="x"))
    row = await _find(rig, worker, Item(uid="a", due=None, etag=CLEAR))
    assert (row["due"], row["etag"], row["version"]) == (NOON_MS, None, 1)
    row = await _find(rig, worker, Item(uid="a", due=CLEAR))
    assert (row["due"], row["version"]) == (None, 1)
    assert await _told(rig) == [("new", 1)]


async def test_clearing_a_loud_field_is_a_change(rig: Rig, worker: Worker) -> None:
    await _find(rig, worker, Item(uid="a", price=Decimal(5)))
    row = await _find(rig, worker, Item(uid="a", price=CLEAR))
    assert (row["price"], row["version"]) == (None, 2)
    last = [c.body for c in await rig.ledger.changes(0, 100) if c.kind == "item"][-1]
    assert last == {"uid": "a", "content": "None/None/None/None"}


async def test_what_is_new_can_be_clear_from_the_start(rig: Rig, worker: Worker) -> None:
    row = await _find(rig, worker, Item(uid="a", price=CLEAR, due=CLEAR))
    assert (row["price"], row["due"]) == (None, None)


async def test_a_derived_field_is_computed_from_what_is_known_after_the_merge(rig: Rig, worker: Worker) -> None:
    """A hash over the page's own values would change because the page left some out."""
    await _find(rig, worker, Item(uid="a", title="Lamp", price=Decimal(5), stock="in", parts=["bulb"]))
    row = await _find(rig, worker, Item(uid="a", title="Lamp"))
    assert row["content"] == "Lamp/5/in/['bulb']"
    assert await _told(rig) == [("new", 1)]
    row = await _find(rig, worker, Item(uid="a", stock="out", content="whatever the step wrote"))
    assert row["content"] == "Lamp/5/out/['bulb']"
    assert await _told(rig) == [("new", 1), ("changed", 2)]


async def test_a_derived_field_can_depend_on_what_was_stored(rig: Rig, worker: Worker) -> None:
    assert (await _find(rig, worker, Item(uid="a", price=Decimal(5))))["every"] == 16
    assert (await _find(rig, worker, Item(uid="a")))["every"] == 17
    row = await _find(rig, worker, Item(uid="a", price=Decimal(6)))
    assert (row["every"], row["version"]) == (8, 2)


async def test_several_sightings_in_one_group_are_merged_in_their_order(rig: Rig, worker: Worker) -> None:
    first = [Item(uid="a", price=Decimal(5), due=NOON), Item(uid="a", due=CLEAR), Item(uid="a", price=Decimal(6))]
    row = await _find(rig, worker, *first)
    assert (row["due"], row["every"], row["times_seen"], row["version"]) == (None, 8, 3, 1)
    row = await _find(rig, worker, Item(uid="a", due=CLEAR), Item(uid="a", due=NOON), Item(uid="a"))
    assert (row["due"], row["every"], row["times_seen"], row["version"]) == (NOON_MS, 11, 6, 1)


async def test_a_rename_keeps_quiet_fields_and_derives_the_others_again(rig: Rig, worker: Worker) -> None:
    await _find(rig, worker, Item(uid="cid", title="Lamp", due=NOON))
    await _find(rig, worker, Item(uid="place", price=Decimal(5)))
    await _find(rig, worker, Item(uid="place", weak="cid"))
    rows = rig.rows(Item)
    assert list(rows) == ["place"]
    assert (rows["place"]["due"], rows["place"]["content"]) == (NOON_MS, "Lamp/5/None/None")


async def test_changed_at_moves_with_changes_and_last_seen_at_with_sightings(rig: Rig, worker: Worker) -> None:
    await _find(rig, worker, Item(uid="a", title="Lamp"))
    rig.pass_time(5)
    first = rig.rows(Item)["a"]
    seen = await _find(rig, worker, Item(uid="a", title="Lamp"))
    assert seen["changed_at"] == first["changed_at"]
    assert seen["last_seen_at"] > first["last_seen_at"]
    rig.pass_time(5)
    row = await _find(rig, worker, Item(uid="a", title="Lantern"))
    assert row["changed_at"] == row["last_seen_at"] > seen["last_seen_at"]


async def test_partial_and_descending_indexes_are_made_as_they_are_declared(rig: Rig) -> None:
    if rig.clock is not None:
        rows = rig.tables.read("SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name = 'rig_items'")
    else:
        rows = rig.tables.read(
            "SELECT indexname AS name, indexdef AS sql FROM pg_indexes WHERE tablename = 'rig_items'"
        )
    made = {
        row["name"]: (row["sql"] or "").replace("(due IS", "due IS").replace("(gone_at IS", "gone_at IS")
        for row in rows
    }
    assert "WHERE due IS NOT NULL" in made["ix_rig_items_due_uid"]
    assert "price DESC, id" in made["ix_rig_items_price_id"]
    assert "WHERE gone_at IS NULL" in made["ix_rig_items_price_id"]
