"""Every test of the suite runs for every sink, on either store."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from forager.engine.deliver import Delivery
from forager.sinks.elasticsearch.sink import ElasticsearchSink
from tests.support.deliveries import QUICK, Faulty, sink_table
from tests.support.engine import EngineRig
from tests.support.rig import HandClock
from tests.support.sink_suite import MEMBERS, Effect, Member, in_order, log_of, make_changes, open_store


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What differs on S3 is the place of the files, not the store of the ledger: one store is enough in CI. So it is on
    the BigQuery emulator, where a batch takes a tenth of a second of CPU; `test_bigquery` has both stores."""
    for item in items:
        given = getattr(getattr(item, "callspec", None), "params", {})
        if isinstance(given.get("member"), Member) and given["member"].name == "s3" and given.get("store") == "sqlite":
            item.add_marker(pytest.mark.chaos)
        if item.path.name == "test_contract.py" and "bigquery-postgres" in item.name and "trap_1" not in item.name:
            item.add_marker(pytest.mark.chaos)


@dataclass
class Rig:
    """A sink on a store: the real one, behind faults."""

    member: Member
    engine: EngineRig
    folder: Path
    sink: Faulty
    clock: HandClock
    delivery: Delivery

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
    delivery = Delivery(engine.ledger, sink_table(engine.ledger), sink, clock, lambda: session, pace)
    yield Rig(member, engine, tmp_path, sink, clock, delivery)
    engine.check()
    if isinstance(sink.real, ElasticsearchSink):
        await sink.real.close()
    await engine.close()
