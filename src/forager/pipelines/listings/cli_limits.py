"""`forager markets limits`: how much the upstream of all markets may be asked for, and what was used of that."""

from typing import Annotated, Any

import typer

from forager.kit.cli import render
from forager.kit.cli.invocation import Json
from forager.kit.cli.running import with_api
from forager.pipelines.listings.tables import SOURCE

PATH = f"/admin/data-sources/{SOURCE}"
NONE = "none"
FIELDS = {
    "max_requests_per_hour": "per_hour",
    "max_requests_per_day": "per_day",
    "max_usd_per_month": "usd_per_month",
}
"""Options by the fields of the API that they set."""


def limits(
    context: typer.Context,
    per_hour: Annotated[
        str | None, typer.Option(metavar="N", help="Maximum runs per UTC hour; `none` removes the limit.")
    ] = None,
    per_day: Annotated[
        str | None, typer.Option(metavar="N", help="Maximum runs per UTC day; `none` removes the limit.")
    ] = None,
    usd_per_month: Annotated[
        str | None, typer.Option(metavar="USD", help="Maximum USD per UTC month; `none` removes the limit.")
    ] = None,
    enabled: Annotated[bool | None, typer.Option("--enable/--disable", help="Start runs, or start none.")] = None,
    as_json: Json = False,
) -> None:
    """Show or set how many runs may be started and what they may cost."""
    given = {"max_requests_per_hour": per_hour, "max_requests_per_day": per_day, "max_usd_per_month": usd_per_month}
    body: dict[str, Any] = {name: _number(text) for name, text in given.items() if text is not None}
    if enabled is not None:
        body["is_enabled"] = enabled
    shown = with_api(
        context,
        lambda at: at.api.put(PATH, body) if body else at.api.get(PATH),
        fields=FIELDS,
        store="created" if body else "existing",
    )
    if as_json:
        render.show_json(shown)
        return
    dollars = shown["max_usd_per_month"]
    most = {
        "hour": _of(shown["max_requests_per_hour"]),
        "day": _of(shown["max_requests_per_day"]),
        "month": _of(None if dollars is None else render.money(float(dollars))),
    }
    figures = [
        ("source", render.plain(shown["name"])),
        ("state", "enabled" if shown["is_enabled"] else "disabled"),
        ("runs this hour", f"{render.count(shown['requests_this_hour'])} {most['hour']}"),
        ("runs today", f"{render.count(shown['requests_today'])} {most['day']}"),
        ("cost this month", f"{render.money(float(shown['usd_this_month']))} {most['month']}"),
    ]
    render.out().print(render.facts(figures))


def _number(text: str) -> Any:
    """Convert an option to what the API expects: null for `none`, an integer where it is one. Anything else is passed
    on as text, and the API reports what is wrong with it."""
    if text.strip().lower() == NONE:
        return None
    try:
        return int(text)
    except ValueError:
        return text


def _of(limit: Any) -> str:
    return "(no limit)" if limit is None else f"of {limit}"
