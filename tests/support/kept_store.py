"""Stores that a release left behind: every later version must be able to upgrade them and continue with their work.

`python -m tests.support.kept_store 1.0` makes those of a release, once, before it is published. A store has jobs of all
five pipelines with their records, changes, sinks and stored pages, and one job that waits with its work undone. It is
kept as an archive of the data folder (with the key made for it, which protects nothing else); for PostgreSQL with a
plain dump. The code of the release is kept with them, so that its worker can continue while a later version upgrades
the store.
"""

import asyncio
import io
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import forager
from forager.app.compose import open_app
from forager.app.config import new_settings
from forager.app.features import all_features
from forager.app.wiring import build_pipelines
from forager.core.record import Record
from tests.support.auditor import PostgresTables, SqliteTables, Tables
from tests.support.kill_storm import Options, Upstreams, start
from tests.support.postgres import Postgres, find_programs, running_postgres
from tests.support.schema_templates import prepare_store

STORES = Path(__file__).parents[1] / "migration" / "stores"
DUMP = "ledger.sql"
CONTENTS = "contents.json"
CODE = "code.tar.xz"
CODE_FILES = frozenset({".py", ".sql", ".toml", ".typed"})
"""Large files of data are not kept with the code: it reads those of the present version."""
NOT_KEPT = frozenset({"sandbox", "dashboard", "__pycache__"})
JOBS = 10


def releases() -> list[str]:
    return sorted(folder.name for folder in STORES.iterdir()) if STORES.is_dir() else []


def contents(tables: Tables, records: list[type[Record]]) -> dict[str, Any]:
    """Return the numbers by which a store is recognised: records by kind, changes, jobs by state, finished tasks."""
    count = {r.kind: tables.read(f"SELECT count(*) AS n FROM {r.table}")[0]["n"] for r in records}
    jobs = tables.read("SELECT pipeline, state, total, completed FROM jobs")
    return {
        "records": {kind: n for kind, n in count.items() if n},
        "changes": tables.read("SELECT count(*) AS n FROM changes")[0]["n"],
        "jobs": dict(Counter(f"{job['pipeline']} {job['state']}" for job in jobs)),
        "completed": sum(job["completed"] for job in jobs),
    }


def unpack(release: str, kind: str, folder: Path) -> dict[str, Any]:
    """Unpack the data folder of a kept store and return its contents at the time of the release."""
    with tarfile.open(STORES / release / f"{kind}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    kept: dict[str, Any] = json.loads((folder / CONTENTS).read_text())
    return kept


async def make(release: str, kind: str, records: list[type[Record]], url: str | None) -> None:
    """Fill a store of this version and keep it."""
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(temporary)
        async with Upstreams.running() as up:
            settings = up.settings(home, url)
            prepare_store(new_settings(**settings))
            jobs = tuple(up.job(number, poison=False) for number in range(JOBS))
            working = start(Options(settings, up.hook.url("/hook"), jobs, until_done=True))
            await asyncio.to_thread(working.join)
            if working.exitcode:
                raise SystemExit(f"The jobs of the kept store ended with {working.exitcode}.")
            async with open_app(new_settings(**settings)) as app:
                params = {"keyword": "bars that wait", "zips": ["85001", "85002"], "pages": 2}
                waiting = await app.submit("places", params)
                await app.ledger.pause(waiting.job, "kept for a later version")
        tables: Tables = (
            PostgresTables(url, server_settings={"search_path": "forager"}) if url else SqliteTables(home / "ledger.db")
        )
        (home / CONTENTS).write_text(json.dumps(contents(tables, records), indent=1))
        tables.close()
        if url:
            command = [str(find_programs() / "pg_dump"), "--no-owner", "--no-privileges", "--inserts", url]
            (home / DUMP).write_bytes(subprocess.run(command, check=True, capture_output=True).stdout)
        target = STORES / release / f"{kind}.tar.gz"
        target.parent.mkdir(parents=True, exist_ok=True)
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            for file in sorted(home.rglob("*")):
                if file.is_file() and file.name not in ("lock", "policies.yaml") and file.suffix != ".sock":
                    archive.add(file, file.relative_to(home))
        target.write_bytes(packed.getvalue())
        sys.stdout.write(f"{target.relative_to(STORES)}: {len(packed.getvalue()):,} bytes\n")


def keep_code(source: Path, target: Path) -> None:
    """Keep the code of a version: what a worker runs."""
    with tarfile.open(target, mode="w:xz", preset=9) as archive:
        for file in sorted(source.rglob("*")):
            name = file.relative_to(source)
            if file.is_file() and file.suffix in CODE_FILES and not NOT_KEPT & set(name.parts):
                entry = tarfile.TarInfo(str(name))
                entry.size = file.stat().st_size
                with file.open("rb") as body:
                    archive.addfile(entry, body)


def unpack_code(release: str, present: Path, folder: Path) -> Path:
    """Unpack the code of a release. What it does not hold is that of the present version."""
    shutil.copytree(present, folder, ignore=shutil.ignore_patterns("__pycache__", "migrations", *_CODE_PATTERNS))
    with tarfile.open(STORES / release / CODE) as archive:
        archive.extractall(folder, filter="data")
    return folder


_CODE_PATTERNS = tuple(f"*{suffix}" for suffix in CODE_FILES)


def _make_all(release: str) -> None:
    (STORES / release).mkdir(parents=True, exist_ok=True)
    keep_code(Path(forager.__file__).parent, STORES / release / CODE)
    records = [r for each in build_pipelines(new_settings(), all_features()) for r in each.records]
    asyncio.run(make(release, "sqlite", records, None))
    with running_postgres() as server:
        url = server.create_database()
        asyncio.run(make(release, "postgres", records, url))


def restore(server: Postgres, dump: Path) -> str:
    """Load the dump into a new database and return its URL."""
    url = server.create_database()
    subprocess.run(
        [find_programs() / "psql", "-q", "-v", "ON_ERROR_STOP=1", "-f", dump, url],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return url


if __name__ == "__main__":
    _make_all(sys.argv[1])
