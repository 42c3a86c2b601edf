"""`forager markets …`: which cities are scraped, how often, and how they stand."""

from typing import Annotated, Any

import typer

from forager.kit.cli import render
from forager.kit.cli.client import part
from forager.kit.cli.invocation import Json, Reached
from forager.kit.cli.job_report import check_done, show_result
from forager.kit.cli.run_job import see_through
from forager.kit.cli.running import NO_WORKER, with_api
from forager.pipelines.listings.cli_limits import limits
from forager.pipelines.listings.cli_words import words

commands = typer.Typer(help="The cities whose listings are scraped.", no_args_is_help=True)
MarketId = Annotated[str, typer.Argument(help="Id of the market, such as nyc.")]
MARKETS = "/admin/markets"
FIELDS = {
    "id": "market",
    "market_id": "market",
    "display_name": "name",
    "scrape_frequency_hours": "hours",
}
"""Options by the fields of the API that they set."""


@commands.command("list")
def list_markets(context: typer.Context, as_json: Json = False) -> None:
    """List all markets: tier, last and next scrape, and what is wrong."""
    markets = with_api(context, lambda at: at.api.get(MARKETS))
    if as_json:
        render.show_json(markets)
        return
    rows = render.table("id", "market", "tier", "last", "next", "")
    for each in markets:
        rows.add_row(
            each["id"],
            render.plain(_named(each)),
            f"{each['tier']}, {each['scrape_frequency_hours']} h",
            render.relative(each["last_scrape_at"]),
            render.planned(each["next_scrape_at"]),
            _remark(each),
        )
    render.out().print(rows)


@commands.command()
def show(context: typer.Context, market: MarketId, as_json: Json = False) -> None:
    """Show a market: its last scrapes, what it costs, how far verification is behind."""
    shown = with_api(context, lambda at: at.api.get(f"{MARKETS}/{part(market)}"), fields=FIELDS)
    if as_json:
        render.show_json(shown)
        return
    render.out().print(render.facts(_facts(shown)))
    if not shown["scrapes"]:
        return
    rows = render.table(
        "scrape", "status", "found", "new", "merged", "rejected", "cost", right=("found", "new", "cost")
    )
    for each in shown["scrapes"]:
        counts = [render.count(each[name]) for name in ("found", "new", "merged", "errors")]
        rows.add_row(render.moment(each["started_at"]), each["status"], *counts, render.money(float(each["cost_usd"])))
    render.out().print(rows)


@commands.command()
def add(
    context: typer.Context,
    market: MarketId,
    city: Annotated[str, typer.Option(help="The city's name in the search of the source.")],
    state: Annotated[str, typer.Option(help="Two letters, such as MA.")],
    name: Annotated[str | None, typer.Option(help="Shown to people (default: the city).")] = None,
    tier: Annotated[str | None, typer.Option(help="hot, standard (default) or cool.")] = None,
    max_listings_per_scrape: Annotated[
        int | None, typer.Option("--max-listings", "--most", help="Maximum properties of one scrape (default 100).")
    ] = None,
    hours: Annotated[int | None, typer.Option(help="Hours between two scrapes (default: by the tier).")] = None,
    as_json: Json = False,
) -> None:
    """Add a city. The next dispatch scrapes it."""
    body = {
        "id": market,
        "city": city,
        "state": state,
        "display_name": name,
        "tier": tier,
        "max_listings_per_scrape": max_listings_per_scrape,
        "scrape_frequency_hours": hours,
    }
    made = with_api(context, lambda at: at.api.post(MARKETS, _given(body)), fields=FIELDS, store="created")
    render.show_json(made) if as_json else render.out().print(f"Added {made['id']}: every {_rhythm(made)}.")


