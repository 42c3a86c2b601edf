"""`forager export`: records as JSON lines or CSV, to standard output or a file. Page by page: memory stays small."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from forager.core.errors import Rejected
from forager.kit.cli.client import part
from forager.kit.cli.ids import OfJob, full_job
from forager.kit.cli.invocation import Json
from forager.kit.cli.running import with_api

if TYPE_CHECKING:
    from forager.kit.cli.invocation import Reached


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
    return known, await write_rows(at, f"/records/{part(known)}", form, query, output)


async def write_rows(at: "Reached", path: str, form: Format, query: Mapping[str, Any], output: Path | None) -> int:
    """Write every row of a list, to a file or to standard output; returns how many.

    By pages and not as one stream, so that a restart of the Forager that answers does not cut the file short.
    """
    from forager.api.tabular import csv_lines, json_lines

    rows = 0
    with _opened(output) as file:
        async for page in at.api.pages(path, **query):
            file.write(csv_lines(page, header=rows == 0) if form is Format.CSV else json_lines(page))
            rows += len(page)
    return rows


async def _known(at: "Reached", kind: str) -> str:
    """The kind as the API names it: `places` is accepted for `place`. Raises the API's error, which lists the kinds."""
    try:
        await at.api.get(f"/records/{part(kind)}", limit=1)
    except Rejected as unknown:
        singular = kind.removesuffix("s")
        if singular == kind:
            raise
        try:
            await at.api.get(f"/records/{part(singular)}", limit=1)
        except Rejected:
            raise unknown from None
        return singular
    return kind


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
