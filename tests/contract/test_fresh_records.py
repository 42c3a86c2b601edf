"""Freshness for a kind of record that is not a listing, through the whole engine on SQLite and simulated time."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import ClassVar

from pydantic import BaseModel

from forager.core.freshness import SEEN, VERIFIED, FreshRecord
from forager.core.http import Fetch, Request, Response
from forager.core.ledger import NewJob
from forager.core.outcome import Done, Outcome
from forager.core.pipeline import Lane, Pipeline, step
from forager.core.recheck import recheck
from forager.core.task import Plan, Task
from tests.support.simulation import SimulatedClock, simulation

START = datetime(2026, 1, 1, tzinfo=UTC)
RATE = 2
SECOND = timedelta(seconds=1)


class Sofa(FreshRecord):
    kind: ClassVar[str] = "sofa"
    table: ClassVar[str] = "sim_sofas"
    key_field: ClassVar[str] = "name"
    name: str


class Look(Task):
    kind: ClassVar[str] = "look"
    name: str
    base: int = VERIFIED

    def key(self) -> str:
        return self.name

    def lane(self) -> str:
        return "sofas.test"


class Shop(BaseModel):
    pass


async def look(task: Look, fetch: Fetch) -> Outcome:
    page = await fetch(Request("https://sofas.test/"))
    seen = Sofa(name=task.name, confidence_base=task.base, confidence_updated_at=page.at, decay_rate=RATE)
    return Done(records=[seen], cost=0) if task.base == SEEN else Done(updates=[seen], cost=0)


async def test_a_second_kind_of_record_ages_and_is_verified_at_its_crossings__LI_11__LI_12(tmp_path: Path) -> None:
    clock = SimulatedClock(START)
    looks: list[datetime] = []

    async def fetch(request: Request) -> Response:
        if request.on_leave is not None:
            request.on_leave()
        looks.append(clock.now())
        return Response(request.url, 200, {}, b"page", clock.now(), 1)

    pipeline = Pipeline(
        name="sofas",
        params=Shop,
        plan=lambda _: [Plan(Look(name="red", base=SEEN))],
        steps=(step(Look, look),),
        records=(Sofa,),
        lanes=(Lane("sofas.test", rate=None),),
        rechecks=(recheck(Sofa, due="verify_at", task=lambda sofa: Plan(Look(name=sofa.name)), params={}),),
    )
    async with simulation(tmp_path, [pipeline], fetch, clock=clock) as sim:
        await sim.rig.ledger.submit(NewJob("sofas", {}), pipeline.plan(Shop()))
        await sim.run_for(days=3)
        changes = sim.rig.tables.read("SELECT op FROM changes WHERE kind = 'sofa'")
    # Seen at 100 it is below 40 after 31 whole hours; verified at 80, after 21.
    expected = [START, *(START + timedelta(hours=31 + 21 * n) for n in range(2))]
    assert [abs(at - due) <= SECOND for at, due in zip(looks, expected, strict=True)] == [True] * 3, looks
    assert changes == [{"op": "new"}], "ageing and verification are quiet"
