"""A worker continues while a later version with one more migration upgrades the schema, and hands over to a new one."""

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

from forager.ledger.schema.migrate import heads
from forager.sandbox import FULL_DENSITY, SerperConfig, SerperSandbox
from forager.sandbox.audit import audit
from tests.support.auditor import PostgresTables
from tests.support.engine import until

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(240)]

ROOT = Path(__file__).parents[2]
MIGRATIONS = "forager/ledger/migrations/versions"
NEXT = '''
"""A later migration, as releases will have them: a column that the version before does not read."""

import sqlalchemy as sa
from alembic import op

revision = "core_9999"
down_revision = "{newest}"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("tasks", sa.Column("note", sa.Text()))


def downgrade() -> None:
    op.drop_column("tasks", "note")
'''
QUERIES = 4_000
SOME = 20
PATIENCE = 90.0
SUBMIT = """
import asyncio, sys
from forager.app.compose import open_app
from forager.app.config import load_settings

async def main():
    async with open_app(load_settings()) as app:
        await app.submit("places", {"keyword": "bars", "state": "AZ", "pages": 1, "concurrency": 2})

asyncio.run(main())
"""


async def test_old_and_new_workers_share_an_upgraded_database__R18(postgres_url: str, tmp_path: Path) -> None:
    later = _source_with_one_more_migration(tmp_path / "later")
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
        before, after = _environment(ROOT / "src", settings), _environment(later, settings)
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
            assert _revisions(tables) - stood_at == {"core_9999"}
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


def _source_with_one_more_migration(folder: Path) -> Path:
    shutil.copytree(ROOT / "src", folder, ignore=shutil.ignore_patterns("__pycache__"))
    (newest,) = heads([folder / MIGRATIONS])
    (folder / MIGRATIONS / "9999_note.py").write_text(NEXT.format(newest=newest))
    _take_over_compiled(ROOT / "src", folder)
    return folder


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
