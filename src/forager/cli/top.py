"""`forager top`: jobs, lanes and sinks as a live view in the terminal. It only reads, through the API.

On a terminal it is redrawn until Ctrl-C; elsewhere, and with `--once`, one view is printed.
"""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forager.sdk.cli.invocation import Json, Reached, short_job, with_api

if TYPE_CHECKING:
    from rich.console import RenderableType

LANES = 8
"""Lanes that are shown: those that something is wrong with first, then those in use."""
READ_LANES = 200
SINKS = 6
BAR = 12
WIDE = 120
"""Columns of a terminal on which a job takes one line."""


def top(
    context: typer.Context,
    every: Annotated[float, typer.Option(min=0.2, max=60, help="Seconds between two updates.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Print one view and end.")] = False,
    as_json: Json = False,
) -> None:
    """Show jobs, lanes and sinks live: progress, rate, cost, waits and problems. Ctrl-C ends the view, not the work.

    Example: forager top --once
    """
    from forager.sdk.cli import render

    console = render.out()
    if once or as_json or not console.is_terminal:
        seen = with_api(context, look)
        if as_json:
            render.show_json(seen)
        else:
            console.print(drawn(seen, datetime.now(UTC), console.width))
        return
    with_api(context, lambda at: _live(at, every))


async def look(at: Reached) -> dict[str, Any]:
    """Return one view: the overview, the lanes and the sinks. `alone` is true if no Forager runs."""
    overview, lanes, sinks = await asyncio.gather(
        at.api.get("/overview"), at.api.get("/lanes", limit=READ_LANES), at.api.get("/sinks")
    )
    return {"alone": at.is_alone, "overview": overview, "lanes": lanes, "sinks": sinks}


async def _live(at: Reached, every: float) -> None:
    from rich.live import Live

    from forager.sdk.cli import render

    console = render.out()
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            live.update(drawn(await look(at), datetime.now(UTC), console.width), refresh=True)
            await asyncio.sleep(every)


def drawn(seen: Mapping[str, Any], now: datetime, width: int) -> "RenderableType":
    """Render one view for a terminal of this many columns."""
    from rich.console import Group

    overview = seen["overview"]
    parts: list[RenderableType] = [_headline(seen, now)]
    parts += [_problem(each) for each in overview["attention"]]
    parts.append(_jobs(overview["running"], width))
    if lanes := ranked(seen["lanes"]):
        parts.append(_lanes(lanes[:LANES], len(lanes)))
    if sinks := [each for each in seen["sinks"] if each["configured"]]:
        parts.append(_sinks(sinks))
    if overview["changed"]:
        parts.append(_changes(overview["changed"][:5]))
    return Group(*parts)


def _headline(seen: Mapping[str, Any], now: datetime) -> Any:
    from rich.text import Text

    from forager.sdk.cli import render

    overview = seen["overview"]
    health, counts, spend = overview["health"], overview["counts"], overview["spend"]
    # A process of its own measures nothing: without a Forager that runs, rates would be those of this command.
    worker = "no worker is running" if seen["alone"] else f"worker {health['worker']}"
    status = "not running" if seen["alone"] else health["status"]
    style = {"ok": "bold green", "degraded": "bold yellow", "red": "bold red"}.get(status, "bold yellow")
    parts = [
        worker,
        f"{overview['rate']['tasks_per_second']:,.0f} tasks/s",
        render.some(counts["open_jobs"], "open job"),
        f"{render.count(counts['dead_letters'])} dead letters",
        f"{render.count(counts['changes_today'])} changes today",
    ]
    if spend["today_usd"] is not None:
        parts.append(f"{render.money(spend['today_usd'])} today")
    if spend["budget_usd"] is not None:
        parts.append(f"{render.money(spend['budget_usd'])} left")
    return Text.assemble((f"forager {status}", style), f"  {now:%H:%M:%S} UTC  ", " · ".join(parts))


