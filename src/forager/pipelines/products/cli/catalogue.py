"""`forager products …`: what the catalogue holds."""

import html
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from forager.core.errors import NotFound, Rejected
from forager.core.hosts import one_spelling
from forager.core.ids import did_you_mean
from forager.pipelines.products.cli.crawl import crawl, every, seconds
from forager.pipelines.products.cli.health import audit, health, quarantine
from forager.pipelines.products.cli.wrappers import wrappers
from forager.sdk.cli import render
from forager.sdk.cli.invocation import Json, Reached, with_api

# `forager products domains …`: the shops that are crawled, with their currency and how often they are crawled.


domains = typer.Typer(help="The shops that are crawled.", no_args_is_help=True)
PATH = "/admin/domains"
NONE = "none"


@domains.command("list")
def list_domains(context: typer.Context, as_json: Json = False) -> None:
    """List the shops: whether each is active, its currency and how often it is crawled.

    Example: forager products domains list
    """
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
    """Set the currency of a shop, how often its pages are crawled and how fast, or pause it.

    Example: forager products domains set shop.example --currency EUR --recrawl 6h
    """
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
    currency, rhythm = changed["currency"] or "as on the pages", every(changed["crawl_frequency"])
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


LONGEST_VALUE = 300
FIELDS = (
    *("product_name", "price", "currency", "availability", "rating", "review_count", "brand", "category", "sku"),
    *("gtin", "description"),
)
commands = typer.Typer(help="Shops, crawled and kept current: products, prices, stock.", no_args_is_help=True)
commands.add_typer(quarantine, name="quarantine")
commands.add_typer(wrappers, name="wrappers")
commands.add_typer(domains, name="domains")
commands.command("health")(health)
commands.command("audit")(audit)


@commands.command("list")
def list_products(
    context: typer.Context,
    domain: Annotated[str | None, typer.Option(help="Only products of this shop, such as shop.example.")] = None,
    brand: Annotated[str | None, typer.Option(help="Only products of exactly this brand.")] = None,
    category: Annotated[str | None, typer.Option(help="Only products of exactly this category.")] = None,
    availability: Annotated[str | None, typer.Option(help="in_stock, out_of_stock, preorder or discontinued.")] = None,
    min_price: Annotated[float | None, typer.Option(help="Lowest price.")] = None,
    max_price: Annotated[float | None, typer.Option(help="Highest price.")] = None,
    currency: Annotated[str | None, typer.Option(help="Only prices in this currency, such as EUR.")] = None,
    min_rating: Annotated[float | None, typer.Option(help="Lowest rating, 0 to 5.")] = None,
    gone: Annotated[bool, typer.Option("--gone", help="Include products that are gone.")] = False,
    sort: Annotated[
        str, typer.Option(help="newest, oldest, price, rating, name or updated; -price: highest first.")
    ] = "newest",
    limit: Annotated[int, typer.Option("--limit", "-n", help="Maximum number of products.")] = 20,
    as_json: Json = False,
) -> None:
    """List products, newest first or as --sort has it.

    Example: forager products list --max-price 500 --sort price
    """
    query = {
        "domain": domain,
        "brand": brand,
        "category": category,
        "availability": availability,
        "min_price": min_price,
        "max_price": max_price,
        "min_rating": min_rating,
        "currency": currency,
        "gone": gone,
        "sort": sort,
        "limit": limit,
    }
    products = with_api(context, lambda at: at.api.get("/products", **query))
    if as_json:
        render.show_json(products)
        return
    if not products:
        render.notes().print("No products match. Crawl a shop: forager crawl URL --sitemap", soft_wrap=True)
        return
    rows = render.table("id", "product", "price", "stock", "brand", "shop", right=("id", "price"))
    for product in products:
        rows.add_row(
            str(product["id"]),
            render.plain(product["product_name"]),
            price_of(product),
            (product["availability"] or "-").replace("_", " "),
            render.plain(product["brand"]),
            render.plain(product["domain_name"]),
        )
    render.out().print(rows)


