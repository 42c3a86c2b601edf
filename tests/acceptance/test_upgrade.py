"""A worker of the version before the newest migration goes on while the schema is upgraded, and hands over to a new
one."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import cache_from_source
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from forager.sandbox import FULL_DENSITY, SerperConfig, SerperSandbox
from forager.sandbox.audit import audit
from tests.support.auditor import PostgresTables
from tests.support.engine import until

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(240)]

ROOT = Path(__file__).parents[2]
MIGRATIONS = ("src/forager/ledger/migrations/versions", "src/forager/pipelines/*/migrations")
QUERIES = 4_000
SOME = 20
PATIENCE = 90.0
SUBMIT = """
import asyncio, sys
from forager.app import open_app
from forager.config import load_settings

async def main():
    async with open_app(load_settings()) as app:
        await app.submit("places", {"keyword": "bars", "state": "AZ", "pages": 1, "concurrency": 2})

asyncio.run(main())
"""


async def test_old_and_new_workers_share_an_upgraded_database__R18(postgres_url: str, tmp_path: Path) -> None:
    old = _source_before_the_newest_migration(tmp_path / "old")
    zips = tmp_path / "zips.csv"
    zips.write_text("zip,state,city\n" + "".join(f"{10_000 + n},AZ,Phoenix\n" for n in range(QUERIES)))
    async with SerperSandbox(SerperConfig(density=FULL_DENSITY, rate_limit=None)) as sandbox:
        settings = {
            "FORAGER_DATABASE_URL": postgres_url,
            "FORAGER_DATABASE_SCHEMA": "public",
            "FORAGER_HOME": str(tmp_path / "home"),
            "FORAGER_ZIP_TABLE": str(zips),
            "FORAGER_EGRESS_ALLOW": urlsplit(sandbox.url).netloc,
            "FORAGER_SERPER_BASE_URL": sandbox.url,
            "SERPER_API_KEY": sandbox.config.key,
        }
        before, after = _environment(old, settings), _environment(ROOT / "src", settings)
        await asyncio.to_thread(_run, before, "-c", SUBMIT)
        tables = PostgresTables(postgres_url)

        def completed() -> int:
            (row,) = tables.read("SELECT completed FROM jobs")
            return int(row["completed"])

        with _worker(before) as first:
            await until(lambda: completed() >= SOME, PATIENCE)
            stood_at = _revisions(tables)
            await asyncio.to_thread(_run, after, "-m", "forager", "db", "upgrade")
            upgraded = completed()
            assert _revisions(tables) != stood_at, "there was something to upgrade"
            await until(lambda: completed() >= upgraded + SOME, PATIENCE)
            assert completed() < QUERIES, "the old worker still had work when the schema changed"
            with _worker(after):
                first.send_signal(signal.SIGTERM)
                assert await asyncio.to_thread(first.wait, PATIENCE) == 0, "it drained"
                handed = completed()
                assert handed < QUERIES
                await until(lambda: completed() >= handed + SOME, PATIENCE)
        (job,) = tables.read("SELECT * FROM jobs")
        tables.close()
    assert job["failed"] == job["skipped"] == job["running"] == 0
    assert job["completed"] + job["queued"] == QUERIES
    assert audit(sandbox.log).repeats == 0
    assert len(sandbox.log) == job["completed"], "no answer was lost"


def _revisions(tables: PostgresTables) -> set[str]:
    return {row["version_num"] for row in tables.read("SELECT version_num FROM alembic_version")}


def _source_before_the_newest_migration(folder: Path) -> Path:
    """The sources of the commit before the one that last added a migration."""
    newest = _git("log", "-1", "--format=%H", "--diff-filter=A", "--", *MIGRATIONS)
    before = newest and newest.strip() and _git("rev-parse", "--verify", f"{newest.decode().strip()}^")
    if not before:
        pytest.skip("The history of this checkout does not reach the newest migration.")  # a shallow clone, an archive
    folder.mkdir()
    archive = subprocess.run(
        ["git", "archive", before.decode().strip(), "src"], cwd=ROOT, check=True, capture_output=True
    )
    subprocess.run(["tar", "--extract"], input=archive.stdout, cwd=folder, check=True)
    _take_over_compiled(ROOT / "src", folder / "src")
    return folder / "src"


def _take_over_compiled(ours: Path, theirs: Path) -> None:
    """Give files that are the same as ours our compiled modules, which are valid for one time of change."""
    for old in theirs.rglob("*.py"):
        new = ours / old.relative_to(theirs)
        if new.exists() and new.read_bytes() == old.read_bytes():
            os.utime(old, ns=(new.stat().st_atime_ns, new.stat().st_mtime_ns))
            compiled = Path(cache_from_source(str(new)))
            if compiled.exists():
                there = Path(cache_from_source(str(old)))
                there.parent.mkdir(exist_ok=True)
                shutil.copy(compiled, there)


def _git(*arguments: str) -> bytes | None:
    try:
        ran = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=False)
    except FileNotFoundError:
        return None
    return ran.stdout if ran.returncode == 0 else None


def _environment(source: Path, settings: Mapping[str, str]) -> dict[str, str]:
    return {**os.environ, **settings, "PYTHONPATH": str(source)}


def _run(environment: Mapping[str, str], *arguments: str) -> None:
    ran = subprocess.run(
        [sys.executable, *arguments], env=dict(environment), capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


@contextmanager
def _worker(environment: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    worker = subprocess.Popen([sys.executable, "-m", "forager", "worker"], env=dict(environment))
    try:
        yield worker
    finally:
        worker.terminate()
        worker.wait(PATIENCE)
