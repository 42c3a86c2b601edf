"""`forager listings …`: search the listings, and see how their rents changed."""

from typing import Annotated, Any

import typer

from forager.pipelines.listings.cli.job_words import words
from forager.pipelines.listings.cli.markets import plan, scrape
from forager.sdk.cli import render
from forager.sdk.cli.invocation import Json, Reached, post, with_api
from forager.sdk.cli.run_job import see_through

commands = typer.Typer(help="Apartment listings that stay fresh, market by market.", no_args_is_help=True)
OF_LISTING = {"listing_id": "listing"}
ListingId = Annotated[int, typer.Argument(help="Id of the listing, as `forager listings search` shows it.")]


@commands.command()
def search(
    context: typer.Context,
    market: Annotated[str | None, typer.Option(help="Only listings of this market, such as nyc.")] = None,
    text: Annotated[str | None, typer.Option(help="Words in title, address, city, state or ZIP code.")] = None,
    city: Annotated[str | None, typer.Option(help="Only listings in this city.")] = None,
    zip_code: Annotated[str | None, typer.Option("--zip", help="Only listings in this ZIP code.")] = None,
    min_rent: Annotated[int | None, typer.Option(help="Lowest monthly rent of the unit in USD.")] = None,
    max_rent: Annotated[int | None, typer.Option(help="Highest monthly rent of the unit in USD.")] = None,
    beds: Annotated[float | None, typer.Option(help="Bedrooms of the unit; 0 for a studio.")] = None,
    baths: Annotated[float | None, typer.Option(help="Bathrooms of the unit.")] = None,
    min_area: Annotated[
        int | None, typer.Option("--min-area", "--min-sqft", help="Smallest area of the unit in square feet.")
    ] = None,
    max_area: Annotated[
        int | None, typer.Option("--max-area", "--max-sqft", help="Largest area of the unit in square feet.")
    ] = None,
    min_confidence: Annotated[
        int | None, typer.Option(help="Lowest confidence, 0 to 100 (default 40; inactive listings: any).")
    ] = None,
    inactive: Annotated[bool, typer.Option("--inactive", help="Include listings that are no longer active.")] = False,
    sort: Annotated[
        str, typer.Option(help="newest, rent, beds, area (-rent, -beds, -area: downwards) or seen.")
    ] = "newest",
    units: Annotated[bool, typer.Option("--units", help="Include the free units that match.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", help="Maximum number of listings.")] = 20,
    as_json: Json = False,
) -> None:
    """List active listings with their freshness badge.

    Rent, beds, baths and area must be those of one unit; a building that shows no units is compared by its ranges.

    Example: forager listings search --market boston --max-rent 3000 --beds 2
    """
    query = {
        "market": market,
        "text": text,
        "city": city,
        "zip": zip_code,
        "min_rent": min_rent,
        "max_rent": max_rent,
        "beds": beds,
        "baths": baths,
        "min_area": min_area,
        "max_area": max_area,
        "min_confidence": min_confidence,
        "inactive": inactive,
        "sort": sort,
    }
    listings = with_api(context, lambda at: _some(at, query, limit), fields={"zip": "zip_code"})
    if as_json:
        render.show_json(listings)
    elif listings:
        render.out().print(listings_table(listings, units=units))
    else:
        what = f"of {market} match. Scrape it" if market else "match. Scrape a market"
        hint = f"No listings {what}: forager markets scrape {market or 'boston'}"
        render.notes().print(hint, soft_wrap=True, markup=False)


@commands.command()
def show(context: typer.Context, listing: ListingId, as_json: Json = False) -> None:
    """Show one listing with everything that is known of it.

    Example: forager listings show 17
    """
    shown = with_api(context, lambda at: at.api.get(f"/listings/{listing}"), fields=OF_LISTING)
    if as_json:
        render.show_json(shown)
        return
    facts = [
        ("listing", f"{shown['id']} ({shown['listing_key']})"),
        ("listing", render.plain(shown["title"])),
        ("address", render.plain(", ".join(filter(None, (shown["address"], shown["city"], shown["state"]))))),
        ("rent", span_of(shown, "rent", "${:,.0f}")),
        ("beds", span_of(shown, "beds")),
        ("baths", span_of(shown, "baths")),
        ("badge", badge_of(shown)),
        ("confidence", shown["freshness_confidence"]),
        ("verification", shown["verification_status"]),
        ("seen", f"{render.some(shown['times_seen'], 'time')}, last {render.moment(shown['last_seen_at'])}"),
        ("on the market", render.some(shown["days_on_market"], "day")),
        ("page", render.plain(shown["source_url"])),
    ]
    render.out().print(render.facts(facts))


