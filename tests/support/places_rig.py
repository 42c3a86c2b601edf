"""A ledger of either kind with the places pipeline on it, worked by hand: the test chooses the answer to each query.

The answers go through the pipeline's own step, so that the ledger gets the same values as in production.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID

import orjson

from forager.core.clock import Clock, SystemClock
from forager.core.database import Database
from forager.core.errors import Evidence, Permanent
from forager.core.http import Request, Response
from forager.core.ledger import Lease, Ledger, NewJob, Session, Settlement, Want
from forager.core.outcome import Done
from forager.core.states import ENDS, TaskState
from forager.ledger.catalog import Catalog
from forager.ledger.reports import LedgerReports
from forager.ledger.sqlite import SqliteLedger
from forager.pipelines.places.job import PlacesJob
from forager.pipelines.places.pipeline import places, plan
from forager.pipelines.places.steps import Serper
from forager.pipelines.places.zips import shipped_zips
from tests.support.schema_templates import create_schema, create_store_file

Places = Sequence[Mapping[str, Any]]


class _Store(Ledger, Protocol):
    database: Database


def found(first: int, count: int, **more: Any) -> list[dict[str, Any]]:
    """Return this number of places as Serper shows them, numbered from `first`."""
    return [
        {
            "position": n - first + 1,
            "title": f"Bar {n}",
            "address": f"{n} Main St",
            "rating": round(3.0 + n % 20 / 10, 1),
            "category": "Bar" if n % 2 else "Pub",
            "cid": f"{10**18 + n}",
            "placeId": f"ChIJ{n:06d}",
            **more,
        }
        for n in range(first, first + count)
    ]


@dataclass
class PlacesRig:
    ledger: _Store
    catalog: Catalog
    session: Session
    lanes: list[int] = field(default_factory=list)

    @property
    def reports(self) -> LedgerReports:
        return LedgerReports(self.ledger.database, self.catalog)

    async def submit(self, keyword: str = "bars", zips: Sequence[str] = ("85001",), **more: Any) -> UUID:
        job = PlacesJob(keyword=keyword, zips=tuple(zips), **more)
        limits = places.limits(job)
        new = NewJob("places", job.model_dump(mode="json"), limits, estimate={"zips": len(zips), "queries": 0})
        plans = () if job.dry_run else plan(job, shipped_zips())
        return (await self.ledger.submit(new, plans)).job

    async def lease(self, most: int = 100) -> dict[str, Lease]:
        """Return sightings by key: for one job at a time."""
        return {lease.key: lease for lease in await self.leases(most)}

    async def leases(self, most: int = 100) -> Sequence[Lease]:
        self.lanes.extend(lane.id for lane in await self.ledger.take_lanes(self.session, 10))
        batch = await self.ledger.settle_and_lease(self.session, [], [Want(lane, most) for lane in self.lanes])
        return batch.leases

    async def answer(self, lease: Lease, found: Places, *, ms: int = 120) -> None:
        """Serper answers with these places, for one credit."""
        await self._settle(lease, 200, {"places": list(found), "credits": 1}, ms)

    async def refuse(self, lease: Lease, message: str = "bad query") -> None:
        await self._settle(lease, 400, {"message": message}, 50)

    async def retry_later(self, lease: Lease, error: str = "Serper failed (500).") -> None:
        await self._turn(Settlement(lease, TaskState.WAITING, cost=1, guessed=1, error=error, wait=60.0))

    async def run(self, answers: Callable[[str], Places]) -> None:
        """Everything there is to do, page by page."""
        while leases := await self.leases():
            for lease in leases:
                await self.answer(lease, answers(lease.key))

    async def read(self, sql: str, **values: Any) -> list[dict[str, Any]]:
        return list(await self.ledger.database.fetch(sql, values))

    async def close(self) -> None:
        await self.ledger.close()

    async def _settle(self, lease: Lease, status: int, body: Mapping[str, Any], ms: int) -> None:
        async def fetch(request: Request) -> Response:
            return Response(request.url, status, {}, orjson.dumps(body), datetime.now(UTC), ms)

        try:
            outcome = await Serper().search(lease.task, fetch)  # type: ignore[arg-type]
        except Permanent as error:
            facts, evidence = error.facts, error.evidence or Evidence(b"")
            failed = Settlement(lease, TaskState.FAILED, 0, error=error.message, facts=facts, evidence=evidence)
            await self._turn(failed)
        else:
            assert isinstance(outcome, Done)
            await self._turn(
                Settlement(
                    lease,
                    TaskState.COMPLETED,
                    outcome.cost or 0,
                    facts=outcome.facts,
                    records=outcome.records,
                    skip=outcome.skip,
                )
            )

    async def _turn(self, settlement: Settlement) -> None:
        batch = await self.ledger.settle_and_lease(self.session, [settlement], [])
        assert not batch.fenced


def _catalog(*, mirrored: bool) -> Catalog:
    """`mirrored`: every end of a query is in the change log, as where a warehouse is configured."""
    return Catalog([replace(places, logged_states=ENDS) if mirrored else places])


async def sqlite_places(folder: Path, clock: Clock | None = None, *, mirrored: bool = False) -> PlacesRig:
    catalog = _catalog(mirrored=mirrored)
    create_store_file(folder / "ledger.db", catalog)
    ledger = await SqliteLedger.open(folder / "ledger.db", catalog, clock=clock or SystemClock())
    return PlacesRig(ledger, catalog, await ledger.begin("by hand"))


async def postgres_places(url: str, *, mirrored: bool = False) -> PlacesRig:
    from forager.ledger.postgres import PostgresLedger

    catalog = _catalog(mirrored=mirrored)
    create_schema(url, catalog)
    ledger = await PostgresLedger.open(url, catalog)
    return PlacesRig(ledger, catalog, await ledger.begin("by hand"))
