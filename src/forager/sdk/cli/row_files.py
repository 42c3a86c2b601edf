"""Rows to a file or to standard output, as JSON lines or CSV. Page by page: memory stays small."""

import os
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import StrEnum
from itertools import islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO

import orjson

from forager.core.errors import Rejected
from forager.sdk.table_files import moved_to
from forager.sdk.tabular import CsvTable, Nested, json_lines

AT_ONCE = 1_000
"""Rows that are turned into CSV together."""


class Format(StrEnum):
    JSONL = "jsonl"
    CSV = "csv"

    @classmethod
    def of(cls, output: Path) -> "Format":
        """Return the format for a file's suffix."""
        return cls.CSV if output.suffix.lower() == ".csv" else cls.JSONL


async def write_pages(
    pages: AsyncIterator[Sequence[Any]], form: Format, output: Path | None, *, columns: Sequence[str] = ()
) -> int:
    """Write every row, to a file or (None) to standard output. Returns how many there were.

    Without `columns`, those of a CSV file are the fields of its rows. Raises `Rejected` if the file cannot be written.
    """
    with opened(output) as file:
        if form is Format.CSV:
            return await _write_csv(pages, file, columns)
        rows = 0
        async for page in pages:
            file.write(json_lines(page))
            rows += len(page)
        return rows


async def _write_csv(pages: AsyncIterator[Sequence[Any]], file: BinaryIO, columns: Sequence[str]) -> int:
    """The header needs the keys of every nested object, so the rows wait in a temporary file until all are there."""
    nested, names, rows = Nested(), dict.fromkeys(columns), 0
    with TemporaryFile() as waiting:
        async for page in pages:
            nested.note(page)
            names.update(dict.fromkeys(name for row in page for name in row))
            waiting.write(json_lines(page))
            rows += len(page)
        table = CsvTable(nested.columns(names))
        file.write(table.header() if names else b"")
        waiting.seek(0)
        while lines := list(islice(waiting, AT_ONCE)):
            file.write(table.lines(map(orjson.loads, lines)))
    return rows


@contextmanager
def opened(output: Path | None) -> Iterator[BinaryIO]:
    """Write a file next to its target and move it there when it is complete, so that no reader sees half an export.
    A device or a pipe is written to directly."""
    if output is None:
        yield sys.stdout.buffer
        return
    target = moved_to(output)
    unfinished = None if target is None else target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with (unfinished or output).open("wb") as file:
            yield file
        if unfinished is not None and target is not None:
            unfinished.replace(target)
    except OSError as error:
        raise Rejected(
            f"{output} cannot be written ({error.strerror or error}). Choose another with --output."
        ) from error
    finally:
        if unfinished is not None:
            with suppress(OSError):  # it was reported above
                unfinished.unlink(missing_ok=True)