@commands.command()
def history(context: typer.Context, listing: ListingId, as_json: Json = False) -> None:
    """Show how the rent of a listing changed, newest first.

    Example: forager listings history 17
    """
    changes = with_api(context, lambda at: at.api.get(f"/listings/{listing}/history"), fields=OF_LISTING)
    if as_json:
        render.show_json(changes)
        return
    rows = render.table("since", "rent", "", right=("rent",))
    for point in changes["rents"]:
        rows.add_row(render.moment(point["at"]), span_of(point, "rent", "${:,.0f}"), "gone" if point["gone"] else "")
    render.out().print(rows)
    render.out().print(f"On the market for {render.some(changes['days_on_market'], 'day')}.")


@commands.command()
def why(context: typer.Context, listing: ListingId, as_json: Json = False) -> None:
    """Show which sources show a listing, and the evidence for which they were merged.

    Example: forager listings why 17
    """
    sources = with_api(context, lambda at: at.api.get(f"/listings/{listing}/why"), fields=OF_LISTING)
    if as_json:
        render.show_json(sources)
        return
    rows = render.table("source", "last seen", "state", "why", fold=("source", "why"))
    for each in sources:
        state = (each["gone_reason"] or "gone").replace("_", " ") if each["gone_at"] else "shown"
        evidence = ", ".join(f"{name} {value}" for name, value in (each["evidence"] or {}).items())
        reason = f"{each['reason']} {evidence}" if each["reason"] else "It showed the listing first."
        rows.add_row(render.plain(each["source_key"]), render.moment(each["last_seen_at"]), state, render.plain(reason))
    render.out().print(rows)


@commands.command()
def split(
    context: typer.Context,
    listing: ListingId,
    source: Annotated[str, typer.Argument(help="Key or id of the source, as `listings why` shows it.")],
    as_json: Json = False,
) -> None:
    """Undo a wrong merge. The source becomes a listing of its own, and stays one.

    Example: forager listings split 17 23
    """

    async def work(at: Reached) -> Any:
        made = await at.api.post(f"/listings/{listing}/split", {"source": source})
        if at.engine is not None:
            await see_through(at, made["job_id"], words=words, quiet=True)
        return made

    made = with_api(context, work, fields=OF_LISTING)
    message = "Split. The source is a listing of its own with its next sighting."
    render.show_json(made) if as_json else render.out().print(message)


@commands.command()
def verify(context: typer.Context, listing: ListingId, as_json: Json = False) -> None:
    """Look at the pages of a listing now, instead of when its confidence falls below 40.

    Example: forager listings verify 17
    """
    made, but = post(context, f"/listings/{listing}/verify", fields=OF_LISTING)
    render.show_json(made) if as_json else render.out().print(f"Queued.{but}", soft_wrap=True)


async def _some(at: Reached, query: dict[str, Any], limit: int) -> list[Any]:
    """Return the first listings that match. A page of a search may be short and still have a next one."""
    found: list[Any] = []
    async for page in at.api.pages("/listings", **query, limit=limit):
        found += page
        if len(found) >= limit:
            break
    return found[:limit]


def listings_table(listings: list[Any], *, units: bool = False) -> Any:
    """Listings with badge, rent and days on the market; with `units`, each followed by its free units that match."""
    rows = render.table("id", "listing", "market", "rent", "beds", "days", "badge", right=("id", "rent", "days"))
    for each in listings:
        rows.add_row(
            str(each["id"]),
            render.plain(each["title"] or each["address"]),
            render.plain(each["market_id"]),
            span_of(each, "rent", "${:,.0f}"),
            span_of(each, "beds"),
            str(each["days_on_market"]),
            badge_of(each),
        )
        for unit in _shown_units(each) if units else ():
            name = f"  unit {unit['unit']}" if unit.get("unit") else "  unit"
            rent = f"${unit['rent']:,.0f}" if unit.get("rent") else "-"
            area = f"{unit['area']:,.0f} sq ft" if unit.get("area") else ""
            beds = f"{unit['beds']:g}" if unit.get("beds") is not None else "-"
            rows.add_row("", render.plain(name), "", rent, beds, "", render.plain(area))
    return rows


def _shown_units(listing: Any) -> Any:
    """Return the units that match, or all free ones if the search has no conditions on units."""
    matching = listing["matching_units"]
    return listing["units"] if matching is None else matching


def badge_of(listing: Any) -> Any:
    """Return the text of the badge in its colour; without a badge, the reason."""
    badge = listing["badge"]
    text = render.plain(badge["text"] if badge else (listing["gone_reason"] or "not shown").replace("_", " "))
    colour = badge["color"] if badge else "dim"
    text.stylize("dark_orange" if colour == "orange" else colour)
    return text


def span_of(row: Any, name: str, form: str = "{:g}") -> str:
    """`$1,200-$1,450`, `2`, or a dash."""
    low, high = row[f"{name}_min"], row[f"{name}_max"]
    if low is None:
        return "-"
    return form.format(low) if low == high or high is None else f"{form.format(low)}-{form.format(high)}"


# The verbs that every pipeline has; `forager markets` has more about schedules and limits.
commands.command("run")(scrape)
commands.command("plan")(plan)
