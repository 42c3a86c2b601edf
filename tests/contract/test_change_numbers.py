"""Why change numbers come from one row that is held to the commit (trap 1): two simpler ways lose changes.

Each negative control is the shortest interleaving in which a reader with an integer cursor misses a row for ever. The
same interleaving over the ledger is in `test_a_slow_commit_is_waited_for_and_never_skipped`.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from forager.core.ledger import NewJob
from tests.support.rig import Rig
from tests.support.rig_pipelines import calls

if TYPE_CHECKING:
    Connection = asyncpg.Connection[Any]
else:
    Connection = asyncpg.Connection


@pytest.fixture
async def three(postgres_url: str) -> AsyncIterator[tuple[Connection, Connection, Connection]]:
    """A slow writer, a quick writer and a reader, over a log numbered by a sequence."""
    slow, quick, reader = [await asyncpg.connect(postgres_url) for _ in range(3)]
    await reader.execute("CREATE TABLE log (id bigserial PRIMARY KEY, what text)")
    yield slow, quick, reader
    for connection in (slow, quick, reader):
        await connection.close()


async def test_a_plain_sequence_skips_a_late_commit_trap_1(three: tuple[Connection, Connection, Connection]) -> None:
    slow, quick, reader = three
    late = slow.transaction()
    await late.start()
    await slow.execute("INSERT INTO log (what) VALUES ('late')")
    await quick.execute("INSERT INTO log (what) VALUES ('quick')")
    read, cursor = await _read(reader, 0)
    await late.commit()
    more, _ = await _read(reader, cursor)
    assert read + more == ["quick"], "the control must lose the late row, or it controls nothing"


async def test_xmin_with_an_integer_cursor_skips_a_late_commit_trap_1(
    three: tuple[Connection, Connection, Connection],
) -> None:
    """The older transaction takes the higher number, and the reader's horizon lets it through first."""
    slow, quick, reader = three
    older = quick.transaction()
    await older.start()
    await quick.fetchval("SELECT pg_current_xact_id()")
    younger = slow.transaction()
    await younger.start()
    await slow.execute("INSERT INTO log (what) VALUES ('late')")
    await quick.execute("INSERT INTO log (what) VALUES ('quick')")
    await older.commit()
    settled = " AND xmin::text::bigint < pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
    read, cursor = await _read(reader, 0, settled)
    await younger.commit()
    more, _ = await _read(reader, cursor, settled)
    assert read + more == ["quick"], "the control must lose the late row, or it controls nothing"


async def test_a_slow_commit_is_waited_for_and_never_skipped_trap_1(rig: Rig) -> None:
    """Whoever submits while another commit is open gets a later number, and a reader never sees the later one first."""
    read: list[int] = []

    async def follow() -> None:
        while len(read) < 80:
            read.extend(change.id for change in await rig.ledger.changes(read[-1] if read else 0, 3))

    async def submit(many: int) -> None:
        for _ in range(10):
            await rig.ledger.submit(NewJob("rig", {"name": "job"}), calls(many))

    sizes = (1, 700, 2, 300, 1, 50, 400, 3)  # slow and quick commits side by side
    await asyncio.wait_for(asyncio.gather(follow(), *(submit(n) for n in sizes)), 60)
    assert read == list(range(1, 81))


async def _read(reader: Connection, after: int, more: str = "") -> tuple[list[str], int]:
    rows = await reader.fetch(f"SELECT id, what FROM log WHERE id > $1{more} ORDER BY id", after)
    return [row["what"] for row in rows], rows[-1]["id"] if rows else after
