"""`forager products domains …`: the shops that are crawled, with their currency and how often they are crawled."""

from typing import Annotated, Any

import typer

from forager.core.errors import NotFound, Rejected
from forager.core.hosts import one_spelling
from forager.core.names import did_you_mean
from forager.kit.cli import render
from forager.kit.cli.invocation import Json, Reached
from forager.kit.cli.running import with_api
from forager.pipelines.products.cli_recrawl import every, seconds

domains = typer.Typer(help="The shops that are crawled.", no_args_is_help=True)
PATH = "/admin/domains"
NONE = "none"


@domains.command("list")
def list_domains(context: typer.Context, as_json: Json = False) -> None:
    """List the shops: whether each is active, its currency and how often it is crawled."""
    listed = with_api(context, _all)
    if as_json:
        render.show_json(listed)
        return
    if not listed:
        render.notes().print("No shop was crawled yet: forager crawl URL --sitemap", soft_wrap=True)
        return
    rows = render.table("id", "shop", "active", "currency", "crawled", "delay", "at once", right=("id", "delay"))
    for shop in listed:
        rows.add_row(
            str(shop["id"]),
            render.plain(shop["domain_name"]),
            "yes" if shop["is_active"] else "paused",
            shop["currency"] or "-",
            every(shop["crawl_frequency"]),
            f"{shop['crawl_delay_seconds']:g} s",
            str(shop["max_concurrent_requests"]),
        )
    render.out().print(rows)


@domains.command("set")
def set_domain(
    context: typer.Context,
    domain: Annotated[str, typer.Argument(help="The shop, such as shop.example.")],
    currency: Annotated[
        str | None, typer.Option(help="Currency of prices that name none, such as EUR; `none` takes it back.")
    ] = None,
    recrawl: Annotated[
        str | None, typer.Option(help="Crawl its pages again every 30m, 6h, 2d …; `none` takes it back.")
    ] = None,
    delay: Annotated[
        str | None, typer.Option(help="Minimum seconds between two requests; `none` takes it back.")
    ] = None,
    at_once: Annotated[str | None, typer.Option(help="Maximum requests in flight; `none` takes it back.")] = None,
    active: Annotated[
        bool | None, typer.Option("--active/--paused", help="Crawl the shop, or start nothing new there.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Set the currency of a shop, how often its pages are crawled and how fast, or pause it."""
    changes: dict[str, Any] = {}
    if currency is not None:
        changes["currency"] = None if currency == NONE else currency.upper()
    if recrawl is not None:
        changes["crawl_frequency"] = None if recrawl == NONE else seconds(recrawl)
    if delay is not None:
        changes["crawl_delay_seconds"] = None if delay == NONE else _number("--delay", delay, float)
    if at_once is not None:
        changes["max_concurrent_requests"] = None if at_once == NONE else _number("--at-once", at_once, int)
    if active is not None:
        changes["is_active"] = active
    if not changes:
        raise Rejected("Nothing to set. Give --currency, --recrawl, --delay, --at-once, --active or --paused.")
    name = one_spelling(domain)

    async def work(at: Reached) -> Any:
        shops = {shop["domain_name"]: shop["id"] for shop in await _all(at)}
        number = shops.get(name)
        if number is None:
            near = did_you_mean(name, shops)
            raise NotFound(f"{domain} was never crawled.{near} See `forager products domains list`.")
        return await at.api.patch(f"{PATH}/{number}", changes)

    flags = {"crawl_frequency": "recrawl", "crawl_delay_seconds": "delay", "max_concurrent_requests": "at_once"}
    changed = with_api(context, work, fields=flags)
    if as_json:
        render.show_json(changed)
        return
    currency, rhythm = changed["currency"] or "as the pages say", every(changed["crawl_frequency"])
    pace = f"delay {changed['crawl_delay_seconds']:g} s, {changed['max_concurrent_requests']} at once"
    state = "" if changed["is_active"] else " It is paused."
    render.notes().print(f"{name}: currency {currency}, crawled {rhythm}, {pace}.{state}", markup=False, soft_wrap=True)


def _number(flag: str, text: str, kind: type[float] | type[int]) -> float:
    try:
        return kind(text)
    except ValueError:
        wanted = "a whole number" if kind is int else "a number of seconds"
        raise Rejected(f"{flag}: {text!r} should be {wanted}, or `none`.") from None


async def _all(at: Reached) -> list[Any]:
    return [shop async for some in at.api.pages(PATH) for shop in some]
