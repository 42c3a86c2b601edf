"""`forager export`: records as JSON lines or CSV, to standard output or a file. Page by page: memory stays small."""

import os
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from itertools import islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import orjson
import typer

from forager.core.errors import FieldError, Rejected
from forager.kit.cli.client import part
from forager.kit.cli.ids import OfJob, full_job
from forager.kit.cli.invocation import Json
from forager.kit.cli.running import with_api
from forager.kit.tabular import CsvTable, Nested, json_lines

if TYPE_CHECKING:
    from forager.kit.cli.invocation import Reached


AT_ONCE = 1_000
"""Rows that are turned into CSV together."""


class Format(StrEnum):
    JSONL = "jsonl"
    CSV = "csv"


def export(
    context: typer.Context,
    kind: Annotated[str, typer.Argument(metavar="KIND", help="Record kind, such as place or scrape_result.")],
    form: Annotated[Format, typer.Option("--format", "-f", help="JSON lines or CSV.")] = Format.JSONL,
    job: OfJob = None,
    where: Annotated[
        list[str] | None,
        typer.Option("--where", metavar="NAME=VALUE", help="Only records with this value; repeat it."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", dir_okay=False, help="A file; without it, standard output.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write records of any kind as JSON lines or CSV.

    The kinds and their filters (--where) are those of the API's /records/{kind}. A file appears when it is complete.
    With --output and --json the number of rows is printed as JSON.
    """
    from forager.kit.cli import render

    filters = _filters(where or [])
    kind, rows = with_api(context, lambda at: _write_all(at, kind, form, job, filters, output))
    if output is None:
        return
    if as_json:
        render.show_json({"kind": kind, "rows": rows, "output": str(output)})
    else:
        render.notes().print(f"{render.some(rows, 'row')} in {output}", markup=False, soft_wrap=True)


async def _write_all(
    at: "Reached", kind: str, form: Format, job: str | None, filters: Mapping[str, str], output: Path | None
) -> tuple[str, int]:
    known = await _known(at, kind)
    query: dict[str, Any] = {**filters, "job": await full_job(at.api, job) if job else None}
    path = f"/records/{part(known['kind'])}"
    return known["kind"], await write_rows(at, path, form, query, output, columns=known["fields"])


async def write_rows(
    at: "Reached",
    path: str,
    form: Format,
    query: Mapping[str, Any],
    output: Path | None,
    *,
    columns: Sequence[str] = (),
) -> int:
    """Write every row of a list, to a file or to standard output; returns how many.

    By pages and not as one stream, so that a restart of the Forager that answers does not cut the file short. Without
    `columns`, those of a CSV file are the fields of its rows.
    """
    with _opened(output) as file:
        if form is Format.CSV:
            return await _write_csv(at.api.pages(path, **query), file, columns)
        rows = 0
        async for page in at.api.pages(path, **query):
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


async def _known(at: "Reached", kind: str) -> Mapping[str, Any]:
    """The kind as the API describes it; `places` is accepted for `place`. Raises `Rejected`, which lists the kinds."""
    kinds = {each["kind"]: each for each in await at.api.get("/records")}
    found: Mapping[str, Any] | None = kinds.get(kind) or kinds.get(kind.removesuffix("s"))
    if found is None:
        problem = FieldError("kind", f"unknown record kind {kind!r}; choose from {', '.join(kinds)}")
        raise Rejected(f"{problem.message[0].upper()}{problem.message[1:]}.", fields=[problem])
    return found


def _filters(where: list[str]) -> dict[str, str]:
    given = {}
    for text in where:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise typer.BadParameter(f"{text!r} is not NAME=VALUE, such as state=AZ", param_hint="--where")
        given[name.strip()] = value
    return given


@contextmanager
def _opened(output: Path | None) -> Iterator[BinaryIO]:
    """Write a file beside its place and move it there when it is complete, so that no reader sees half an export."""
    if output is None:
        yield sys.stdout.buffer
        return
    unfinished = output.with_name(f".{output.name}.{os.getpid()}.part")
    try:
        with unfinished.open("wb") as file:
            yield file
        unfinished.replace(output)
    except OSError as error:
        raise Rejected(
            f"{output} cannot be written ({error.strerror or error}). Choose another with --output."
        ) from error
    finally:
        unfinished.unlink(missing_ok=True)
