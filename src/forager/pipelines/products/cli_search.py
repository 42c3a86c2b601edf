"""`forager search …`: full-text search over the products."""

import html
from typing import Annotated, Any

import typer

from forager.kit.cli import render
from forager.kit.cli.invocation import Json
from forager.kit.cli.running import with_api
from forager.pipelines.products.cli import price_of

command = typer.Typer(help="Search the products.")


@command.command()
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
    """Search name, brand, category and description, best first. Small misspellings are forgiven."""
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
    """The name, with what matched in bold."""
    if marked is None:
        return render.plain(plain)
    text = render.plain("")
    for number, part in enumerate(marked.split("<em>")):
        inside, _, after = part.partition("</em>") if number else ("", "", part)
        text.append(html.unescape(inside), style="bold")
        text.append(html.unescape(after))
    return text