def _problem(each: Mapping[str, Any]) -> Any:
    from rich.text import Text

    from forager.sdk.cli import render

    style = "red" if each["severity"] == "failed" else "yellow"
    return Text.assemble((f"! {render.plain(each['title'])}", style), f": {render.plain(each['detail'])}")


def _jobs(running: Sequence[Mapping[str, Any]], width: int) -> Any:
    """Return a row for each open job. Its current activity is next to it on a wide terminal, below it on others."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.text import Text

    from forager.cli.feature_commands import words_of
    from forager.sdk.cli import render
    from forager.sdk.cli.progress import done

    if not running:
        return Text("\nNo open jobs.", style="dim")
    right = ("done", "rate", "left", "cost", "failed")
    is_wide = width >= WIDE
    rows = render.table("job", "pipeline", "progress", *right, *(["now"] if is_wide else []), right=right)
    for column in rows.columns:
        column.no_wrap, column.overflow = True, "ellipsis"
    below = []
    for job in running:
        words = words_of(job["pipeline"])
        waiting, ended = job.get("waiting"), done(job)
        now = Text.assemble(render.plain(words.request(job["params"])))
        if waiting:
            now.append(f": {waiting['message']}", style="yellow")
        rows.add_row(
            short_job(job["id"]),
            render.plain(job["pipeline"]),
            ProgressBar(total=max(1, job["total"]), completed=ended, width=BAR),
            f"{ended:,}/{job['total']:,}",
            "–" if job["rate"] is None else f"{job['rate']:,.1f}/s",
            render.duration(job["seconds_left"]),
            words.cost(job["spent"]) if job["spent"] else "–",
            render.count(job["failed"]),
            *([now] if is_wide else []),
        )
        below.append(Text.assemble((short_job(job["id"]), "bold"), " ", now))
    return rows if is_wide else Group(rows, *below)


def ranked(lanes: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the lanes worth a look: those that are stopped, those that wait, then those in use."""
    from forager.cli.lanes import standing

    order = {"paused": 0, "breaker open": 0, "running": 2}
    found = [each for each in lanes if standing(each) in order or each["waiting"]]
    return sorted(
        found, key=lambda each: (min(order.get(standing(each), 1), 1 if each["waiting"] else 2), each["name"])
    )


def _lanes(lanes: Sequence[Mapping[str, Any]], of: int) -> Any:
    from forager.cli.lanes import standing
    from forager.sdk.cli import render

    rows = render.table("lane", "state", "waits for", fold=("waits for",))
    for each in lanes:
        waits = each["waiting"]
        rows.add_row(render.plain(each["name"]), standing(each), render.plain(waits["message"]) if waits else "–")
    if of > len(lanes):
        rows.caption = f"{of - len(lanes)} more: forager lanes list"
    return rows


def _sinks(sinks: Sequence[Mapping[str, Any]]) -> Any:
    from forager.cli.sinks import state_of
    from forager.sdk.cli import render

    ordered = sorted(sinks, key=lambda each: (-each["failures"], -each["behind"], each["name"]))
    right = ("behind", "lag", "rate", "refused")
    rows = render.table("sink", "state", *right, "error", right=right, fold=("error",))
    for each in ordered[:SINKS]:
        rows.add_row(
            render.plain(each["name"]),
            state_of(each),
            render.count(each["behind"]),
            render.duration(each["lag_seconds"]),
            f"{each['rate']:,.0f}/s" if each["rate"] else "–",
            render.count(each["set_aside"]),
            render.plain(each["problem"] or (each["error"] if each["failures"] else None)),
        )
    if len(ordered) > SINKS:
        rows.caption = f"{len(ordered) - SINKS} more: forager sinks list"
    return rows


def _changes(changed: Sequence[Mapping[str, Any]]) -> Any:
    from forager.sdk.cli import render

    rows = render.table("kind", "record", "latest change")
    for column in rows.columns:
        column.no_wrap, column.overflow = True, "ellipsis"
    for each in changed:
        told = each["text"] if each["op"] == "changed" else each["op"]
        rows.add_row(render.plain(each["kind"]), render.plain(each["title"]), render.plain(told))
    return rows
