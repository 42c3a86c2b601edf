"""Exports as Parquet, Excel and DuckDB: types are kept, ids survive, and a missing package is named."""

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from threading import Thread
from typing import Any
from zipfile import ZipFile

import pytest

from forager.core.errors import Rejected
from forager.sdk import table_files
from forager.sdk.cli.row_files import Format, write_pages
from forager.sdk.table_files import TableForm, moved_to, write_table

CID = "9523048712390481237"
ROWS: list[dict[str, Any]] = [
    {"cid": CID, "zip": "02139", "rating": 4.5, "count": 7, "open": True, "where": {"city": "Boston"}},
    {"cid": "1", "zip": "85001", "rating": 4, "count": None, "open": False, "where": {"city": "Phoenix"}},
    {"cid": "=1+1", "zip": None, "rating": None, "count": 1 << 60, "open": None, "where": None, "tags": ["a"]},
]


async def pages() -> AsyncIterator[Sequence[Mapping[str, Any]]]:
    yield ROWS[:2]
    yield ROWS[2:]


async def written(folder: Path, form: TableForm) -> Path:
    pytest.importorskip(table_files.EXTRAS[form][0])
    output = folder / f"place.{form}"
    assert await write_table(pages(), form, output, name="place", columns=["zip", "cid"]) == 3
    assert [each.name for each in folder.iterdir()] == [output.name]
    return output


async def test_a_parquet_file_has_types_and_ids_as_text(tmp_path: Path) -> None:
    output = await written(tmp_path, "parquet")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(output)

    assert table.column_names == ["zip", "cid", "rating", "count", "open", "where.city", "tags"]
    assert table["cid"].to_pylist() == [CID, "1", "=1+1"]
    assert table["zip"].to_pylist() == ["02139", "85001", None]
    assert table["rating"].to_pylist() == [4.5, 4.0, None]
    assert table["count"].to_pylist() == [7, None, 1 << 60]
    assert table["where.city"].to_pylist() == ["Boston", "Phoenix", None]


async def test_a_duckdb_file_can_be_queried(tmp_path: Path) -> None:
    output = await written(tmp_path, "duckdb")
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(str(output), read_only=True) as database:
        rows = database.execute('SELECT cid, zip, "count", "where.city" FROM place ORDER BY rating DESC').fetchall()

    assert rows[0] == (CID, "02139", 7, "Boston")
    assert {row[2] for row in rows} == {7, None, 1 << 60}


async def test_a_spreadsheet_keeps_long_ids_and_leading_zeros_and_runs_no_formula(tmp_path: Path) -> None:
    output = await written(tmp_path, "xlsx")
    with ZipFile(output) as book:
        sheet = book.read("xl/worksheets/sheet1.xml").decode()

    assert all(f">{text}<" in sheet for text in (CID, "02139", "=1+1", str(1 << 60)))
    assert "<f>" not in sheet
    assert f"<v>{CID}</v>" not in sheet


async def test_a_missing_package_is_named_with_its_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(table_files, "import_module", missing)
    with pytest.raises(Rejected, match=r"xlsxwriter: pip install 'forager-data\[excel\]'"):
        await write_table(pages(), "xlsx", tmp_path / "x.xlsx", name="place", columns=[])
    assert list(tmp_path.iterdir()) == []


async def test_more_rows_than_a_sheet_has_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("xlsxwriter")
    monkeypatch.setattr(table_files, "MOST_SHEET_ROWS", 2)
    with pytest.raises(Rejected, match="at most 2 rows, and these are 3"):
        await write_table(pages(), "xlsx", tmp_path / "x.xlsx", name="place", columns=[])


def read_all(pipe: Path) -> tuple[Thread, list[bytes]]:
    got: list[bytes] = []
    reader = Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    return reader, got


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
async def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path: Path, form: str) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader, got = read_all(pipe)
    if form == "parquet":
        pytest.importorskip("pyarrow")
        await write_table(pages(), "parquet", pipe, name="place", columns=["zip"])
    else:
        await write_pages(pages(), Format(form), pipe)
    reader.join(10)

    assert CID.encode() in got[0]
    assert pipe.is_fifo()
    assert [each.name for each in tmp_path.iterdir()] == ["pipe"]


async def test_a_link_stays_a_link_and_its_target_is_written(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "latest.jsonl"
    link.symlink_to("real/today.jsonl")
    await write_pages(pages(), Format.JSONL, link)
    await write_pages(pages(), Format.JSONL, link)

    assert link.is_symlink()
    assert len((tmp_path / "real" / "today.jsonl").read_text().splitlines()) == 3
    assert [each.name for each in (tmp_path / "real").iterdir()] == ["today.jsonl"]


def test_a_device_is_never_replaced_by_a_file() -> None:
    assert moved_to(Path("/dev/null")) is None
    assert moved_to(Path("/dev/full")) is None