@commands.command()
def show(
    context: typer.Context,
    product: Annotated[int, typer.Argument(help="Id of the product, as `forager products list` shows it.")],
    as_json: Json = False,
) -> None:
    """Show one product: every value with its source, its pictures and its price history.

    Example: forager products show 17
    """
    shown = with_api(context, lambda at: at.api.get(f"/products/{product}"), fields={"product_id": "product"})
    if as_json:
        render.show_json(shown)
        return
    facts = [("product", f"{shown['id']}"), ("page", render.plain(shown["url"]))]
    for name in FIELDS:
        value = price_of(shown) if name == "price" else shown[name]
        if value is None or value == "-" or name == "currency":
            continue
        facts.append((name.replace("_", " "), render.plain(f"{_shortened(value)}{_source(shown, name)}")))
    pictures = [image for image in shown["images"] if image.get("image_path")]
    facts += [
        ("pictures", f"{len(shown['images'])}, {len(pictures)} of them downloaded"),
        ("read by", f"{shown['parser']}/{shown['parser_version']}"),
        ("first seen", render.moment(shown["created_at"])),
        ("changed", f"{render.moment(shown['updated_at'])} (version {shown['version']})"),
        ("last seen", render.moment(shown["last_seen_at"])),
    ]
    if shown["gone_at"]:
        facts.append(("gone", f"{render.moment(shown['gone_at'])} ({shown['gone_reason']})"))
    render.out().print(render.facts(facts))
    if len(shown["price_history"]) > 1:
        _show_history(shown["price_history"])


def _shortened(value: Any) -> str:
    text = str(value).replace("\n", " ")
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"


def _source(shown: Any, name: str) -> str:
    """`  (json-ld, 0.95; not shown since 2026-03-14 12:00)`: where a value was found, and how sure that is."""
    evidence, unseen = shown["evidence"].get(name), shown["unseen"].get(name)
    parts = [f"{evidence['source']}, {evidence['confidence']:.2f}"] if evidence else []
    parts += [f"not shown since {render.moment(unseen)}"] if unseen else []
    return f"  ({'; '.join(parts)})" if parts else ""


@commands.command()
def history(
    context: typer.Context,
    product: Annotated[int, typer.Argument(help="Id of the product, as `forager products list` shows it.")],
    as_json: Json = False,
) -> None:
    """Show how the price and stock of a product changed, newest first.

    Example: forager products history 17
    """
    path = f"/products/{product}/history"
    points = with_api(context, lambda at: at.api.get(path), fields={"product_id": "product"})
    if as_json:
        render.show_json(points)
        return
    _show_history(points)


def _show_history(points: Any) -> None:
    rows = render.table("since", "price", "stock", right=("price",))
    for point in points:
        stock = "gone" if point["gone"] else (point["availability"] or "-").replace("_", " ")
        rows.add_row(render.moment(point["at"]), price_of(point), stock)
    render.out().print(rows)


@commands.command()
def reindex(context: typer.Context, as_json: Json = False) -> None:
    """Rebuild the search index from the stored products, as `forager search rebuild` does.

    Example: forager products reindex
    """
    rebuild_index(context, as_json)


def rebuild_index(context: typer.Context, as_json: bool) -> None:
    """Request one part of the rebuild after another, and print how much is left."""

    async def work(at: Reached) -> None:
        left = (await at.api.post("/products/search/rebuild"))["left"]
        while left:
            render.notes().print(f"{render.count(left)} left", markup=False)
            left = (await at.api.post("/products/search/rebuild?go_on=true"))["left"]
        if as_json:
            render.show_json({"left": left})
        else:
            render.notes().print("The search index is complete.", markup=False)

    with_api(context, work)


