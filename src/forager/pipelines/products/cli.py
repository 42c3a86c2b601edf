"""`forager products …`: what the catalogue holds."""

from typing import Annotated, Any

import typer

from forager.kit.cli import render
from forager.kit.cli.invocation import Json, Reached
from forager.kit.cli.running import with_api
from forager.pipelines.products.cli_domains import domains
from forager.pipelines.products.cli_health import audit, health, quarantine

LONGEST_VALUE = 300
FIELDS = (
    *("product_name", "price", "currency", "availability", "rating", "review_count", "brand", "category", "sku"),
    *("gtin", "description"),
)
commands = typer.Typer(help="Shops, crawled and kept current: products, prices, stock.", no_args_is_help=True)
commands.add_typer(quarantine, name="quarantine")
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
    gone: Annotated[bool, typer.Option("--gone", help="Also products that are gone.")] = False,
    sort: Annotated[
        str, typer.Option(help="newest, oldest, price, rating, name or updated; -price: highest first.")
    ] = "newest",
    limit: Annotated[int, typer.Option("--limit", "-n", help="Maximum number of products.")] = 20,
    as_json: Json = False,
) -> None:
    """List products, newest first or as --sort has it."""
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
    """Show one product: every value with its source, its pictures and its price history."""
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
    """Show how the price and stock of a product changed, newest first."""
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
    """Rebuild the search index from the stored products, as `forager search rebuild` does."""
    rebuild_index(context, as_json)


def rebuild_index(context: typer.Context, as_json: bool) -> None:
    """Ask for one part of the rebuild after another, and print how much is left."""

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
