"""`forager export`: records as JSON lines or CSV, to standard output or a file; or as Parquet, Excel or DuckDB."""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from forager.app.features import all_features
from forager.core.errors import FieldError, Rejected
from forager.core.ids import unknown_choice
from forager.sdk.cli.client import part
from forager.sdk.cli.invocation import Json, OfJob, full_job, with_api
from forager.sdk.cli.row_files import Format, write_pages

if TYPE_CHECKING:
    from forager.sdk.cli.invocation import Reached
    from forager.sdk.table_files import TableForm


class ExportFormat(StrEnum):
    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"
    XLSX = "xlsx"
    DUCKDB = "duckdb"


FIRST = ("keyword", "zip", "city")
"""Columns that a table begins with, if its records have them: what a person looks for first."""
SUFFIXES = {".csv": "csv", ".parquet": "parquet", ".xlsx": "xlsx", ".duckdb": "duckdb", ".db": "duckdb"}


def export(
    context: typer.Context,
    kind: Annotated[str, typer.Argument(metavar="KIND", help="Record kind, such as place or scrape_result.")],
    form: Annotated[
        ExportFormat | None,
        typer.Option("--format", "-f", help="Format; without it, by the suffix of --output, else JSON lines."),
    ] = None,
    job: OfJob = None,
    where: Annotated[
        list[str] | None,
        typer.Option("--where", metavar="NAME=VALUE", help="Only records with this value (repeatable)."),
    ] = None,
    as_of: Annotated[
        str | None,
        typer.Option("--as-of", metavar="TIME", help="Records as they were then, such as 2026-03-14T12:00:00Z."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", dir_okay=False, help="Output file (default: standard output).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write records of any kind as JSON lines, CSV, Parquet, Excel or a DuckDB file.

    The kinds and their filters (--where) are those of the API's /records/{kind}. A file appears when it is complete.
    With --output and --json the number of rows is printed as JSON.

    Example: forager export place -o places.xlsx
    """
    from forager.sdk.cli import render

    chosen = form or ExportFormat(SUFFIXES.get(output.suffix.lower() if output else "", "jsonl"))
    if output is None and chosen not in (ExportFormat.JSONL, ExportFormat.CSV):
        raise typer.BadParameter(f"the format {chosen} needs a file, such as --output {kind}.{chosen}", param_hint="-f")
    query: dict[str, Any] = {**filters_of(where or []), "as_of": as_of}
    kind, rows = with_api(context, lambda at: _write_all(at, kind, chosen, job, query, output))
    if output is None:
        return
    if as_json:
        render.show_json({"kind": kind, "rows": rows, "output": str(output)})
    else:
        render.notes().print(f"{render.some(rows, 'row')} in {output}", markup=False, soft_wrap=True)


async def _write_all(
    at: "Reached", kind: str, form: ExportFormat, job: str | None, query: Mapping[str, Any], output: Path | None
) -> tuple[str, int]:
    known = await known_kind(at, kind)
    asked = {**query, "job": await full_job(at.api, job) if job else None}
    # Read in pages and not as one stream, so that a restart of the answering process does not cut the file short.
    path = list_path(known, query)
    fields = [*known["fields"], *(() if path.startswith("/records/") else FIRST)]
    columns = [*(name for name in FIRST if name in fields), *(n for n in fields if n not in FIRST)]
    pages = at.api.pages(path, **asked)
    if output is not None and form not in (ExportFormat.JSONL, ExportFormat.CSV):
        from forager.sdk.table_files import write_table

        rows = await write_table(pages, cast("TableForm", form.value), output, name=known["kind"], columns=columns)
    else:
        rows = await write_pages(pages, Format(form.value), output, columns=columns)
    return known["kind"], rows


def list_path(known: Mapping[str, Any], query: Mapping[str, Any]) -> str:
    """Return the list to read: that of the kind's feature, whose rows have more columns, or the records, which have
    filters and a past of their own."""
    rows = next((each.rows for each in all_features() if each.kind == known["kind"] and each.rows), None)
    of_records = query.get("as_of") is not None or any(name in known["filters"] for name in query)
    return f"/records/{part(known['kind'])}" if rows is None or of_records else rows


async def known_kind(at: "Reached", kind: str) -> Mapping[str, Any]:
    """Return the API's description of a kind. Accepts the plural (`places` for `place`). Raises `Rejected`, listing the
    kinds."""
    kinds = {each["kind"]: each for each in await at.api.get("/records")}
    known: Mapping[str, Any] | None = kinds.get(kind) or kinds.get(kind.removesuffix("s"))
    if known is None:
        problem = FieldError("kind", unknown_choice("record kind", kind, kinds))
        raise Rejected(f"{problem.message[0].upper()}{problem.message[1:]}.", fields=[problem])
    return known


def filters_of(where: list[str]) -> dict[str, str]:
    """Read `NAME=VALUE` conditions. Raises `BadParameter` for other text."""
    given = {}
    for text in where:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise typer.BadParameter(f"{text!r} is not NAME=VALUE, such as state=AZ", param_hint="--where")
        given[name.strip()] = value
    return given
