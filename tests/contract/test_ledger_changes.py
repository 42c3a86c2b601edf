"""A change is whole when it is read: public ids, and a body, also for records of job scope."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import orjson
import pytest

from forager.core.change import Change
from forager.core.record import Record
from forager.ledger.sqlite import SqliteLedger
from tests.support.places_rig import found, postgres_places, sqlite_places
from tests.support.rig import Rig, Worker
from tests.support.rig_pipelines import Item, Seen, Thing, calls

NASTY = 'a\n"quoted" \\ \u2028 é 😀'


async def _find(rig: Rig, worker: Worker, *found: Record) -> Any:
    """One job of one task that found these; returns the job."""
    job = (await rig.submit(calls(1))).job
    (lease,) = await worker.lease()
    assert not (await worker.settle(lease, records=found)).fenced
    return job


async def _seen(rig: Rig, **asked: Any) -> list[Change]:
    return [change for change in await rig.ledger.changes(0, 1_000, **asked) if change.kind == "seen"]


async def test_a_change_of_a_record_of_job_scope_has_its_body_and_public_ids(rig: Rig, worker: Worker) -> None:
    first = await _find(rig, worker, Seen(uid="a", note="one"), Thing(uid="a", tags=["x"], open=False))
    second = await _find(rig, worker, Seen(uid="a", note="two"), Seen(uid="b"))
    assert [(c.key, c.op, c.job, c.pipeline, c.body) for c in await _seen(rig)] == [
        ("a", "new", first, "rig", {"uid": "a", "note": "one"}),
        ("a", "new", second, "rig", {"uid": "a", "note": "two"}),
        ("b", "new", second, "rig", {"uid": "b"}),
    ]
    changes = await rig.ledger.changes(0, 100)
    (thing,) = [change for change in changes if change.kind == "thing"]
    assert (thing.job, thing.pipeline, thing.body) == (first, "rig", {"uid": "a", "tags": ["x"], "open": False})
    assert {(c.job, c.pipeline) for c in changes if c.kind == "job"} == {(first, "rig"), (second, "rig")}


async def test_the_json_of_a_body_has_its_values_as_they_are_shown(rig: Rig, worker: Worker) -> None:
    item = Item(uid="a", title=NASTY, price=Decimal("19.90"), parts=[NASTY, ""], stock="in")
    await _find(rig, worker, item, Seen(uid="a", note=NASTY))
    by_kind = {change.kind: change for change in await rig.ledger.changes(0, 100)}
    for change in (by_kind[kind] for kind in ("item", "seen", "job")):
        encoded = orjson.dumps(change.json), orjson.dumps(change.fields)
        assert change.body, "what is read last is decoded last"
        assert [orjson.loads(each) for each in encoded] == [change.body, change.body]
        assert orjson.loads(orjson.dumps(change.json)) == change.body
        assert replace(change) == change
    shown = {"title": NASTY, "price": "19.9", "parts": [NASTY, ""]}
    assert {name: (by_kind["item"].body or {})[name] for name in shown} == shown


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
async def test_json_in_a_row_of_job_scope_is_in_the_body_as_it_was_found(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if store == "sqlite":
        rig = await sqlite_places(tmp_path)
    else:
        rig = await postgres_places(request.getfixturevalue("postgres_url"))
    await rig.submit()
    (lease,) = (await rig.lease()).values()
    answer = {**found(1, 1)[0], "note": NASTY, "nested": {"list": [1, None, {"deep": NASTY}]}, "big": 2**62}
    await rig.answer(lease, [answer])
    (change,) = [each for each in await rig.ledger.changes(0, 100) if each.kind == "sighting"]
    await rig.close()
    assert orjson.loads(orjson.dumps(change.json)) == orjson.loads(orjson.dumps(change.fields))
    assert change.body is not None
    assert (change.body["payload"], change.body["page"]) == (answer, 1)
    assert orjson.loads(orjson.dumps(change.json)) == change.body
    assert "error" not in change.body, "what is unknown is left out"


async def test_a_page_of_one_job_or_of_some_kinds_is_whole_too(rig: Rig, worker: Worker) -> None:
    first = await _find(rig, worker, Seen(uid="a", note="one"), Thing(uid="a"))
    await _find(rig, worker, Seen(uid="a", note="two"), Thing(uid="b"))
    assert [c.body for c in await _seen(rig, job=first)] == [{"uid": "a", "note": "one"}]
    both = await rig.ledger.changes(0, 100, kinds={"seen", "thing"})
    assert {(c.kind, c.key) for c in both} == {("seen", "a"), ("thing", "a"), ("thing", "b")}
    assert all(c.body for c in both)
    assert await rig.ledger.changes(0, 100, kinds=frozenset()) == []


async def test_bodies_are_left_out_on_request_where_they_are_read_from_another_table(rig: Rig, worker: Worker) -> None:
    await _find(rig, worker, Seen(uid="a", note="one"), Thing(uid="a"))
    changes = await rig.ledger.changes(0, 100, bodies=False)
    assert {c.kind: c.body is not None for c in changes} == {"job": True, "thing": True, "seen": False}


async def test_renaming_a_row_of_job_scope_writes_changes(rig: Rig, worker: Worker) -> None:
    """A reader that mirrors the log would keep the old key for ever."""
    first = await _find(rig, worker, Seen(uid="cid", note="one"))
    other = await _find(rig, worker, Seen(uid="cid", note="other"))
    await _find(rig, worker, Thing(uid="place", weak="cid"))
    assert [(c.key, c.op, c.version, c.job) for c in await _seen(rig)] == [
        ("cid", "new", 1, first),
        ("cid", "new", 1, other),
        ("cid", "gone", 2, first),
        ("place", "new", 1, first),
        ("cid", "gone", 2, other),
        ("place", "new", 1, other),
    ]
    assert [c.body for c in await _seen(rig, job=first)] == [
        {"uid": "cid", "note": "one"},  # as it was, although its row has another key now
        {"uid": "place"},
        {"uid": "place", "note": "one"},
    ]


async def test_a_row_that_is_renamed_twice_is_found_by_each_of_its_names(rig: Rig, worker: Worker) -> None:
    job = await _find(rig, worker, Seen(uid="hash", note="one"))
    await _find(rig, worker, Thing(uid="cid", weak="hash"))
    await _find(rig, worker, Thing(uid="place", weak="cid"))
    told = [(c.key, c.op, (c.body or {}).get("uid"), (c.body or {}).get("note")) for c in await _seen(rig, job=job)]
    assert told == [
        ("hash", "new", "hash", "one"),
        ("hash", "gone", "cid", None),
        ("cid", "new", "cid", "one"),
        ("cid", "gone", "place", None),
        ("place", "new", "place", "one"),
    ]


async def test_a_job_that_saw_a_record_under_both_names_keeps_both_rows_and_logs_no_change(
    rig: Rig, worker: Worker
) -> None:
    job = await _find(rig, worker, Seen(uid="cid", note="weak"), Seen(uid="place", note="strong"))
    await _find(rig, worker, Thing(uid="place", weak="cid"))
    assert [(c.key, c.op, (c.body or {}).get("note")) for c in await _seen(rig, job=job)] == [
        ("cid", "new", "weak"),
        ("place", "new", "strong"),
    ]


async def test_a_page_costs_one_query_for_each_kind_and_never_one_for_each_change(rig: Rig, worker: Worker) -> None:
    await _find(
        rig, worker, *(Seen(uid=f"s{n}", note="x") for n in range(150)), *(Thing(uid=f"t{n}") for n in range(50))
    )
    database: Any = cast("SqliteLedger", rig.ledger).database
    fetch, asked = database.fetch_tuples, []

    async def counted(sql: str, values: Mapping[str, Any] | None = None) -> Sequence[Any]:
        asked.append(sql)
        rows: Sequence[Any] = await fetch(sql, values)
        return rows

    database.fetch_tuples = counted
    changes = await rig.ledger.changes(0, 1_000)
    assert len([c for c in changes if c.kind == "seen" and c.body]) == 150
    assert len(asked) == 2