def price_of(product: Any) -> str:
    """`1,299.00 EUR`; a dash if there is no price."""
    if product["price"] is None:
        return "-"
    return f"{float(product['price']):,.2f} {product['currency'] or ''}".rstrip()


# `forager search …`: full-text search over the products, and `forager search rebuild`.


FOR, REBUILD = "for", "rebuild"


class OrWords(TyperGroup):
    """`forager search WORDS` is `forager search for WORDS`; only the word `rebuild`, alone, is a command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        is_command = args[:1] in ([FOR], ["--help"], ["-h"], []) or args in ([REBUILD], [REBUILD, "--json"])
        is_help = args[:1] == [REBUILD] and bool({"--help", "-h"} & set(args))
        return super().parse_args(ctx, args if is_command or is_help else [FOR, *args])


command = typer.Typer(
    cls=OrWords,
    no_args_is_help=True,
    help='Search the products: `forager search "oak table"` is short for `forager search for "oak table"`.',
)


@command.command(REBUILD)
def rebuild(context: typer.Context, as_json: Json = False) -> None:
    """Rebuild the search index from the stored products.

    An index in Elasticsearch or OpenSearch stays searchable meanwhile. A rebuild that was interrupted goes on where it
    was; a second one at the same time is refused.

    Example: forager search rebuild
    """
    rebuild_index(context, as_json)


@command.command(FOR)
def search(
    context: typer.Context,
    words: Annotated[str, typer.Argument(help="Words to look for; all of them must be there.")],
    max_price: Annotated[float | None, typer.Option(help="Highest price.")] = None,
    min_price: Annotated[float | None, typer.Option(help="Lowest price.")] = None,
    brand: Annotated[str | None, typer.Option(help="Only products of exactly this brand.")] = None,
    category: Annotated[str | None, typer.Option(help="Only products of exactly this category.")] = None,
    domain: Annotated[str | None, typer.Option(help="Only products of this shop, such as shop.example.")] = None,
    availability: Annotated[str | None, typer.Option(help="in_stock, out_of_stock, preorder or discontinued.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", help="Maximum number of products.")] = 20,
    as_json: Json = False,
) -> None:
    """Search name, brand, category and description, best first. Small misspellings are forgiven.

    Example: forager products search "oak table" --max-price 500
    """
    query = {
        "q": words,
        "max_price": max_price,
        "min_price": min_price,
        "brand": brand,
        "category": category,
        "domain": domain,
        "availability": availability,
        "limit": limit,
    }
    result = with_api(context, lambda at: at.api.get("/products/search", **query), fields={"q": "words"})
    if as_json:
        render.show_json(result)
        return
    rows = render.table("id", "product", "price", "stock", "shop", right=("id", "price"))
    for hit in result["hits"]:
        product = hit["product"]
        rows.add_row(
            str(product["id"]),
            _emphasised(hit["highlights"].get("product_name"), product["product_name"]),
            price_of(product),
            (product["availability"] or "-").replace("_", " "),
            render.plain(product["domain_name"]),
        )
    if result["hits"]:
        render.out().print(rows)
    remark = f"{render.some(result['total'], 'product')}{' or more' if result['more'] else ''}"
    if result["corrected"]:
        others = [f"{words[0]}: {', '.join(words[1:])}" for words in result["terms"] if len(words) > 1]
        remark += f"; near words were looked for ({'; '.join(others)})"
    render.notes().print(remark, markup=False)


def _emphasised(marked: str | None, plain: str | None) -> Any:
    """Return the name, with what matched in bold."""
    if marked is None:
        return render.plain(plain)
    text = render.plain("")
    for number, part in enumerate(marked.split("<em>")):
        inside, _, after = part.partition("</em>") if number else ("", "", part)
        text.append(html.unescape(inside), style="bold")
        text.append(html.unescape(after))
    return text


# The shortcuts `forager crawl` and `forager search`, under the verbs that every pipeline has.
commands.command("run")(crawl)
commands.command("search")(search)
