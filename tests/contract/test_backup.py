"""A backup made while everything runs, restored into an empty database."""

import subprocess
from pathlib import Path

import pytest

from forager.core.ledger import Want
from tests.support.acts import acts, many
from tests.support.engine import open_postgres
from tests.support.postgres import Postgres, find_programs


async def test_a_restored_backup_continues_where_the_dump_was_made(
    postgres: Postgres, postgres_url: str, tmp_path: Path
) -> None:
    programs = find_programs()
    if not (programs / "pg_dump").exists():
        pytest.skip("pg_dump is not installed beside the server")
    rig = await open_postgres(postgres_url, [acts()])
    job = await rig.submit(many(20))
    session = await rig.ledger.begin("in flight at the dump")
    (lane,) = await rig.ledger.take_lanes(session, 10)
    assert len((await rig.ledger.settle_and_lease(session, [], [Want(lane.id, 5)])).leases) == 5
    dump = tmp_path / "forager.dump"
    subprocess.run([programs / "pg_dump", "--format=custom", f"--file={dump}", postgres_url], check=True)
    await rig.ledger.end(session)
    await rig.run()
    assert rig.job(job)["completed"] == 20, "the original goes on"
    await rig.close()

    restored_url = postgres.create_database()
    subprocess.run([programs / "pg_restore", "--no-owner", f"--dbname={restored_url}", dump], check=True)
    restored = await open_postgres(restored_url, [acts()], create=False)
    assert (restored.job(job)["completed"], restored.job(job)["running"]) == (0, 5)
    await restored.ledger.database.write("UPDATE sessions SET lease_until = 0")
    await restored.ledger.sweep()
    await restored.run()
    assert (restored.job(job)["state"], restored.job(job)["completed"]) == ("completed", 20)
    await restored.close()
    postgres.drop_database(restored_url)