@commands.command("set")
def set_market(
    context: typer.Context,
    market: MarketId,
    tier: Annotated[str | None, typer.Option(help="hot, standard or cool.")] = None,
    enabled: Annotated[bool | None, typer.Option("--enable/--disable", help="Scrape it, or leave it alone.")] = None,
    max_listings_per_scrape: Annotated[
        int | None, typer.Option("--max-listings", "--most", help="Maximum properties of one scrape.")
    ] = None,
    hours: Annotated[int | None, typer.Option(help="Hours between two scrapes; 0 takes an override back.")] = None,
    name: Annotated[str | None, typer.Option(help="Shown to people.")] = None,
    as_json: Json = False,
) -> None:
    """Change a market. A new tier also changes how fast its listings age."""
    body = _given(
        {
            "tier": tier,
            "is_enabled": enabled,
            "max_listings_per_scrape": max_listings_per_scrape,
            "display_name": name,
        }
    )
    if hours is not None:
        body["scrape_frequency_hours"] = hours or None
    _changed(context, market, body, as_json=as_json)


@commands.command()
def disable(context: typer.Context, market: MarketId, as_json: Json = False) -> None:
    """Scrape it no more until it is enabled again with `markets set --enable`."""
    _changed(context, market, {"is_enabled": False}, as_json=as_json)


@commands.command()
def remove(context: typer.Context, market: MarketId, as_json: Json = False) -> None:
    """Remove a market. Its listings stay until they are gone."""
    removed = with_api(context, lambda at: at.api.delete(f"{MARKETS}/{part(market)}"), fields=FIELDS, store="created")
    render.show_json(removed) if as_json else render.out().print("Removed.")


@commands.command()
def scrape(context: typer.Context, market: MarketId, as_json: Json = False) -> None:
    """Scrape a market now, whatever its schedule says."""

    async def work(at: Reached) -> None:
        made = await at.api.post(f"{MARKETS}/{part(market)}/scrape")
        if at.engine is None:
            follow = NO_WORKER if at.is_alone else f"Follow it: forager jobs watch {made['job_id']}"
            render.show_json(made) if as_json else render.out().print(f"Created. {follow}", soft_wrap=True)
            return
        if not as_json:
            render.notes().print(f"Job {made['job_id']}", markup=False)
        job = await see_through(at, made["job_id"], words=words, quiet=as_json)
        if as_json:
            render.show_json(await at.api.get(f"{MARKETS}/{part(market)}"))
        else:
            show_result(job, words)
        check_done(job, words)

    with_api(context, work, fields=FIELDS, store="created")


commands.command()(limits)


def _changed(context: typer.Context, market: str, body: dict[str, Any], *, as_json: bool) -> None:
    made = with_api(context, lambda at: at.api.put(f"{MARKETS}/{part(market)}", body), fields=FIELDS, store="created")
    state = "enabled" if made["is_enabled"] else "disabled"
    message = f"{made['id']}: {state}, {made['tier']}, every {_rhythm(made)}."
    render.show_json(made) if as_json else render.out().print(message)


def _given(body: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if value is not None}


def _named(market: Any) -> str:
    """Return the name of a market with its state, unless the name ends with it: `Washington DC`."""
    name, state = str(market["display_name"]), str(market["state"])
    return name if name.split()[-1:] == [state] else f"{name}, {state}"


def _rhythm(market: Any) -> str:
    return render.some(market["scrape_frequency_hours"], "hour")


def _remark(market: Any) -> str:
    if not market["is_enabled"]:
        return "disabled"
    if market["scraping_job"]:
        return "scraping"
    failures = render.some(market["consecutive_failures"], "failure")
    if market["circuit_open"]:
        return f"circuit open after {failures}"
    last = market["last_scrape_status"]
    return f"last: {last}" if last not in (None, "completed") else ""


def _facts(market: Any) -> list[tuple[str, Any]]:
    behind = market["waiting_for_verification"]
    runs = render.some(market["runs_this_month"], "run")
    since = f", the oldest since {render.moment(market['oldest_waiting_at'])}" if behind else ""
    return [
        ("market", render.plain(f"{market['display_name']} ({market['city']}, {market['state']})")),
        ("tier", f"{market['tier']}: every {_rhythm(market)}"),
        ("state", _remark(market) or "enabled"),
        ("listings", f"{render.count(market['listings_active'])} active of {render.count(market['listings_stored'])}"),
        ("to be verified", f"{render.count(behind)}{since}"),
        ("cost today", render.money(float(market["cost_today_usd"]))),
        ("cost this month", f"{render.money(float(market['cost_this_month_usd']))} in {runs}"),
        ("next scrape", render.moment(market["next_scrape_at"])),
    ]
