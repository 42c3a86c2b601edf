"""The archive: inactive records move to files and keep their keys, whoever dies when."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import asyncpg
import pytest

from forager.core.clock import SystemClock
from forager.core.errors import Rejected, Transient
from forager.core.record import Record
from forager.core.states import TaskState
from forager.core.upkeep import NewFile
from forager.engine.archive import Archiver, FileFormat, Moved
from forager.ledger.tables.pages import ArchiveTable
from forager.storage.folder import Folder
from tests.support.archive_process import Options, archiver, start
from tests.support.chaos import Dice, gone
from tests.support.rig import Rig
from tests.support.rig_pipelines import Item, Thing, calls
from tests.support.sink_suite import open_store

DAY = 86_400.0
KILLED = -9
POINTS = (
    "archive-written",
    "archive-dropped",
    "archive-begun",
    "archived",
    "before-commit",
    "after-commit",
    "archive-moved",
    "archive-named",
)


async def _find(rig: Rig, *found: Record) -> None:
    await rig.submit(calls(1))
    worker = await rig.worker()
    (lease,) = await worker.lease()
    await worker.settle(lease, TaskState.COMPLETED, records=list(found))
    await rig.ledger.end(worker.session)


def _archives(rig: Rig) -> ArchiveTable:
    return ArchiveTable(rig.ledger.database, rig.catalog, rig.ledger.now_ms)


def _archiver(rig: Rig, folder: Path, form: FileFormat | None = None) -> Archiver:
    from forager.app.archive import JSON_LINES

    return Archiver(rig.ledger, _archives(rig), Folder(folder), str(folder), form or JSON_LINES, SystemClock(), most=3)


async def _move_all(rig: Rig, folder: Path, kind: str = "thing") -> list[Moved]:
    mover, moves = _archiver(rig, folder), [Moved(more=True)]
    before = await rig.ledger.now_ms() - round(180 * DAY * 1000)
    while moves[-1].more:
        moves.append(await mover.move(kind, before, moves[-1].after))
    return moves[1:]


def archived(folder: Path) -> list[str]:
    """The keys of all records in files that manifests name, as a reader finds them."""
    manifests = [json.loads(path.read_bytes()) for path in sorted((folder / "manifests").glob("*.json"))]
    lines = [line for each in manifests for line in (folder / each["path"]).read_bytes().splitlines()]
    assert sum(each["records"] for each in manifests) == len(lines)
    return [json.loads(line)["uid"] for line in lines]


async def test_inactive_records_move_to_files_and_keep_their_keys__PR_14(rig: Rig, tmp_path: Path) -> None:
    await _find(rig, *(Thing(uid=f"t{n}", size=n, tags=["a"]) for n in range(8)))
    await _find(rig, Thing(uid="t2", size=20))
    rig.pass_time(200 * DAY)
    await _find(rig, Thing(uid="t5"), Thing(uid="new"))
    assert [(move.records, move.files) for move in await _move_all(rig, tmp_path / "out")] == [(3, 1), (3, 1), (1, 1)]
    assert sorted(archived(tmp_path / "out")) == ["t0", "t1", "t2", "t3", "t4", "t6", "t7"]
    assert set(rig.rows(Thing)) == {"t5", "new"}
    found = await _archives(rig).find("thing", "t2")
    assert found is not None
    (row,) = [row for row in _rows_in(tmp_path / "out" / found.path) if row["uid"] == "t2"]
    assert (found.version, row["version"], row["size"], row["tags"], row["times_seen"]) == (2, 2, 20, ["a"], 2)
    assert await _archives(rig).find("thing", "t5") is None


def _rows_in(file: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in file.read_bytes().splitlines()]


async def test_a_record_that_comes_back_continues_with_the_next_version(rig: Rig, tmp_path: Path) -> None:
    await _find(rig, Thing(uid="back", size=1), Thing(uid="last"))
    await _find(rig, Thing(uid="back", size=2))
    rig.pass_time(200 * DAY)
    await _move_all(rig, tmp_path)
    await _find(rig, Thing(uid="back", size=3), Thing(uid="fresh"))
    told = [(c.op, c.version) for c in await rig.ledger.changes(0, 1_000) if c.key == "back"]
    assert told == [("new", 1), ("changed", 2), ("new", 3)]
    assert (rig.rows(Thing)["back"]["version"], rig.rows(Thing)["fresh"]["version"]) == (3, 1)
    rig.pass_time(200 * DAY)
    await _move_all(rig, tmp_path)
    again = await _archives(rig).find("thing", "back")
    assert again is not None
    assert again.version == 3
    assert sorted(archived(tmp_path)) == ["back", "back", "last"], "each state that was archived is in a file"


async def test_the_newest_row_stays_so_that_its_number_is_not_given_again(rig: Rig, tmp_path: Path) -> None:
    await _find(rig, Thing(uid="a"), Thing(uid="b"))
    rig.pass_time(200 * DAY)
    await _move_all(rig, tmp_path)
    assert (archived(tmp_path), set(rig.rows(Thing))) == (["a"], {"b"})


async def test_a_batch_moves_only_if_every_record_is_as_it_was_read(rig: Rig) -> None:
    await _find(rig, *(Thing(uid=f"t{n}") for n in range(4)))
    archives, now = _archives(rig), await rig.ledger.now_ms() + 1_000
    file = await archives.begin(NewFile("thing", "here", "thing/x", 3, 1, "d"))
    rig.pass_time(1)
    records = await archives.read("thing", now, 0, 10)
    await _find(rig, Thing(uid="t1"))  # seen again, without a change
    assert not await rig.ledger.archive(file, "thing", records)
    assert len(rig.rows(Thing)) == 4
    others = [record for record in records if record.key != "t1"]
    assert await archives.drop(file)
    assert not await rig.ledger.archive(file, "thing", others), "its file was taken to be abandoned"
    assert await archives.find("thing", "t0") is None
    file = await archives.begin(NewFile("thing", "here", "thing/y", 2, 1, "d"))
    assert await rig.ledger.archive(file, "thing", others)
    assert not await archives.drop(file), "it counts"
    assert set(rig.rows(Thing)) == {"t1", "t3"}


async def test_nothing_is_removed_for_a_file_that_cannot_be_read_back(rig: Rig, tmp_path: Path) -> None:
    await _find(rig, *(Item(uid=f"i{n}") for n in range(3)))
    rig.pass_time(200 * DAY)
    torn = FileFormat("jsonl", lambda rows: b"{}\n" * len(rows), lambda content: 1)
    before = await rig.ledger.now_ms() - round(180 * DAY * 1000)
    with pytest.raises(Transient, match="Nothing was removed"):
        await _archiver(rig, tmp_path, torn).move("item", before)
    assert len(rig.rows(Item)) == 3


async def test_what_a_sink_has_not_got_yet_is_not_archived(rig: Rig) -> None:
    await _find(rig, Thing(uid="a"))
    rig.pass_time(200 * DAY)
    changes = await rig.ledger.changes(0, 100)
    assert await rig.ledger.undelivered_since(["slow"]) == changes[0].at
    assert await rig.ledger.undelivered_since([]) > changes[-1].at
    for kind in ("seen", "nothing"):
        with pytest.raises(Rejected, match="cannot be archived"):
            await _archives(rig).count(kind, 0)


async def test_a_sighting_that_waits_for_the_archive_is_stored_again(postgres_url: str) -> None:
    engine = await open_store(postgres_url)
    rig = Rig(engine.ledger, engine.tables, None, lambda _: None, audited=False)
    await _find(rig, Thing(uid="a", size=1), Thing(uid="b"))
    file = await _archives(rig).begin(NewFile("thing", "here", "thing/x", 1, 1, "d"))
    db = await asyncpg.connect(postgres_url)
    try:
        async with db.transaction():
            await db.execute("DELETE FROM rig_things WHERE uid = 'a'")
            await db.execute("INSERT INTO archived VALUES ('thing', 'a', 1, $1, 0)", file)
            seen = asyncio.create_task(_find(rig, Thing(uid="a", size=2)))
            await _until_one_waits(db)
        await seen
    finally:
        await db.close()
    row = rig.rows(Thing)["a"]
    assert (row["size"], row["version"]) == (2, 2), "it continues from the version that was archived meanwhile"
    assert [c.version for c in await rig.ledger.changes(0, 1_000) if c.key == "a"] == [1, 2]
    await engine.close()


async def test_a_sighting_that_began_before_the_first_archive_continues_from_it(postgres_url: str) -> None:
    engine = await open_store(postgres_url)
    rig = Rig(engine.ledger, engine.tables, None, lambda _: None, audited=False)
    await _find(rig, Thing(uid="a", size=1), Thing(uid="b"))
    archives = _archives(rig)
    db = await asyncpg.connect(postgres_url)
    try:
        other = db.transaction()
        await other.start()
        columns = "uid, version, first_seen_at, last_seen_at, times_seen, changed_at"
        await db.execute(f"INSERT INTO rig_things ({columns}) VALUES ('0', 1, 0, 0, 1, 0)")
        # Rows are inserted in the order of their keys: this one waits for '0' before it comes to 'a'.
        seen = asyncio.create_task(_find(rig, Thing(uid="0"), Thing(uid="a", size=2)))
        await _until_one_waits(db)
        file = await archives.begin(NewFile("thing", "here", "thing/x", 1, 1, "d"))
        assert await rig.ledger.archive(file, "thing", await archives.read("thing", 2**60, 0, 1))
        await other.rollback()
        await seen
    finally:
        await db.close()
    assert {uid: row["version"] for uid, row in rig.rows(Thing).items()} == {"0": 1, "a": 2, "b": 1}
    assert [c.version for c in await rig.ledger.changes(0, 1_000) if c.key == "a"] == [1, 2]
    await engine.close()


async def _until_one_waits(db: asyncpg.Connection) -> None:
    """Wait until another transaction waits for the one of this connection."""
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE pg_backend_pid() = ANY(pg_blocking_pids(pid))"
    async with asyncio.timeout(60):
        while not await db.fetchval(waiting):
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("archive_first", [True, False])
async def test_a_record_that_is_seen_during_the_first_archive_never_begins_again(
    rig: Rig, *, archive_first: bool
) -> None:
    await _find(rig, Thing(uid="a", size=1), Thing(uid="b"))
    archives = _archives(rig)
    file = await archives.begin(NewFile("thing", "here", "thing/x", 1, 1, "d"))
    rig.pass_time(1)
    old = await archives.read("thing", await rig.ledger.now_ms(), 0, 1)
    both = [rig.ledger.archive(file, "thing", old), _find(rig, Thing(uid="a", size=2))]
    await asyncio.gather(*(both if archive_first else reversed(both)))
    assert [c.version for c in await rig.ledger.changes(0, 1_000) if c.key == "a"] == [1, 2]
    assert rig.rows(Thing)["a"]["version"] == 2


# ── deaths ──


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path) if request.param == "sqlite" else str(request.getfixturevalue("unmade_postgres_url"))


async def _fill(store: str, uids: Sequence[str]) -> None:
    engine = await open_store(store)
    rig = Rig(engine.ledger, engine.tables, None, lambda _: None, audited=False)
    await _find(rig, *(Thing(uid=uid) for uid in uids))
    await engine.close()


async def _left(store: str) -> list[str]:
    engine = await open_store(store, create=False)
    left = [row["uid"] for row in engine.tables.read("SELECT uid FROM rig_things")]
    await engine.close()
    return left


async def _check(store: str, folder: Path, uids: Sequence[str], *, finished: bool) -> None:
    """Every record is in the ledger or in a file that counts: in one of them, and once."""
    engine = await open_store(store, create=False)
    if finished:
        await archiver(engine, folder).recover()
    counted = engine.tables.read("SELECT path FROM archives WHERE state IN ('moved', 'listed')")
    await engine.close()
    moved = [str(row["uid"]) for file in counted for row in _rows_in(folder / file["path"])]
    assert sorted([*moved, *await _left(store)]) == sorted(uids)
    if finished:
        assert sorted(archived(folder)) == sorted(moved)
        files = {str(path.relative_to(folder)) for path in folder.rglob("*.jsonl")}
        assert files == {file["path"] for file in counted}, "what a death has left behind is removed"


@pytest.mark.timeout(300)
async def test_deaths_at_every_step_of_the_archive_lose_and_double_nothing__PR_14(store: str, tmp_path: Path) -> None:
    dice, folder, fired = Dice(), tmp_path / "archive", 0
    uids = [f"t{n:03}" for n in range(90)]
    await _fill(store, uids)
    for point in POINTS:
        nth = 1 if point == "archive-dropped" else dice.between(1, 2)
        died = await gone(start(Options(store, str(folder), point, nth)), 120) == KILLED
        fired += died
        await _check(store, folder, uids, finished=False)
    assert fired >= 7
    assert await gone(start(Options(store, str(folder))), 120) == 0
    await _check(store, folder, uids, finished=True)
    assert await _left(store) == ["t089"]


async def test_a_build_that_removes_records_before_their_file_is_there_is_found_out(tmp_path: Path) -> None:
    """The negative control of the test above."""
    await _fill(str(tmp_path), ["a", "b", "c"])
    options = Options(str(tmp_path), str(tmp_path / "archive"), "archive-begun", broken=True)
    assert await gone(start(options), 120) == KILLED
    with pytest.raises(AssertionError):
        await _check(str(tmp_path), tmp_path / "archive", ["a", "b", "c"], finished=False)
