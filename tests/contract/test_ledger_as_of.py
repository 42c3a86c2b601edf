"""Lists of records as of a moment: the state of each at that time, whatever happened since."""

import random
import sys
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from forager.core.errors import Rejected
from forager.core.ledger import Extras
from forager.core.outcome import Gone
from forager.core.record import CLEAR, Record
from forager.core.upkeep import Keep
from forager.ledger.reports import LedgerReports
from tests.support.rig import Rig, Worker
from tests.support.rig_pipelines import Item, Seen, Thing, calls

LOUD = ("uid", "title", "price", "stock", "parts", "weak", "content", "version", "changed_at", "first_seen_at")
GONE = ("gone_at", "gone_reason", "gone_evidence")
UNKNOWN = ("due", "etag", "every", "last_seen_at", "times_seen")


async def find(rig: Rig, worker: Worker, *found: Record, extras: Extras | None = None) -> UUID:
    """One job of one task that found these."""
    job = (await rig.submit(calls(1))).job
    (lease,) = await worker.lease()
    assert not (await worker.settle(lease, records=found, extras=extras)).fenced
    return job


async def moment(rig: Rig) -> datetime:
    """Return a moment after everything before and before everything after."""
    now = await rig.ledger.now()
    if rig.clock is not None:
        rig.pass_time(1)
    return now


async def listed(rig: Rig, kind: str, as_of: datetime | None, **more: Any) -> dict[str, Mapping[str, Any]]:
    reports = LedgerReports(rig.ledger.database, rig.catalog)
    pages = [page async for page in reports.export(kind, as_of=as_of, **more)]
    return {row["uid"]: row for page in pages for row in page}


async def test_a_record_has_its_state_of_that_time_even_without_its_later_versions(rig: Rig, worker: Worker) -> None:
    lamp = Item(uid="a", title="Lamp", price=Decimal("9.90"), stock="in", parts=["bulb"], etag="1")
    await find(rig, worker, lamp, Item(uid="same", title="Chair"))
    first = await moment(rig)
    before = await listed(rig, "item", None)
    await find(rig, worker, Item(uid="a", title="Lantern", price=CLEAR), Item(uid="same", etag="2"), Item(uid="new"))
    second = await moment(rig)
    await find(rig, worker, Item(uid="a", stock="out"))

    then = await listed(rig, "item", first)
    assert then.keys() == {"a", "same"}
    for uid, row in then.items():
        assert {name: row[name] for name in (*LOUD, *GONE)} == {name: before[uid][name] for name in (*LOUD, *GONE)}
        assert {row[name] for name in UNKNOWN} == {None}
        assert row.keys() == before[uid].keys()
    later = (await listed(rig, "item", second))["a"]
    assert (later["title"], later["price"], later["stock"], later["version"]) == ("Lantern", None, "in", 2)
    assert (await listed(rig, "item", await moment(rig)))["a"]["stock"] == "out"


async def test_a_record_gone_at_that_time_is_gone_even_if_it_has_come_back(rig: Rig, worker: Worker) -> None:
    await find(rig, worker, Item(uid="a", title="Lamp"))
    there = await moment(rig)
    await find(rig, worker, extras=Extras(gone=[Gone(Item(uid="a"), "not_found", {"status": 404})]))
    gone = await moment(rig)
    await find(rig, worker, extras=Extras(updates=[Item(uid="a", title="Lantern")]))
    updated = await moment(rig)
    stored = (await listed(rig, "item", None))["a"]
    await find(rig, worker, Item(uid="a", stock="in"))

    assert (await listed(rig, "item", there))["a"]["gone_at"] is None
    for as_of, title in ((gone, "Lamp"), (updated, "Lantern")):
        row = (await listed(rig, "item", as_of))["a"]
        assert row["title"] == title
        assert {name: row[name] for name in GONE} == {name: stored[name] for name in GONE}
        assert (row["gone_reason"], row["gone_evidence"]) == ("not_found", {"status": 404})
    assert (await listed(rig, "item", await moment(rig)))["a"]["gone_at"] is None


async def test_filters_apply_to_the_state_of_that_time(rig: Rig, worker: Worker) -> None:
    await find(rig, worker, Thing(uid="a", title="Lamp"), Thing(uid="b", title="Chair"), Thing(uid="c", title="Lamp"))
    then = await moment(rig)
    await find(rig, worker, Thing(uid="a", title="Chair"), Thing(uid="b", title="Lamp"))
    assert (await listed(rig, "thing", then, filters={"title": "Lamp"})).keys() == {"a", "c"}
    assert (await listed(rig, "thing", None, filters={"title": "Lamp"})).keys() == {"b", "c"}
    with pytest.raises(Rejected):
        await listed(rig, "thing", then, filters={"size": "1"})


