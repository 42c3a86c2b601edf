"""Records as a table in a file: Parquet, Excel, or a DuckDB database. Each needs a package of its own.

Rows come page by page and wait in a temporary file of JSON lines, because the columns and their types are known only
when all are there. A column whose values are all of one type has that type; any other is text. Texts stay texts, so
that an id of nineteen digits or a ZIP with a leading zero is in a spreadsheet what it is here.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from itertools import islice
from pathlib import Path
from shutil import copyfileobj
from tempfile import NamedTemporaryFile, gettempdir
from typing import Any, Literal

import orjson

from forager.core.errors import Rejected
from forager.sdk.tabular import Nested

TableForm = Literal["parquet", "xlsx", "duckdb"]
EXTRAS: Mapping[TableForm, tuple[str, str]] = {
    "parquet": ("pyarrow", "parquet"),
    "xlsx": ("xlsxwriter", "excel"),
    "duckdb": ("duckdb", "duckdb"),
}
"""Maps a format to the package that writes it and the extra that installs it."""
AT_ONCE = 5_000
MOST_SHEET_ROWS = 1_048_575
LONGEST_CELL = 32_767
EXACT = 1 << 53
"""Integers beyond this are not exact in a spreadsheet, which has only floating-point numbers: they become text."""
_ARROW = {"boolean": "bool_", "bigint": "int64", "double": "float64", "text": "string"}


def needed(form: TableForm) -> Any:
    """Return the package that writes this form. Raises `Rejected` with the command that installs it."""
    package, extra = EXTRAS[form]
    try:
        return import_module(package)
    except ImportError as error:
        raise Rejected(f"The format {form} needs the package {package}: pip install 'forager-data[{extra}]'") from error


async def write_table(
    pages: AsyncIterator[Sequence[Mapping[str, Any]]],
    form: TableForm,
    output: Path,
    *,
    name: str,
    columns: Sequence[str],
) -> int:
    """Write every row into a file, and return how many there were. `name` is the table's. Raises `Rejected` if the
    package is missing or the file cannot be written."""
    library = needed(form)
    nested, names, rows = Nested(), dict.fromkeys(columns), 0
    with NamedTemporaryFile(suffix=".jsonl") as waiting:
        async for page in pages:
            nested.note(page)
            names.update(dict.fromkeys(key for row in page for key in row))
            waiting.writelines(orjson.dumps(row, default=str) + b"\n" for row in page)
            rows += len(page)
        waiting.flush()
        if form == "xlsx" and rows > MOST_SHEET_ROWS:
            raise Rejected(f"An Excel sheet has at most {MOST_SHEET_ROWS:,} rows, and these are {rows:,}. Use parquet.")

        def write() -> None:
            flat = nested.columns(names)
            types = _types(_flat_rows(Path(waiting.name), flat), flat)
            with _moved_there(output) as unfinished:
                _WRITERS[form](library, unfinished, name, types, _flat_rows(Path(waiting.name), flat))

        await asyncio.to_thread(write)  # encoding a large table takes seconds, in which the API answers others
    return rows


def _flat_rows(file: Path, columns: Sequence[str]) -> Iterator[list[Any]]:
    with file.open("rb") as lines:
        for line in lines:
            row = orjson.loads(line)
            yield [_value(row, column) for column in columns]


def _value(row: Mapping[str, Any], column: str) -> Any:
    value = row.get(column)
    if column not in row and "." in column:
        outer, _, inner = column.partition(".")
        of = row.get(outer)
        value = of.get(inner) if isinstance(of, Mapping) else None
    return orjson.dumps(value).decode() if isinstance(value, list | dict) else value


def _types(rows: Iterator[list[Any]], columns: Sequence[str]) -> dict[str, str]:
    """Return the type of each column: that of all of its values, or text."""
    seen: list[set[str]] = [set() for _ in columns]
    for row in rows:
        for kinds, value in zip(seen, row, strict=True):
            if value is not None:
                kinds.add(_type(value))
    return {
        column: kinds.pop() if len(kinds) == 1 else "double" if kinds == {"bigint", "double"} else "text"
        for column, kinds in zip(columns, seen, strict=True)
    }


def _type(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "bigint" if -(1 << 63) <= value < 1 << 63 else "text"
    return "double" if isinstance(value, float) else "text"


def _typed(value: Any, kind: str) -> Any:
    if value is None:
        return None
    return float(value) if kind == "double" else str(value) if kind == "text" else value


def _write_parquet(library: Any, output: Path, _: str, types: Mapping[str, str], rows: Iterator[list[Any]]) -> None:
    parquet = import_module("pyarrow.parquet")
    schema = library.schema([(column, getattr(library, _ARROW[kind])()) for column, kind in types.items()])
    with parquet.ParquetWriter(output, schema, compression="zstd") as writer:
        while some := list(islice(rows, AT_ONCE)):
            cells = zip(zip(*some, strict=True), schema, types.values(), strict=True)
            arrays = [library.array([_typed(v, kind) for v in values], field.type) for values, field, kind in cells]
            writer.write_table(library.Table.from_arrays(arrays, schema=schema))


def _write_xlsx(library: Any, output: Path, name: str, types: Mapping[str, str], rows: Iterator[list[Any]]) -> None:
    with library.Workbook(str(output), {"constant_memory": True, "strings_to_formulas": False}) as book:
        sheet = book.add_worksheet(name[:31])
        bold = book.add_format({"bold": True})
        for at, column in enumerate(types):
            sheet.write_string(0, at, column, bold)
        sheet.freeze_panes(1, 0)
        for number, row in enumerate(rows, 1):
            for at, (value, kind) in enumerate(zip(row, types.values(), strict=True)):
                _write_cell(sheet, number, at, value, kind)


def _write_cell(sheet: Any, row: int, column: int, value: Any, kind: str) -> None:
    if value is None:
        return
    if kind == "boolean":
        sheet.write_boolean(row, column, value)
    elif kind in ("bigint", "double") and abs(value) <= EXACT:
        sheet.write_number(row, column, value)
    else:
        sheet.write_string(row, column, str(value)[:LONGEST_CELL])


def _write_duckdb(library: Any, output: Path, name: str, types: Mapping[str, str], rows: Iterator[list[Any]]) -> None:
    """Load the rows from a file of JSON arrays with our own types: DuckDB would read an id as a number or a date."""
    table = _quoted(name)
    with NamedTemporaryFile(suffix=".jsonl") as flat:
        for row in rows:
            cells = {f"c{at}": _typed(v, kind) for at, (v, kind) in enumerate(zip(row, types.values(), strict=True))}
            flat.write(orjson.dumps(cells) + b"\n")
        flat.flush()
        with library.connect(str(output)) as database:
            declared = ", ".join(f"{_quoted(column)} {_sql(kind)}" for column, kind in types.items())
            database.execute(f"CREATE TABLE {table} ({declared})")
            read = ", ".join(f"c{at}: '{_sql(kind)}'" for at, kind in enumerate(types.values()))
            if flat.tell():
                database.execute(
                    f"INSERT INTO {table} SELECT * FROM read_json('{flat.name}', format='newline_delimited',"
                    f" columns={{{read}}}, maximum_object_size=268435456)"
                )


def _sql(kind: str) -> str:
    return "VARCHAR" if kind == "text" else kind.upper()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def moved_to(output: Path) -> Path | None:
    """Return the file that a complete output is moved to, links followed. None for a device or a pipe, such as
    /dev/stdout: a file that is moved there would replace it."""
    with suppress(OSError):  # such as a name that is too long: the error comes when the file is opened
        if output.exists() and not output.is_file():
            return None
        return output.resolve()
    return output


@contextmanager
def _moved_there(output: Path) -> Iterator[Path]:
    """Yield a path next to the output, and move the file there when it is complete. A device or a pipe gets a copy."""
    target = moved_to(output)
    folder = Path(gettempdir()) if target is None else target.parent
    unfinished = folder / f".{output.name}.{os.getpid()}.part"
    try:
        unfinished.unlink(missing_ok=True)
        yield unfinished
        if target is not None:
            unfinished.replace(target)
        else:
            with unfinished.open("rb") as made, output.open("wb") as to:
                copyfileobj(made, to)
    except OSError as error:
        raise Rejected(
            f"{output} cannot be written ({error.strerror or error}). Choose another with --output."
        ) from error
    finally:
        with suppress(OSError):  # it was reported above
            unfinished.unlink(missing_ok=True)


_WRITERS: Mapping[TableForm, Any] = {"parquet": _write_parquet, "xlsx": _write_xlsx, "duckdb": _write_duckdb}
