"""Records that are gone and come back, updates without a sighting, and rows that failed validation."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import orjson
import pytest

from forager.core.errors import Rejected
from forager.core.ledger import Extras, Settlement
from forager.core.outcome import Gone, Reject
from forager.core.record import CLEAR, Record
from forager.core.states import TaskState
from tests.support.auditor import Row
from tests.support.rig import Rig, Worker
from tests.support.rig_pipelines import Item, Seen, Thing, calls

NOON = datetime(2026, 3, 14, 12, tzinfo=UTC)
NOON_MS = round(NOON.timestamp() * 1000)


async def _settle(rig: Rig, worker: Worker, *told: tuple[list[Record], Extras | None]) -> None:
    """One group of as many tasks as there are pairs of (records, extras)."""
    await rig.submit(calls(len(told)))
    leases = await worker.lease()
    group = [
        Settlement(lease, TaskState.COMPLETED, records=records, extras=extras)
        for lease, (records, extras) in zip(leases, told, strict=True)
    ]
    assert not (await worker.cycle(group)).fenced


async def _find(rig: Rig, worker: Worker, *found: Record) -> Row:
    await _settle(rig, worker, (list(found), None))
    return rig.rows(type(found[0]))[found[0].key()]


async def _tell(rig: Rig, worker: Worker, **extras: Any) -> Row:
    await _settle(rig, worker, ([], Extras(**extras)))
    return next(iter(rig.rows(Item).values()), {})


async def _told(rig: Rig, kind: str = "item") -> list[tuple[str, str, int]]:
    return [(c.key, c.op, c.version) for c in await rig.ledger.changes(0, 1000) if c.kind == kind]


def _json(value: Any) -> Any:
    return orjson.loads(value) if isinstance(value, str) else value


# ── gone ──


async def test_what_is_gone_has_its_moment_its_evidence_and_one_change(rig: Rig, worker: Worker) -> None:
    seen = await _find(rig, worker, Item(uid="a", title="Lamp", price=Decimal(5)))
    gone = Gone(Item(uid="a", due=CLEAR), "not_found", {"status": 404})
    row = await _tell(rig, worker, gone=[gone])
    assert (row["gone_reason"], _json(row["gone_evidence"])) == ("not_found", {"status": 404})
    assert row["gone_at"] == row["changed_at"] >= seen["last_seen_at"]
    assert (row["version"], row["times_seen"], row["last_seen_at"]) == (2, 1, seen["last_seen_at"])
    assert await _told(rig) == [("a", "new", 1), ("a", "gone", 2)]
    body = next(c.body for c in await rig.ledger.changes(0, 100) if c.op == "gone")
    assert body == {
        "uid": "a",
        "title": "Lamp",
        "price": "5",
        "content": "Lamp/5/None/None",
        "gone": {"reason": "not_found", "evidence": {"status": 404}},
    }


async def test_to_see_again_that_it_is_gone_is_no_change(rig: Rig, worker: Worker) -> None:
    await _find(rig, worker, Item(uid="a"))
    await _tell(rig, worker, gone=[Gone(Item(uid="a"), "not_found", {"status": 404})])
    rig.pass_time(5)
    first = rig.rows(Item)["a"]
    row = await _tell(rig, worker, gone=[Gone(Item(uid="a", etag="x"), "phrase", {"text": "sold"})])
    assert {**row, "etag": None, "every": first["every"]} == first
    assert row["etag"] == "x"
    assert await _told(rig) == [("a", "new", 1), ("a", "gone", 2)]


async def test_what_is_gone_and_seen_again_is_active_again_with_a_change(rig: Rig, worker: Worker) -> None:
    await _find(rig, worker, Item(uid="a", title="Lamp"))
    await _tell(rig, worker, gone=[Gone(Item(uid="a"), "not_found")])
    row = await _find(rig, worker, Item(uid="a"))
    assert (row["gone_at"], row["gone_reason"], row["gone_evidence"]) == (None, None, None)
    assert (row["version"], row["times_seen"], row["title"]) == (3, 2, "Lamp")
    assert await _told(rig) == [("a", "new", 1), ("a", "gone", 2), ("a", "changed", 3)]


async def test_a_thing_without_quiet_fields_can_be_gone_too(rig: Rig, worker: Worker) -> None:
    await _find(rig, worker, Thing(uid="a", title="Bar"))
    await _tell(rig, worker, gone=[Gone(Thing(uid="a"), "closed")])
    await _find(rig, worker, Thing(uid="a", title="Bar"))
    assert await _told(rig, "thing") == [("a", "new", 1), ("a", "gone", 2), ("a", "changed", 3)]


async def test_what_was_never_stored_cannot_be_gone(rig: Rig, worker: Worker) -> None:
    await _tell(rig, worker, gone=[Gone(Item(uid="a"), "not_found")], updates=[Item(uid="b", due=NOON)])
    assert rig.rows(Item) == {}
    assert await _told(rig) == []


async def test_a_thing_is_gone_under_whichever_name_it_is_known_by(rig: Rig, worker: Worker) -> None:
    await _find(rig, worker, Item(uid="place", weak="cid"))
    row = await _tell(rig, worker, gone=[Gone(Item(uid="cid"), "not_found")], updates=[Item(uid="cid", etag="x")])
    assert (row["uid"], row["gone_reason"], row["etag"]) == ("place", "not_found", "x")
    assert await _told(rig) == [("place", "new", 1), ("place", "gone", 2)]


async def test_a_record_of_a_job_is_final(rig: Rig, worker: Worker) -> None:
    with pytest.raises(ValueError, match="never gone"):
        Gone(Seen(uid="a"), "not_found")
    await rig.submit(calls(1))
    (lease,) = await worker.lease()
    with pytest.raises(Rejected, match="are final"):
        await worker.settle(lease, extras=Extras(updates=[Seen(uid="a")]))


async def test_evidence_that_json_cannot_express_is_kept_as_text(rig: Rig, worker: Worker) -> None:
    await _find(rig, worker, Item(uid="a"))
    odd = {"text": "half a character: \ud800", "at": NOON, "nul": "a\0b"}
    row = await _tell(rig, worker, gone=[Gone(Item(uid="a"), "od\0d", odd)])
    assert "half a character" in str(_json(row["gone_evidence"]))
    assert row["gone_reason"] == "od\ufffdd"


# ── updates ──


async def test_an_update_is_no_sighting(rig: Rig, worker: Worker) -> None:
    await _find(rig, worker, Item(uid="a", title="Lamp"))
    rig.pass_time(5)
    seen = rig.rows(Item)["a"]
    row = await _tell(rig, worker, updates=[Item(uid="a", due=NOON)])
    assert {**row, "due": None, "every": 16} == seen
    assert row["due"] == NOON_MS
    row = await _tell(rig, worker, updates=[Item(uid="a", title="Lantern", due=CLEAR)])
    assert (row["title"], row["due"], row["version"], row["times_seen"]) == ("Lantern", None, 2, 1)
    assert row["last_seen_at"] == seen["last_seen_at"] < row["changed_at"]
    assert await _told(rig) == [("a", "new", 1), ("a", "changed", 2)]


async def test_an_update_does_not_bring_back_what_is_gone(rig: Rig, worker: Worker) -> None:
    await _find(rig, worker, Item(uid="a", title="Lamp"))
    gone = await _tell(rig, worker, gone=[Gone(Item(uid="a"), "not_found", {"status": 404})])
    row = await _tell(rig, worker, updates=[Item(uid="a", title="Lantern")])
    assert (row["gone_at"], row["gone_reason"], row["version"]) == (gone["gone_at"], "not_found", 3)
    assert await _told(rig) == [("a", "new", 1), ("a", "gone", 2), ("a", "gone", 3)]


# ── order ──


async def test_a_group_of_settlements_is_stored_in_its_order(rig: Rig, worker: Worker) -> None:
    """Seen, then gone: gone. Gone, then seen: active. An update between two sightings holds until the second."""
    away = Extras(gone=[Gone(Item(uid="a"), "not_found"), Gone(Item(uid="b"), "not_found")])
    await _settle(
        rig,
        worker,
        ([Item(uid="a", due=NOON), Item(uid="b")], None),
        ([Item(uid="c", due=NOON)], away),
        ([Item(uid="b", due=NOON)], Extras(updates=[Item(uid="c", due=CLEAR)])),
        ([Item(uid="c", etag="last")], Extras(updates=[Item(uid="c", etag=CLEAR)])),
    )
    rows = rig.rows(Item)
    assert {uid: row["gone_at"] is not None for uid, row in rows.items()} == {"a": True, "b": False, "c": False}
    assert {uid: row["due"] for uid, row in rows.items()} == {"a": NOON_MS, "b": NOON_MS, "c": None}
    assert rows["c"]["etag"] is None
    told = [change for change in await _told(rig) if change[0] == "b"]
    assert told == [("b", "new", 1), ("b", "gone", 2), ("b", "changed", 3)]


async def test_the_results_of_a_lost_claim_leave_no_trace__PL_6(rig: Rig, worker: Worker) -> None:
    await _find(rig, worker, Item(uid="a"))
    job = (await rig.submit(calls(1))).job
    (lease,) = await worker.lease()
    await worker.settle(lease)
    before = rig.everything()
    extras = Extras([Item(uid="a", title="x")], [Gone(Item(uid="a"), "late")], [Reject(Item, "late", {})])
    assert (await worker.settle(lease, extras=extras)).fenced
    assert rig.everything() == before
    assert rig.job(job)["rejected"] == 0


# ── rejected ──


async def test_a_row_that_fails_validation_is_kept_and_counted_and_changes_nothing(rig: Rig, worker: Worker) -> None:
    good = await _find(rig, worker, Item(uid="a", price=Decimal(5)))
    job = (await rig.submit(calls(2))).job
    leases = await worker.lease()
    bad = Reject(Item, "price: must not be negative", {"uid": "a", "price": -5}, key="a")
    nameless = Reject(Item, "it has no uid", ["no", "object"])
    await worker.settle(leases[0], records=[Item(uid="b")], extras=Extras(rejected=[bad, nameless]))
    await worker.settle(leases[1])
    assert rig.rows(Item)["a"] == good
    assert rig.job(job)["rejected"] == 2
    rows = rig.tables.read("SELECT * FROM rejected ORDER BY id")
    assert [(row["kind"], row["key"], row["reason"], _json(row["payload"])) for row in rows] == [
        ("item", "a", "price: must not be negative", {"uid": "a", "price": -5}),
        ("item", None, "it has no uid", ["no", "object"]),
    ]
    assert {row["task_id"] for row in rows} == {leases[0].task_id}


async def test_no_payload_however_odd_makes_its_settlement_fail(rig: Rig, worker: Worker) -> None:
    odd = [{"x": "\ud800"}, 2**80, {1: b"bytes"}, "a\0b", None, {"long": "x" * 100_000}, object()]
    await _tell(rig, worker, rejected=[Reject(Item, "o\0dd", payload, key="k\0") for payload in odd])
    rows = rig.tables.read("SELECT * FROM rejected ORDER BY id")
    assert len(rows) == len(odd)
    assert list(_json(rows[5]["payload"])) == ["truncated"]
    assert {row["key"] for row in rows} == {"k\ufffd"}
