"""The disk of the PostgreSQL server is full (R10): a real one, filled to the last byte while the engine works."""

import contextlib
import errno
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from forager.core.errors import StoreFull
from forager.sandbox import FULL_DENSITY, SerperConfig, SerperSandbox
from forager.sandbox.audit import audit
from tests.support.engine import open_postgres, serper, until
from tests.support.postgres import PostgresServer

ROOM = 1 << 16


class NoSmallDisk(Exception):
    """No small disk can be mounted here; the message contains the reason."""


class SmallDisk:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    def fill(self) -> None:
        """Until not a byte is left."""
        with self._ballast.open("ab", buffering=0) as ballast:
            for size in (ROOM, 512, 1):
                with contextlib.suppress(OSError):
                    while True:
                        ballast.write(b"\0" * size)

    def free(self) -> None:
        self._ballast.unlink()

    @property
    def is_full(self) -> bool:
        return os.statvfs(self.path).f_bavail == 0


@contextlib.contextmanager
def small_disk(megabytes: int) -> Iterator[SmallDisk]:
    if os.geteuid() != 0:
        raise NoSmallDisk("Only root can mount a small disk to be filled.")
    folder = Path(tempfile.mkdtemp(prefix="forager-small-disk-", dir="/tmp"))
    folder.chmod(0o755)
    path = folder / "disk"
    path.mkdir()
    options = f"size={megabytes}m,mode=1777"
    try:
        try:
            made = subprocess.run(
                ["mount", "-t", "tmpfs", "-o", options, "forager-test", str(path)],
                capture_output=True,
                text=True,
                check=False,
            )
        except FileNotFoundError as missing:
            raise NoSmallDisk("There is no `mount` here.") from missing
        if made.returncode != 0:
            raise NoSmallDisk(f"A small disk cannot be mounted here: {made.stderr.strip() or os.strerror(errno.EPERM)}")
        try:
            yield SmallDisk(path)
        finally:
            # Lazily if somebody still has a file open there: nothing stays mounted.
            if subprocess.run(["umount", str(path)], capture_output=True, check=False).returncode != 0:
                subprocess.run(["umount", "-l", str(path)], capture_output=True, check=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


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


async def test_a_full_disk_under_postgres_stops_leasing_and_recovers_by_itself__R10(
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
