"""`forager changes`: what was new, changed or gone since a time, as a table of before and now."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forager.core.change import name_of
from forager.core.clock import seconds_with_unit
from forager.core.errors import FieldError, Rejected
from forager.core.ids import did_you_mean
from forager.sdk.cli.client import part
from forager.sdk.cli.invocation import Json, with_api

if TYPE_CHECKING:
    from forager.sdk.cli.invocation import Reached

SHOWN = 60
"""Characters of a value in the table."""
STAMPS = frozenset({"version", "first_seen_at", "last_seen_at", "changed_at", "times_seen"})


def changes(
    context: typer.Context,
    since: Annotated[
        str, typer.Option(metavar="TIME", help="Age (90m, 1d, 2w) or time (2026-03-14T12:00:00Z).")
    ] = "1d",
    kind: Annotated[str | None, typer.Option("--kind", help="Only this kind of records, such as product.")] = None,
    field: Annotated[str | None, typer.Option("--field", help="Only changes of this field, such as price.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="Maximum number of rows.")] = 100,
    as_json: Json = False,
) -> None:
    """Show which records are new, changed or gone since a time, each changed field as before → now.

    Example: forager changes --since 1d --kind product --field price
    """
    from forager.sdk.cli import render

    moment = read_since(since)
    rows = with_api(context, lambda at: changed_rows(at, moment, kind, field, limit), fields={"kinds": "kind"})
    if as_json:
        render.show_json(rows)
        return
    if not rows:
        render.notes().print(f"No changes since {render.moment(moment.isoformat())}.", markup=False)
        return
    table = render.table("when", "kind", "record", "change", "field", "before", "now", fold=("record", "before", "now"))
    for row in rows:
        cells = (row["kind"], row["name"], row["op"], row["field"], row["before"], row["now"])
        table.add_row(render.moment(row["at"]), *(render.plain(_text(cell)) for cell in cells))
    render.out().print(table)


def read_since(text: str) -> datetime:
    """Read how long ago, or when. Raises `BadParameter` for anything else."""
    try:
        return datetime.now(UTC) - timedelta(seconds=seconds_with_unit(text))
    except (ValueError, OverflowError):
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is neither how long ago, such as 1d, nor a time, such as 2026-03-14T12:00:00Z",
            param_hint="--since",
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


async def changed_rows(
    at: "Reached", since: datetime, kind: str | None, field: str | None, limit: int
) -> list[dict[str, Any]]:
    """Return a row for each changed field, and one for each record that is new or gone, newest first. Raises
    `Rejected` for a field that no such record has."""
    if field is not None:
        kinds = [each for each in await at.api.get("/records") if kind in (None, each["kind"])]
        known = {name for each in kinds for name in each["fields"]}
        if kinds and field not in known:
            choices = f" Choose from {', '.join(sorted(known))}." if kind else ""
            what = f"no {kind or 'record'} has a field {field!r}.{did_you_mean(field, known)}{choices}"
            raise Rejected("The request is not valid.", fields=[FieldError("field", what)])
    rows: list[dict[str, Any]] = []
    number = await _number_at(at, since)
    while True:
        page = await at.api.ask("GET", "/changes", query={"after": number, "kinds": kind, "limit": 500})
        for change in page.data:
            if change["kind"] not in ("job", "task"):
                rows += [row for row in await _rows_of(at, change) if field in (None, row["field"])]
        number = page.meta["next_after"]
        rows = rows[-limit:]
        if number >= page.meta["last"]:
            return rows[::-1]


async def _number_at(at: "Reached", moment: datetime) -> int:
    """Find the change after which the log is newer than a moment: numbers rise with time, so halves are left out."""
    low = 0
    high = (await at.api.ask("GET", "/changes", query={"limit": 1})).meta["last"]
    while low < high:
        middle = (low + high) // 2
        found = (await at.api.ask("GET", "/changes", query={"after": middle, "limit": 1})).data
        if found and datetime.fromisoformat(found[0]["at"]) < moment:
            low = found[0]["id"]
        else:
            high = middle
    return int(low)


async def _rows_of(at: "Reached", change: Mapping[str, Any]) -> list[dict[str, Any]]:
    body: Mapping[str, Any] = change["body"] or {}
    name = name_of(body, change["key"])
    row = {"at": change["at"], "kind": change["kind"], "key": change["key"], "name": name, "op": change["op"]}
    blank = {"field": None, "before": None, "now": None}
    if change["op"] != "changed" or change["scope"] == "job":
        return [{**row, **blank}]
    before = await _before(at, change)
    names = [each for each in body if each not in STAMPS and before.get(each) != body[each]]
    return [{**row, "field": each, "before": before.get(each), "now": body[each]} for each in names] or [
        {**row, **blank}
    ]


async def _before(at: "Reached", change: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the body of the record's version before this change; empty if it is no longer kept."""
    path = f"/records/{part(change['kind'])}/{part(change['key'])}/history"
    history: Sequence[Mapping[str, Any]] = await at.api.get(path, limit=100)
    older = [each for each in history if each["version"] < change["version"] and each.get("body")]
    return older[0]["body"] if older else {}


def _text(value: Any) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"
