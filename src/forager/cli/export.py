"""`forager export`: records as JSON lines or CSV, to standard output or a file. Page by page: memory stays small."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO
from uuid import UUID

import typer

from forager.cli.invocation import Json
from forager.cli.running import with_api
from forager.core.errors import Rejected

if TYPE_CHECKING:
    from forager.cli.connect import Reached


class Kind(StrEnum):
    PLACES = "places"
    SIGHTINGS = "sightings"


RECORDS = {Kind.PLACES: "place", Kind.SIGHTINGS: "sighting"}


class Format(StrEnum):
    JSONL = "jsonl"
    CSV = "csv"


def export(
    context: typer.Context,
    kind: Annotated[Kind, typer.Argument(help="places: each business once; sightings: once per job, as received.")],
    form: Annotated[Format, typer.Option("--format", "-f", help="JSON lines or CSV.")] = Format.JSONL,
    job: Annotated[UUID | None, typer.Option(help="Only what this job found.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", dir_okay=False, help="A file; without it, standard output.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write records as JSON lines or CSV.

    A file appears when it is whole. With --output and --json the number of rows is printed as JSON.
    """
    from forager.cli import render

    rows = with_api(context, lambda at: _write_all(at, kind, form, job, output))
    if output is None:
        return
    if as_json:
        render.show_json({"kind": kind.value, "rows": rows, "output": str(output)})
    else:
        render.notes().print(f"{render.some(rows, 'row')} in {output}", markup=False, soft_wrap=True)


async def _write_all(at: "Reached", kind: Kind, form: Format, job: UUID | None, output: Path | None) -> int:
    """By pages and not as one stream, so that a restart of the Forager that answers does not cut the file short."""
    from forager.api.tabular import csv_lines, json_lines

    rows = 0
    with _opened(output) as file:
        async for page in at.api.pages(f"/records/{RECORDS[kind]}", job=job):
            file.write(csv_lines(page, header=rows == 0) if form is Format.CSV else json_lines(page))
            rows += len(page)
    return rows


@contextmanager
def _opened(output: Path | None) -> Iterator[BinaryIO]:
    """A file is written beside its place and moved there when it is whole: nobody reads half an export."""
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
