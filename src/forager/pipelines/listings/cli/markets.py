"""`forager markets …`: the scraped cities, their frequency and their state."""

from typing import Annotated, Any

import typer

from forager.pipelines.listings.cli.job_words import words
from forager.pipelines.listings.records import SOURCE
from forager.sdk.cli import render
from forager.sdk.cli.client import part
from forager.sdk.cli.invocation import NO_WORKER, Json, Reached, with_api
from forager.sdk.cli.run_job import check_done, see_through, show_result

# `forager markets limits`: the limits of the upstream of all markets, and how much of them is used.


PATH = f"/admin/data-sources/{SOURCE}"
NONE = "none"
LIMIT_FIELDS = {
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
    """Show or set how many runs may be started and what they may cost.

    Example: forager markets limits --usd-per-month 100
    """
    given = {"max_requests_per_hour": per_hour, "max_requests_per_day": per_day, "max_usd_per_month": usd_per_month}
    body: dict[str, Any] = {name: _number(text) for name, text in given.items() if text is not None}
    if enabled is not None:
        body["is_enabled"] = enabled
    shown = with_api(
        context,
        lambda at: at.api.put(PATH, body) if body else at.api.get(PATH),
        fields=LIMIT_FIELDS,
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


commands = typer.Typer(help="The cities whose listings are scraped.", no_args_is_help=True)
MarketId = Annotated[str, typer.Argument(help="Id of the market, such as nyc.")]
MARKETS, SCRAPING = "/admin/markets", "/admin/scraping"
_ENDED = {"failed": "failed", "skipped": "was skipped"}
FIELDS = {
    "id": "market",
    "market_id": "market",
    "display_name": "name",
    "scrape_frequency_hours": "hours",
}
"""Options by the fields of the API that they set."""


@commands.command("list")
def list_markets(context: typer.Context, as_json: Json = False) -> None:
    """List all markets: tier, last and next scrape, and what is wrong.

    Example: forager markets list
    """

    async def work(at: Reached) -> tuple[Any, Any]:
        return await at.api.get(MARKETS), await at.api.get(SCRAPING)

    markets, scraping = with_api(context, work)
    if as_json:
        render.show_json(markets)
        return
    rows = render.table("id", "market", "tier", "last", "next", "")
    for each in markets:
        rows.add_row(
            each["id"],
            render.plain(_named(each)),
            render.plain(
                f"{each['tier']}, {each['scrape_frequency_hours']} h" if not each["problem"] else each["tier"]
            ),
            render.relative(each["last_scrape_at"]),
            render.planned(each["next_scrape_at"]),
            _remark(each),
        )
    render.out().print(rows)
    for each in markets:
        if each["problem"]:
            from forager.pipelines.listings.reports.markets import correction

            remedy = correction(each["id"], each["problem"])
            wrong = f"{each['id']} is not scraped: {each['problem']}. Correct it: {remedy}"
            render.notes().print(wrong, markup=False, soft_wrap=True)
    if markets and not scraping["started"]:
        start = "Start: forager markets start" if scraping["has_token"] else "Set APIFY_TOKEN to scrape."
        render.notes().print(
            f"Nothing is scraped by schedule. {_month(scraping)} {start}", markup=False, soft_wrap=True
        )


@commands.command()
def start(context: typer.Context, as_json: Json = False) -> None:
    """Scrape all enabled markets by schedule from now on. Costs money.

    Example: forager markets start
    """
    made = with_api(context, lambda at: at.api.post(f"{SCRAPING}/start"), store="created")
    if as_json:
        render.show_json(made)
        return
    following = f"The first scrapes start at {render.moment(made['next_dispatch_at'])} UTC"
    now = "at once: forager schedules run dispatch_scrapes"
    render.out().print(f"Started. {_month(made)}", markup=False, soft_wrap=True)
    render.out().print(f"{following}; {now}", markup=False, soft_wrap=True)
    if made["per_month"]["limit_usd"] is None:
        limit = "There is no limit per month. Set one: forager markets limits --usd-per-month 40"
        render.notes().print(limit, markup=False, soft_wrap=True)


@commands.command()
def stop(context: typer.Context, as_json: Json = False) -> None:
    """Scrape nothing by schedule until `markets start`. Runs that have begun finish.

    Example: forager markets stop
    """
    made = with_api(context, lambda at: at.api.post(f"{SCRAPING}/stop"))
    if as_json:
        render.show_json(made)
        return
    planned = made["cancelled"]
    but = f" {render.some(planned, 'planned scrape')} cancelled." if planned else ""
    render.out().print(f"Stopped.{but} Start again: forager markets start", markup=False, soft_wrap=True)


@commands.command()
def show(context: typer.Context, market: MarketId, as_json: Json = False) -> None:
    """Show a market: its last scrapes, what it costs, how far verification is behind.

    Example: forager markets show boston
    """
    shown = with_api(context, lambda at: at.api.get(f"{MARKETS}/{part(market)}"), fields=FIELDS)
    if as_json:
        render.show_json(shown)
        return
    render.out().print(render.facts(_facts(shown)))
    if not shown["scrapes"]:
        return
    failed = next((each for each in shown["scrapes"] if each["status"] in ("failed", "skipped")), None)
    rows = render.table(
        "scrape", "status", "found", "new", "merged", "rejected", "cost", right=("found", "new", "cost")
    )
    for each in shown["scrapes"]:
        counts = [render.count(each[name]) for name in ("found", "new", "merged", "errors")]
        rows.add_row(render.moment(each["started_at"]), each["status"], *counts, render.money(float(each["cost_usd"])))
    render.out().print(rows)
    if failed is not None:
        why = ": ".join(filter(None, (failed["reason"], failed["message"])))
        line = f"The scrape of {render.moment(failed['started_at'])} {_ENDED[failed['status']]}: {why}"
        render.out().print(line, markup=False, soft_wrap=True)


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
    """Add a city. The next dispatch scrapes it.

    Example: forager markets add salem-ma --city Salem --state MA --hours 24
    """
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
    """Change a market. A new tier also changes how fast its listings age.

    Example: forager markets set boston --tier hot --max-listings 200
    """
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
    """Scrape it no more until it is enabled again with `markets set --enable`.

    Example: forager markets disable boston
    """
    _changed(context, market, {"is_enabled": False}, as_json=as_json)


@commands.command()
def remove(context: typer.Context, market: MarketId, as_json: Json = False) -> None:
    """Remove a market. Its listings stay until they are gone.

    Example: forager markets remove salem-ma
    """
    removed = with_api(context, lambda at: at.api.delete(f"{MARKETS}/{part(market)}"), fields=FIELDS, store="created")
    render.show_json(removed) if as_json else render.out().print("Removed.")


@commands.command()
def scrape(context: typer.Context, market: MarketId, as_json: Json = False) -> None:
    """Scrape a market now, independently of its schedule.

    Example: forager listings run boston
    """

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


def plan(context: typer.Context, as_json: Json = False) -> None:
    """Show what the enabled markets cost a month; scrape nothing.

    Example: forager listings plan
    """
    made = with_api(context, lambda at: at.api.get(SCRAPING), store="optional")
    if as_json:
        render.show_json(made)
    else:
        state = "started" if made["started"] else "stopped; start it: forager markets start"
        render.out().print(f"{_month(made)} Scraping is {state}", markup=False, soft_wrap=True)


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


def _month(scraping: Any) -> str:
    """`19 markets: about 1,126 runs and $123.82 a month, at most $1,125.42.`"""
    month = scraping["per_month"]
    expected, worst = (render.money(float(month[name])) for name in ("expected_usd", "worst_usd"))
    runs = render.some(month["runs"], "run")
    return f"{render.some(month['markets'], 'market')}: about {runs} and {expected} a month, at most {worst}."


def _remark(market: Any) -> str:
    if market["problem"]:
        return "invalid"
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
