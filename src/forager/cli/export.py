"""`forager export`: records as JSON lines or CSV, to standard output or a file. Page by page: memory stays small."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forager.core.errors import FieldError, Rejected
from forager.kit.cli.client import part
from forager.kit.cli.ids import OfJob, full_job
from forager.kit.cli.invocation import Json
from forager.kit.cli.row_files import Format, write_pages
from forager.kit.cli.running import with_api

if TYPE_CHECKING:
    from forager.kit.cli.invocation import Reached


def export(
    context: typer.Context,
    kind: Annotated[str, typer.Argument(metavar="KIND", help="Record kind, such as place or scrape_result.")],
    form: Annotated[Format, typer.Option("--format", "-f", help="JSON lines or CSV.")] = Format.JSONL,
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
    """Write records of any kind as JSON lines or CSV.

    The kinds and their filters (--where) are those of the API's /records/{kind}. A file appears when it is complete.
    With --output and --json the number of rows is printed as JSON.
    """
    from forager.kit.cli import render

    query: dict[str, Any] = {**_filters(where or []), "as_of": as_of}
    kind, rows = with_api(context, lambda at: _write_all(at, kind, form, job, query, output))
    if output is None:
        return
    if as_json:
        render.show_json({"kind": kind, "rows": rows, "output": str(output)})
    else:
        render.notes().print(f"{render.some(rows, 'row')} in {output}", markup=False, soft_wrap=True)


async def _write_all(
    at: "Reached", kind: str, form: Format, job: str | None, query: Mapping[str, Any], output: Path | None
) -> tuple[str, int]:
    known = await _known(at, kind)
    asked = {**query, "job": await full_job(at.api, job) if job else None}
    path = f"/records/{part(known['kind'])}"
    # By pages and not as one stream, so that a restart of the Forager that answers does not cut the file short.
    rows = await write_pages(at.api.pages(path, **asked), form, output, columns=known["fields"])
    return known["kind"], rows


async def _known(at: "Reached", kind: str) -> Mapping[str, Any]:
    """Return the API's description of a kind. Accepts the plural (`places` for `place`). Raises `Rejected`, listing the
    kinds."""
    kinds = {each["kind"]: each for each in await at.api.get("/records")}
    known: Mapping[str, Any] | None = kinds.get(kind) or kinds.get(kind.removesuffix("s"))
    if known is None:
        problem = FieldError("kind", f"unknown record kind {kind!r}; choose from {', '.join(kinds)}")
        raise Rejected(f"{problem.message[0].upper()}{problem.message[1:]}.", fields=[problem])
    return known


def _filters(where: list[str]) -> dict[str, str]:
    given = {}
    for text in where:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise typer.BadParameter(f"{text!r} is not NAME=VALUE, such as state=AZ", param_hint="--where")
        given[name.strip()] = value
    return given
