"""`forager search …`: full-text search over the products, and `forager search rebuild`."""

import html
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from forager.kit.cli import render
from forager.kit.cli.invocation import Json
from forager.kit.cli.running import with_api
from forager.pipelines.products.cli import price_of, rebuild_index

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
