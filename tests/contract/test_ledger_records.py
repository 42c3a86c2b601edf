"""Records and the change log: merged by natural key, logged once per version, numbered densely."""

import asyncio

from forager.core.ledger import Settlement
from forager.core.states import TaskState
from tests.support.rig import Rig, Worker
from tests.support.rig_pipelines import Seen, Thing, calls


async def _find(rig: Rig, worker: Worker, *found: Thing | Seen) -> None:
    """One job of one task that found these."""
    await rig.submit(calls(1))
    (lease,) = await worker.lease()
    assert not (await worker.settle(lease, records=found)).fenced


async def _told(rig: Rig, kind: str) -> list[tuple[str, str, int]]:
    return [(c.key, c.op, c.version) for c in await rig.ledger.changes(0, 1000) if c.kind == kind]


async def test_a_thing_is_new_then_unchanged_then_changed(rig: Rig, worker: Worker) -> None:
    await _find(rig, worker, Thing(uid="a", title="Bar"))
    await _find(rig, worker, Thing(uid="a", title="Bar"))
    await _find(rig, worker, Thing(uid="a", title="Café", size=3))
    assert await _told(rig, "thing") == [("a", "new", 1), ("a", "changed", 2)]
    row = rig.rows(Thing)["a"]
    assert (row["title"], row["size"], row["version"], row["times_seen"]) == ("Café", 3, 2, 3)


async def test_a_field_that_an_answer_leaves_out_overwrites_nothing__PL_13(rig: Rig, worker: Worker) -> None:
    await _find(rig, worker, Thing(uid="a", title="Bar", size=3, open=True, tags=["x"]))
    await _find(rig, worker, Thing(uid="a"))
    assert await _told(rig, "thing") == [("a", "new", 1)]
    row = rig.rows(Thing)["a"]
    assert (row["title"], row["size"], bool(row["open"])) == ("Bar", 3, True)


async def test_a_change_carries_the_whole_known_value(rig: Rig, worker: Worker) -> None:
    await _find(rig, worker, Thing(uid="a", title="Bar", open=True, tags=["x", "y"]))
    await _find(rig, worker, Thing(uid="a", size=9))
    bodies = [c.body for c in await rig.ledger.changes(0, 100) if c.kind == "thing"]
    first = {"uid": "a", "title": "Bar", "open": True, "tags": ["x", "y"]}
    assert bodies == [first, {**first, "size": 9}]
    assert bodies[1]["open"] is True  # type: ignore[index]


async def test_within_one_group_a_record_changes_once(rig: Rig, worker: Worker) -> None:
    await _find(rig, worker, Thing(uid="a", title="x"), Thing(uid="a", size=1), Thing(uid="b"))
    assert await _told(rig, "thing") == [("a", "new", 1), ("b", "new", 1)]
    assert rig.rows(Thing)["a"]["size"] == 1
    assert rig.rows(Thing)["a"]["times_seen"] == 2


async def test_the_first_in_a_job_wins_and_later_ones_count__PL_13(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(calls(3))).job
    for i, lease in enumerate(await worker.lease()):
        await worker.settle(lease, records=[Seen(uid="a", note=f"page {i}")])
    row = rig.rows(Seen)["a"]
    assert (row["note"], row["times_seen"]) == ("page 0", 3)
    assert rig.job(job)["records"] == 1
    assert await _told(rig, "seen") == [("a", "new", 1)]


async def test_a_record_that_one_answer_contains_twice_was_seen_twice(rig: Rig, worker: Worker) -> None:
    await _find(rig, worker, Seen(uid="a", note="page 0"), Seen(uid="b", note="page 0"), Seen(uid="a", note="page 1"))
    rows = rig.rows(Seen)
    assert (rows["a"]["note"], rows["a"]["times_seen"], rows["b"]["times_seen"]) == ("page 0", 2, 1)


async def test_each_job_has_its_own_sighting__PL_13(rig: Rig, worker: Worker) -> None:
    await _find(rig, worker, Seen(uid="a", note="one"))
    await _find(rig, worker, Seen(uid="a", note="two"))
    assert [r["note"] for r in rig.tables.read("SELECT note FROM rig_seen ORDER BY id")] == ["one", "two"]


async def test_discoveries_are_counted_where_they_were_made(rig: Rig, worker: Worker) -> None:
    await _find(rig, worker, Thing(uid="a"), Thing(uid="b"))
    await _find(rig, worker, Thing(uid="a"), Thing(uid="c"))
    assert [r["discoveries"] for r in rig.tables.read("SELECT discoveries FROM jobs ORDER BY id")] == [2, 1]


async def test_a_weaker_name_becomes_an_alias_of_the_stronger__PL_13(rig: Rig, worker: Worker) -> None:
    await _find(rig, worker, Thing(uid="cid", title="Bar"), Seen(uid="cid"))
    await _find(rig, worker, Thing(uid="place", weak="cid", size=2), Seen(uid="place"))
    rows = rig.rows(Thing)
    assert list(rows) == ["place"]
    assert (rows["place"]["title"], rows["place"]["size"], rows["place"]["times_seen"]) == ("Bar", 2, 2)
    assert {r["uid"] for r in rig.tables.read("SELECT uid FROM rig_seen")} == {"place"}
    assert await _told(rig, "thing") == [("cid", "new", 1), ("cid", "gone", 2), ("place", "changed", 2)]


