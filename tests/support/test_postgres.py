"""The private PostgreSQL does what the tests of outages and the fixtures rely on."""

import socket
import subprocess
import sys
from pathlib import Path

import asyncpg
import psutil
import pytest

from tests.support.postgres import Postgres, PostgresServer

ROOT = Path(__file__).resolve().parents[2]


async def test_every_database_is_empty_and_dropped_with_its_connections(postgres: Postgres) -> None:
    url = postgres.create_database()
    connection = await asyncpg.connect(url)
    assert await connection.fetchval("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == 0

    postgres.drop_database(url)

    with pytest.raises(asyncpg.PostgresError):
        await connection.fetchval("SELECT 1")
    with pytest.raises(asyncpg.InvalidCatalogNameError):
        await asyncpg.connect(url)


async def test_a_database_can_be_the_copy_of_another(postgres: Postgres, postgres_url: str) -> None:
    postgres.execute("CREATE TABLE kept AS SELECT 7 AS number", postgres_url)

    copy = postgres.create_database(template=postgres_url.rsplit("/", 1)[1])

    connection = await asyncpg.connect(copy)
    assert await connection.fetchval("SELECT number FROM kept") == 7
    await connection.close()
    postgres.drop_database(copy)


def test_a_port_that_was_taken_meanwhile_is_replaced_by_another(require_postgres: None) -> None:
    server = PostgresServer(fsync=False)
    with socket.create_server(("127.0.0.1", server.port)) as taken, server:
        assert server.port != taken.getsockname()[1]
        server.execute("SELECT 1")


async def test_a_killed_server_comes_back_with_what_was_committed(postgres_server: PostgresServer) -> None:
    url = postgres_server.create_database()
    held = await asyncpg.connect(url)
    await held.execute("CREATE TABLE kept AS SELECT 7 AS number")

    postgres_server.kill()
    with pytest.raises(OSError):
        await asyncpg.connect(url)
    postgres_server.start()

    again = await asyncpg.connect(url)
    assert await again.fetchval("SELECT number FROM kept") == 7
    await again.close()
    held.terminate()


@pytest.mark.usefixtures("postgres_server")  # needs PostgreSQL, and reports that it is missing
def test_a_server_does_not_outlive_a_killed_test_run() -> None:
    program = (
        "from tests.support.postgres import PostgresServer\n"
        "with PostgresServer(fsync=False) as server:\n"
        "    print(server._process.pid, server.folder, flush=True)\n"
        "    input()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as starter:
        assert starter.stdout is not None
        line = starter.stdout.readline().split()
        postmaster = psutil.Process(int(line[0]))
        starter.kill()

    postmaster.wait(60)

    subprocess.run(["rm", "-rf", line[1]], check=True)
