"""Plain tables: what settlements and the ends of tasks and jobs change in them, exactly once."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, ClassVar

import pytest
from structlog.testing import capture_logs

from forager.core.database import Database
from forager.core.errors import Rejected
from forager.core.ledger import Extras, Lease, Settlement
from forager.core.outcome import Skip
from forager.core.states import TaskState
from forager.core.table import Effect, TableRow
from forager.core.task import Plan
from forager.sdk.queries import change_row, insert_row, one_row, read_rows, remove_row
from tests.support.rig import Rig, Worker
from tests.support.rig_pipelines import Call, DearCall, Item, OddCall, Tally, calls, count

NOON = datetime(2026, 3, 14, 12, tzinfo=UTC)


def _database(rig: Rig) -> Database:
    return rig.ledger.database


async def _tally(rig: Rig, name: str) -> Tally | None:
    return await one_row(_database(rig), Tally, name=name)


async def _counts(rig: Rig) -> Mapping[str, int]:
    return {row.name: row.count for row in await read_rows(_database(rig), Tally)}


async def _settle(rig: Rig, worker: Worker, *effects: Effect) -> None:
    await rig.submit(calls(1))
    (lease,) = await worker.lease()
    assert not (await worker.settle(lease, extras=Extras(effects=effects))).fenced


def _on(name: str, **more: Any) -> Effect:
    return Effect(Tally, {"name": name}, **more)


# ── settlements ──


async def test_an_effect_adds_and_sets_in_the_transaction_of_its_settlement(rig: Rig, worker: Worker) -> None:
    await insert_row(_database(rig), Tally(name="a", count=3, worth=Decimal(2)))
    await _settle(
        rig, worker, _on("a", add={"count": 2, "worth": Decimal("0.25")}, set={"seen_at": NOON, "tags": ["x"]})
    )
    row = await _tally(rig, "a")
    assert row is not None
    assert (row.count, row.worth, row.seen_at, row.tags) == (5, Decimal("2.25"), NOON, ["x"])


async def test_an_effect_on_a_missing_row_creates_it_only_with_insert(rig: Rig, worker: Worker) -> None:
    await _settle(rig, worker, _on("a", add={"count": 1}), _on("b", add={"count": 1, "worth": 1}, insert=True))
    assert await _tally(rig, "a") is None
    row = await _tally(rig, "b")
    assert row is not None
    assert (row.count, row.worth, row.share, row.open, row.tier, row.tags) == (
        1,
        Decimal("2.50"),
        None,
        True,
        "it's cool",
        [],
    )
    assert row.created_at is not None


async def test_effects_on_one_row_are_applied_in_their_order(rig: Rig, worker: Worker) -> None:
    await _settle(
        rig,
        worker,
        _on("a", set={"count": 100}),
        _on("a", add={"count": 1, "share": 0.5}, insert=True),
        _on("a", add={"count": 2}, insert=True),
        _on("a", set={"count": 10, "note": "x"}, insert=True),
        _on("a", add={"count": 5, "share": 1}),
    )
    row = await _tally(rig, "a")
    assert row is not None
    assert (row.count, row.share, row.note) == (15, 1.5, "x")


async def test_an_effect_fills_in_only_what_is_empty(rig: Rig, worker: Worker) -> None:
    later = NOON + timedelta(hours=1)
    await _settle(rig, worker, _on("a", fill={"seen_at": NOON}), _on("b", fill={"seen_at": NOON}, insert=True))
    assert await _tally(rig, "a") is None
    await _settle(rig, worker, _on("b", fill={"seen_at": later}), _on("c", fill={"seen_at": later}, insert=True))
    rows = [await _tally(rig, name) for name in ("b", "c")]
    assert [row and row.seen_at for row in rows] == [NOON, later]
    emptied = (_on("b", set={"seen_at": None}), _on("b", fill={"seen_at": later}), _on("b", fill={"seen_at": NOON}))
    await _settle(rig, worker, *emptied)
    row = await _tally(rig, "b")
    assert row is not None
    assert row.seen_at == later, "in one transaction, too"


async def test_nothing_of_a_settlement_whose_claim_is_lost_reaches_a_plain_table__PL_6(
    rig: Rig, worker: Worker
) -> None:
    await rig.submit(calls(1))
    (lease,) = await worker.lease()
    once = Extras(effects=[count("a")])
    await worker.settle(lease, extras=once)
    assert (await worker.settle(lease, extras=once)).fenced
    assert (await _counts(rig))["a"] == 1


async def test_an_effect_that_the_store_refuses_takes_its_whole_settlement_with_it(rig: Rig, worker: Worker) -> None:
    await insert_row(_database(rig), Tally(name="a", note="taken"))
    await insert_row(_database(rig), Tally(name="b"))
    await rig.submit(calls(1))
    (lease,) = await worker.lease()
    before = rig.everything()
    with pytest.raises(Exception, match=r"(?i)unique"):
        await worker.settle(lease, records=[Item(uid="a")], extras=Extras(effects=[_on("b", set={"note": "taken"})]))
    assert rig.everything() == before


async def test_a_table_that_no_pipeline_declares_is_out_of_reach(rig: Rig, worker: Worker) -> None:
    class Jobs(TableRow):
        table: ClassVar[str] = "jobs"
        key: ClassVar[tuple[str, ...]] = ("public_id",)
        public_id: str
        spent: int = 0

    await rig.submit(calls(1))
    (lease,) = await worker.lease()
    with pytest.raises(Rejected, match="No pipeline declares"):
        await worker.settle(lease, extras=Extras(effects=[Effect(Jobs, {"public_id": "x"}, set={"spent": 0})]))


async def test_settlements_that_count_in_the_same_rows_at_the_same_time_lose_nothing(rig: Rig, worker: Worker) -> None:
    await rig.submit(calls(40))

    async def settle(number: int, lease: Lease) -> None:
        effects = [count("a"), count("b")] if number % 2 else [count("b"), count("a")]
        ended = Settlement(lease, TaskState.COMPLETED, extras=Extras(effects=effects))
        await rig.ledger.settle_and_lease(worker.session, [ended], [])

    await asyncio.gather(*(settle(number, lease) for number, lease in enumerate(await worker.lease())))
    counts = await _counts(rig)
    assert (counts["a"], counts["b"]) == (40, 40)


# ── ends ──


async def _leased(rig: Rig, worker: Worker, *plans: Plan, **limits: Any) -> tuple[Any, dict[str, Lease]]:
    job = (await rig.submit(plans, **limits)).job
    return job, {lease.key: lease for lease in await worker.lease()}


@pytest.mark.parametrize(
    ("state", "name"),
    [(TaskState.COMPLETED, "completed"), (TaskState.FAILED, "failed"), (TaskState.SKIPPED, "skipped")],
)
async def test_a_hook_runs_with_the_end_of_its_task(rig: Rig, worker: Worker, state: TaskState, name: str) -> None:
    _, leases = await _leased(rig, worker, Plan(DearCall(name="a")))
    await worker.settle(leases["a"], TaskState.WAITING, wait=0.0)
    assert await _counts(rig) == {}, "a retry is no end"
    (lease,) = await worker.lease()
    await worker.settle(lease, state, error="because")
    assert await _counts(rig) == {f"ended {name}": 1, f"job {'failed' if name == 'failed' else 'completed'}": 1}


async def test_a_hook_runs_for_what_is_skipped_and_for_followers(rig: Rig, worker: Worker) -> None:
    plans = [Plan(DearCall(name="a")), Plan(DearCall(name="b"), rank=1), Plan(DearCall(name="c"), after="b")]
    _, leases = await _leased(rig, worker, *plans, batch_size=1)
    await worker.settle(leases["a"], skip=[Skip("b", "enough")])
    assert await _counts(rig) == {"ended completed": 1, "ended skipped": 2, "job completed": 1}


async def test_a_hook_runs_for_the_followers_of_a_failure(rig: Rig, worker: Worker) -> None:
    plans = [Plan(DearCall(name="a")), Plan(DearCall(name="b"), after="a"), Plan(DearCall(name="c"), after="b")]
    _, leases = await _leased(rig, worker, *plans)
    await worker.settle(leases["a"], TaskState.FAILED, error="because")
    assert await _counts(rig) == {"ended failed": 1, "ended skipped": 2, "job failed": 1}


async def test_a_hook_runs_for_what_is_cancelled_queued_or_in_flight(rig: Rig, worker: Worker) -> None:
    job, leases = await _leased(rig, worker, *(Plan(DearCall(name=n)) for n in "abc"), concurrency=2)
    await rig.ledger.cancel(job)
    await rig.ledger.sweep()
    assert await _counts(rig) == {"ended cancelled": 1}
    first, second = leases.values()
    await worker.settle(first, TaskState.WAITING, wait=5.0)
    await rig.ledger.end(worker.session)
    assert await _counts(rig) == {"ended cancelled": 3, "job cancelled": 1}
    assert second.key in rig.states(job)


async def test_a_hook_runs_when_a_budget_ends_what_is_queued(rig: Rig, worker: Worker) -> None:
    _, leases = await _leased(rig, worker, *(Plan(DearCall(name=n)) for n in "abc"), max_cost=7)
    assert len(leases) == 1
    await worker.settle(next(iter(leases.values())), cost=5)
    await worker.lease()
    while (await rig.ledger.sweep()).more:
        pass
    assert await _counts(rig) == {"ended completed": 1, "ended skipped": 2, "job completed": 1}


async def test_a_hook_runs_for_what_waited_in_vain_for_too_long(rig: Rig, worker: Worker) -> None:
    _, leases = await _leased(rig, worker, Plan(DearCall(name="a")))
    await worker.settle(leases["a"], TaskState.WAITING, wait=5.0, burned=False, error="429", give_up_at=1)
    assert await _counts(rig) == {"ended failed": 1, "job failed": 1}


async def test_a_hook_runs_for_a_task_that_killed_its_worker_three_times(rig: Rig, worker: Worker) -> None:
    job, _ = await _leased(rig, worker, Plan(DearCall(name="a")))
    for n in range(4):
        assert await _counts(rig) == {}, f"after {n} crashes it has not ended"
        rig.pass_time(31)
        await rig.ledger.sweep()
        worker = await rig.worker()
        await worker.begin_suspects()
    assert rig.states(job) == {"a": "failed"}
    assert await _counts(rig) == {"ended failed": 1, "job failed": 1}


async def test_a_task_that_ends_twice_is_counted_twice_and_so_is_its_job(rig: Rig, worker: Worker) -> None:
    job, leases = await _leased(rig, worker, Plan(DearCall(name="a")))
    await worker.settle(leases["a"], TaskState.FAILED, error="because")
    await rig.ledger.retry(job)
    await worker.complete(await worker.lease())
    assert await _counts(rig) == {"ended failed": 1, "job failed": 1, "ended completed": 1, "job completed": 1}


async def test_a_hook_can_update_a_record(rig: Rig, worker: Worker) -> None:
    """The due time of a page that could not be read comes back, whichever way its task ended."""
    _, leases = await _leased(rig, worker, Plan(Call(name="first")))
    await worker.settle(leases["first"], records=[Item(uid="a", title="Lamp")])
    _, leases = await _leased(rig, worker, Plan(OddCall(name="updates")))
    await worker.settle(leases["updates"], TaskState.FAILED, error="because", reason="timed_out")
    row = rig.rows(Item)["a"]
    assert (row["etag"], row["version"], row["times_seen"]) == ("FAILED timed_out 1", 1, 1)
    job, _ = await _leased(rig, worker, Plan(OddCall(name="updates")))
    await rig.ledger.end(worker.session)
    await rig.ledger.cancel(job)
    await rig.ledger.sweep()
    assert rig.rows(Item)["a"]["etag"] == "CANCELLED cancelled 0"


async def test_a_hook_that_breaks_does_not_keep_its_task_from_ending(rig: Rig, worker: Worker) -> None:
    job, leases = await _leased(rig, worker, Plan(OddCall(name="breaks")), Plan(OddCall(name="well")))
    with capture_logs() as logs:
        await worker.complete(leases.values())
    assert set(rig.states(job).values()) == {"completed"}
    assert [(line["hook"], line["key"]) for line in logs] == [("on_end", "breaks")]


async def test_an_effect_of_a_hook_that_is_refused_stops_nothing_but_itself(rig: Rig, worker: Worker) -> None:
    await insert_row(_database(rig), Tally(name="a", note="taken"))
    await insert_row(_database(rig), Tally(name="b"))
    job, leases = await _leased(rig, worker, Plan(OddCall(name="refused")))
    with capture_logs() as logs:
        await worker.complete(leases.values())
    assert rig.states(job) == {"refused": "completed"}
    assert [line["event"] for line in logs] == ["hook_effect_refused"]
    assert await _counts(rig) == {"a": 0, "b": 0, "after refused": 1, "job completed": 1}


async def test_the_end_hook_of_a_job_gets_its_parameters_and_results(rig: Rig, worker: Worker) -> None:
    await insert_row(_database(rig), Tally(name="of nyc"))
    await rig.submit(calls(3), params={"name": "nyc"})
    leases = await worker.lease()
    await worker.complete(leases[:2])
    assert (await _counts(rig))["of nyc"] == 0
    await worker.settle(leases[2], TaskState.FAILED, error="because")
    assert await _counts(rig) == {"of nyc": 2, "job partially_completed": 1}


async def test_a_job_ends_although_its_hook_breaks(rig: Rig, worker: Worker) -> None:
    rig.audited = False  # it counts every end
    job = (await rig.submit(calls(1), params={"name": "breaks"})).job
    with capture_logs() as logs:
        await worker.complete(await worker.lease())
    assert rig.job(job)["state"] == "completed"
    assert [line["hook"] for line in logs] == ["on_job_end"]


# ── by hand ──


async def test_rows_are_written_and_read_through_the_query_port(rig: Rig) -> None:
    db = _database(rig)
    assert await insert_row(db, Tally(name="a", tier="hot", tags=["x"], open=False, seen_at=NOON))
    assert not await insert_row(db, Tally(name="a", count=9))
    assert await insert_row(db, Tally(name="b"))
    rows = await read_rows(db, Tally)
    assert [(r.name, r.tier, r.tags, r.open, r.seen_at) for r in rows] == [
        ("a", "hot", ["x"], False, NOON),
        ("b", "it's cool", [], True, None),
    ]
    assert [row.name for row in await read_rows(db, Tally, "tier = :tier", {"tier": "hot"})] == ["a"]
    assert await change_row(db, _on("a", add={"count": 2}, set={"open": True}))
    assert await change_row(db, _on("a", insert=True))
    assert not await change_row(db, _on("c", add={"count": 2}))
    row = await _tally(rig, "a")
    assert row is not None
    assert (row.count, row.open) == (2, True)
    assert await remove_row(db, Tally, name="a")
    assert not await remove_row(db, Tally, name="a")


async def test_a_plain_insert_by_sql_gets_every_default(rig: Rig) -> None:
    await _database(rig).write("INSERT INTO rig_tallies (name) VALUES ('nyc')")
    row = await _tally(rig, "nyc")
    assert row is not None
    assert row == Tally(name="nyc", created_at=row.created_at)
    assert row.created_at is not None
    assert abs((datetime.now(UTC) - row.created_at).total_seconds()) < 60
