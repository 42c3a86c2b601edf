"""The disk of the PostgreSQL server is full (R10): a real one, filled to the last byte while the engine works."""

import contextlib
import os
from collections.abc import Iterator

import pytest

from forager.core.errors import StoreFull
from forager.sandbox import FULL_DENSITY, SerperConfig, SerperSandbox
from forager.sandbox.audit import audit
from tests.support.engine import open_postgres, serper, until
from tests.support.postgres import PostgresServer
from tests.support.small_disk import NoSmallDisk, SmallDisk, small_disk

MEGABYTES = 160
ZIPS = 400


@pytest.fixture
def disk() -> Iterator[SmallDisk]:
    with contextlib.ExitStack() as mounted:
        try:
            made = mounted.enter_context(small_disk(MEGABYTES))
        except NoSmallDisk as reason:
            if os.environ.get("CI") and os.geteuid() == 0:
                pytest.fail(str(reason))
            pytest.skip(str(reason))
        yield made


@pytest.fixture
def server(disk: SmallDisk, require_postgres: None) -> Iterator[PostgresServer]:
    # Vacuum may give room back at any moment, and then the disk would not be full any more.
    with PostgresServer(fsync=False, data=disk.path / "data", settings={"autovacuum": "off"}) as started:
        yield started


async def test_a_full_disk_under_postgres_stops_leasing_and_heals_by_itself__R10(
    disk: SmallDisk, server: PostgresServer
) -> None:
    async with SerperSandbox(SerperConfig(density=FULL_DENSITY, rate_limit=None)) as sandbox:
        rig = await open_postgres(server.create_database(), [serper(sandbox.url)])
        job = await rig.submit_places(ZIPS, pages=2, concurrency=20)
        worker = rig.worker(sandbox.url)
        async with rig.working(worker):
            await until(lambda: rig.job(job)["completed"] >= 20)
            disk.fill()
            await until(lambda: worker.stats.trouble is not None)
            assert disk.is_full
            assert "disk" in (worker.stats.trouble or "")
            await until(lambda: worker.in_flight == 0)
            known, sent, turns = rig.job(job)["completed"], len(sandbox.log), worker.stats.transactions
            with pytest.raises(StoreFull, match="Free some space"):
                await rig.submit_places(5_000, pages=2, keyword="pubs")
            with pytest.raises(TimeoutError):
                await until(lambda: len(sandbox.log) > sent or worker.stats.transactions > turns, patience=1.0)
            assert rig.job(job)["completed"] == known, "what was acknowledged is there, and nothing else"
            rig.check()
            disk.free()
            await until(lambda: rig.job(job)["state"] == "completed")
            await until(lambda: worker.stats.trouble is None)
        assert rig.job(job)["completed"] == ZIPS * 2
        assert audit(sandbox.log).repeats == 0, "no answer that was paid for was thrown away"
        rig.check()
        await rig.close()