async def test_records_of_a_job_and_records_of_job_scope_are_those_of_then(rig: Rig, worker: Worker) -> None:
    job = await find(rig, worker, Thing(uid="a", size=1), Seen(uid="a", note="as seen"))
    other = await find(rig, worker, Thing(uid="b", size=1), Seen(uid="b"))
    then = await moment(rig)
    await find(rig, worker, Thing(uid="a", size=2), Seen(uid="a"))
    row = (await listed(rig, "thing", then, job=job))["a"]
    assert (row["size"], row["version"]) == (1, 1)
    assert await listed(rig, "thing", then, job=other) == await listed(rig, "thing", then, filters={"uid": "b"})
    reports = LedgerReports(rig.ledger.database, rig.catalog)
    assert {row["job"] for row in (await reports.export_page("seen", as_of=then)).items} == {job, other}
    assert len((await reports.export_page("seen")).items) == 3


async def test_a_record_with_a_stronger_key_today_is_listed_under_the_key_of_that_time(
    rig: Rig, worker: Worker
) -> None:
    await find(rig, worker, Thing(uid="weak", title="Lamp"))
    then = await moment(rig)
    await find(rig, worker, Thing(uid="strong", weak="weak", size=3))
    row = (await listed(rig, "thing", then))["weak"]
    assert (row["title"], row["size"], row["version"]) == ("Lamp", None, 1)
    assert (await listed(rig, "thing", await moment(rig))).keys() == {"strong"}


async def test_a_removed_version_is_an_error_with_the_record_and_the_oldest_version(rig: Rig, worker: Worker) -> None:
    await find(rig, worker, Item(uid="a", title="Lamp"), Item(uid="same", title="Chair"))
    then = await moment(rig)
    rig.pruned = True
    while (await rig.ledger.prune(Keep(changes=1e-9), [])).more:
        pass
    assert (await listed(rig, "item", then)).keys() == {"a", "same"}, "what has not changed needs no log"
    if rig.clock is not None:
        rig.pass_time(1)
    await find(rig, worker, Item(uid="a", title="Lantern"))
    with pytest.raises(Rejected) as refused:
        await listed(rig, "item", then)
    assert "what the item 'a' was at that moment was removed by retention" in refused.value.message
    assert "The oldest version that is left is of 20" in refused.value.message
    assert (await listed(rig, "item", await moment(rig)))["a"]["title"] == "Lantern"


async def test_pages_follow_one_another_and_belong_to_their_moment(rig: Rig, worker: Worker) -> None:
    await find(rig, worker, *(Item(uid=f"i{number}", title="old") for number in range(7)))
    then = await moment(rig)
    await find(rig, worker, *(Item(uid=f"i{number}", title="new") for number in range(9)))
    reports = LedgerReports(rig.ledger.database, rig.catalog)
    page = await reports.export_page("item", as_of=then, limit=3)
    rows = await listed(rig, "item", then, limit=3)
    assert {row["title"] for row in rows.values()} == {"old"}
    assert len(rows) == 7
    for as_of in (None, await moment(rig)):
        with pytest.raises(Rejected):
            await reports.export_page("item", as_of=as_of, limit=3, cursor=page.next_cursor)


async def test_every_state_of_a_random_history_is_listed_as_it_was(rig: Rig, worker: Worker) -> None:
    seed = random.randrange(2**32)
    sys.stdout.write(f"seed {seed}\n")
    chance = random.Random(seed)
    states: list[tuple[datetime, dict[str, dict[str, Any]]]] = []
    for _ in range(12):
        item = Item(
            uid=chance.choice("abc"),
            title=chance.choice((None, "x", "y")),
            price=chance.choice((None, CLEAR, Decimal("1.25"))),
            etag=chance.choice((None, "1")),
        )
        gone = chance.random() < 0.3
        extras = Extras(gone=[Gone(item, "sold", {"n": 1})]) if gone else None
        await find(rig, worker, *([] if gone else [item]), extras=extras)
        now = await listed(rig, "item", None)
        states.append((await moment(rig), {u: {n: row[n] for n in (*LOUD, *GONE)} for u, row in now.items()}))
    for as_of, state in states:
        rows = await listed(rig, "item", as_of)
        assert {u: {n: row[n] for n in (*LOUD, *GONE)} for u, row in rows.items()} == state