async def test_a_rename_is_logged_even_if_nothing_else_changed__PL_13(rig: Rig, worker: Worker) -> None:
    """Whoever mirrors the log would keep the old name for ever."""
    await _find(rig, worker, Thing(uid="cid", weak=None))
    await _find(rig, worker, Thing(uid="place", weak="cid"))
    last = (await rig.ledger.changes(0, 100))[-2]
    assert (last.key, last.op) == ("place", "changed")


async def test_answers_under_the_weaker_name_find_the_stronger__PL_13(rig: Rig, worker: Worker) -> None:
    await _find(rig, worker, Thing(uid="place", weak="cid"))
    await _find(rig, worker, Thing(uid="cid", title="Bar"), Seen(uid="cid"))
    assert list(rig.rows(Thing)) == ["place"]
    assert rig.rows(Thing)["place"]["title"] == "Bar"
    assert list(rig.rows(Seen)) == ["place"]


async def test_an_alias_of_an_alias_leads_to_the_strongest__PL_13(rig: Rig, worker: Worker) -> None:
    await _find(rig, worker, Thing(uid="cid", weak="hash"))
    await _find(rig, worker, Thing(uid="place", weak="cid"))
    await _find(rig, worker, Thing(uid="hash", title="Bar"))
    assert list(rig.rows(Thing)) == ["place"]
    assert rig.rows(Thing)["place"]["title"] == "Bar"


async def test_where_both_names_have_a_row_they_become_one__PL_13(rig: Rig, worker: Worker) -> None:
    await _find(rig, worker, Thing(uid="cid", title="Bar", size=1))
    await _find(rig, worker, Thing(uid="place", size=2))
    await _find(rig, worker, Thing(uid="place", weak="cid"))
    row = rig.rows(Thing)["place"]
    assert list(rig.rows(Thing)) == ["place"]
    assert (row["title"], row["size"], row["times_seen"]) == ("Bar", 2, 3)


async def test_both_names_in_one_answer_are_one_thing__PL_13(rig: Rig, worker: Worker) -> None:
    await _find(rig, worker, Thing(uid="cid", title="Bar"), Thing(uid="place", weak="cid"), Thing(uid="cid", size=1))
    row = rig.rows(Thing)["place"]
    assert (row["title"], row["size"], row["times_seen"]) == ("Bar", 1, 3)
    assert await _told(rig, "thing") == [("place", "new", 1)]


async def test_odd_text_is_stored_as_it_is(rig: Rig, worker: Worker) -> None:
    odd = "Zoë’s 'Bar' \\ \"q\" \u202e 漢字 🍸 %s :x ?1 {}"
    await _find(rig, worker, Thing(uid=odd, title=odd, tags=[odd]))
    assert rig.rows(Thing)[odd]["title"] == odd
    (change,) = [c for c in await rig.ledger.changes(0, 10) if c.kind == "thing"]
    assert change.body == {"uid": odd, "title": odd, "tags": [odd]}


async def test_a_name_with_a_nul_in_it_is_one_thing_however_often_it_is_found(rig: Rig, worker: Worker) -> None:
    for size in (1, 2):
        await _find(rig, worker, Thing(uid="a\0b", size=size), Seen(uid="a\0b"))
    assert [(op, version) for _, op, version in await _told(rig, "thing")] == [("new", 1), ("changed", 2)]
    (row,) = rig.rows(Thing).values()
    assert (row["size"], row["times_seen"]) == (2, 2)


async def test_change_numbers_are_dense_and_in_order_under_load_trap_1(rig: Rig, worker: Worker) -> None:
    """A reader that follows the log while many write it sees every number once, and no later one before it."""
    job = (await rig.submit(calls(200))).job
    leases = await worker.lease(200)
    read: list[int] = []

    async def follow() -> None:
        while len(read) < 402:
            read.extend(c.id for c in await rig.ledger.changes(read[-1] if read else 0, 37))
            await asyncio.sleep(0)

    follower = asyncio.ensure_future(follow())
    await asyncio.gather(
        *(
            rig.ledger.settle_and_lease(
                worker.session,
                [Settlement(lease, TaskState.COMPLETED, records=[Thing(uid=f"u{i}"), Seen(uid=f"u{i}")])],
                [],
            )
            for i, lease in enumerate(leases)
        )
    )
    await asyncio.wait_for(follower, 60)
    assert read == list(range(1, 403))
    assert [c.op for c in await rig.ledger.changes(0, 1000, job=job) if c.kind == "job"] == ["created", "ended"]


async def test_changes_are_read_in_pages_and_by_job(rig: Rig, worker: Worker) -> None:
    await _find(rig, worker, Thing(uid="a"), Thing(uid="b"), Thing(uid="c"))
    page = await rig.ledger.changes(1, 2)
    assert [c.id for c in page] == [2, 3]
    other = (await rig.submit(calls(1))).job
    assert [c.op for c in await rig.ledger.changes(0, 10, job=other)] == ["created"]
