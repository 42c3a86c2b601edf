"""Every test of the suite runs for every sink, on either store."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from forager.engine.deliver import SinkDelivery
from forager.sinks.clickhouse.sink import ClickHouseSink
from forager.sinks.elasticsearch.wiring import ElasticsearchSink
from forager.sinks.postgres.sink import PostgresSink
from tests.support.deliveries import QUICK, Faulty, sink_table
from tests.support.engine import EngineRig
from tests.support.rig import HandClock
from tests.support.sink_suite import MEMBERS, Effect, Member, in_order, log_of, make_changes, open_store

ELSEWHERE = {"bigquery", "clickhouse", "duckdb", "elasticsearch", "kafka", "mirror", "postgres"}
"""Sinks that write to a place of their own. Most of what can go wrong lies there or in the engine, which `files` and
`webhook` show on both stores: in CI these run on SQLite, and on PostgreSQL only what `BOTH` names. The rest is for
chaos. BigQuery and Elasticsearch read the ledger themselves: their own tests run on both stores."""
BOTH = ("gets_everything_once", "trap_1")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave to chaos what another sink shows of the same store. S3 runs on PostgreSQL, the others on SQLite."""
    for item in items:
        given = getattr(getattr(item, "callspec", None), "params", {})
        if not isinstance(member := given.get("member"), Member) or any(name in item.name for name in BOTH):
            continue
        if (member.name in ELSEWHERE and given.get("store") == "postgres") or (
            member.name == "s3" and given.get("store") == "sqlite"
        ):
            item.add_marker(pytest.mark.chaos)


@dataclass
class Rig:
    """A sink on a store: the real one, behind faults."""

    member: Member
    engine: EngineRig
    folder: Path
    sink: Faulty
    clock: HandClock
    delivery: SinkDelivery

    async def make_changes(self, jobs: int = 3) -> None:
        await make_changes(self.engine.ledger, jobs)

    async def deliver(self) -> None:
        """Until everything has arrived; pauses after failures pass at once."""
        for _ in range(10_000):
            if await self.delivery.deliver_new():
                return
            self.clock.pass_(60)
        raise AssertionError("it never ends")

    @property
    def effects(self) -> list[Effect]:
        return self.member.effects(self.engine.tables, self.folder)

    async def wanted(self, *, without: int | None = None) -> list[Effect]:
        return self.member.wanted([each for each in await log_of(self.engine.ledger) if each.id != without])

    async def check(self) -> None:
        """Everything has arrived, once, and about each thing in the order of the log."""
        assert in_order(self.effects) == in_order(await self.wanted())


@pytest.fixture(params=MEMBERS, ids=lambda each: each.name)
def member(request: pytest.FixtureRequest) -> Member:
    chosen: Member = request.param
    return chosen


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path) if request.param == "sqlite" else str(request.getfixturevalue("unmade_postgres_url"))


@pytest.fixture
async def rig(member: Member, store: str, tmp_path: Path) -> AsyncIterator[Rig]:
    engine = await open_store(store)
    session = await engine.ledger.begin("deliverer")
    sink, clock = Faulty(member.open(engine.ledger, tmp_path, None)), HandClock()
    pace: Any = replace(QUICK, batch=member.batch)
    delivery = SinkDelivery(engine.ledger, sink_table(engine.ledger), sink, clock, lambda: session, pace)
    yield Rig(member, engine, tmp_path, sink, clock, delivery)
    engine.check()
    if isinstance(sink.real, ElasticsearchSink | ClickHouseSink | PostgresSink):
        await sink.real.close()
    await engine.close()
