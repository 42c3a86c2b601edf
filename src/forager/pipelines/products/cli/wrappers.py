"""`forager products wrappers …`: paths to fields that the pages of a shop have taught."""

from typing import Annotated, Any

import typer

from forager.core.errors import NotFound
from forager.pipelines.products.cli import words
from forager.sdk.cli import render
from forager.sdk.cli.invocation import Json, Reached, with_api
from forager.sdk.cli.run_job import see_through

wrappers = typer.Typer(help="Paths to fields that the pages of a shop have taught.", no_args_is_help=True)
WrapperName = Annotated[str, typer.Argument(help="Its name, as `forager products wrappers list` shows it.")]


@wrappers.command("list")
def list_wrappers(
    context: typer.Context,
    domain: Annotated[str | None, typer.Option(help="Only this shop, such as shop.example.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Include those that were retired or rejected.")] = False,
    as_json: Json = False,
) -> None:
    """List the wrappers of shops: state, fields, the weakest score.

    Example: forager products wrappers list --all
    """
    rows = with_api(context, lambda at: at.api.get("/admin/wrappers", domain=domain))
    shown = [row for row in rows if every or row["state"] in ("proposed", "adopted")]
    if as_json:
        render.show_json(shown)
        return
    if not shown:
        render.notes().print(
            "Nothing has been learnt. Learn now with: forager products wrappers propose SHOP", markup=False
        )
        return
    columns = ("name", "state", "taught by", "pages", "score", "fields")
    table = render.table(*columns, right=("pages", "score"), fold=("name", "fields"))
    for row in shown:
        by = "markup" if row["mode"] == "teach" else "last good values"
        pages, score = max(each["pages"] for each in row["fields"]), min(each["score"] for each in row["fields"])
        fields = ", ".join(each["field"] for each in row["fields"])
        table.add_row(render.plain(row["name"]), row["state"], by, render.count(pages), f"{score:.0%}", fields)
    render.out().print(table)


@wrappers.command()
def show(context: typer.Context, name: WrapperName, as_json: Json = False) -> None:
    """Show one wrapper: the path, score and field diff of each field.

    Example: forager products wrappers show <wrapper>
    """

    async def work(at: Reached) -> Any:
        known = await at.api.get("/admin/wrappers")
        found = next((each for each in known if each["name"] == name), None)
        if found is None:
            raise NotFound(f"There is no wrapper {name!r}. See `forager products wrappers list --all`.")
        return found

    row = with_api(context, work)
    if as_json:
        render.show_json(row)
    else:
        _show(row)


@wrappers.command()
def propose(
    context: typer.Context,
    domain: Annotated[str, typer.Argument(help="The shop, such as shop.example.")],
    heal: Annotated[
        bool, typer.Option("--heal", help="Learn from last good values, as after a change of layout.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Learn from a shop's stored pages now; nothing is used before it is adopted.

    Example: forager products wrappers propose shop.example
    """
    body = {"domain": domain, **({"mode": "heal"} if heal else {})}
    rows = with_api(context, lambda at: at.api.post("/admin/wrappers/propose", body))
    if as_json:
        render.show_json(rows)
        return
    for row in rows:
        _show(row)
    if not rows:
        render.notes().print(
            "Nothing new was learnt: no values that are sure, no page that lacks any, or known already.", markup=False
        )


@wrappers.command()
def adopt(context: typer.Context, name: WrapperName, as_json: Json = False) -> None:
    """Use a wrapper: the shop's stored pages are read again.

    Example: forager products wrappers adopt <wrapper>
    """
    _decide(context, "adopt", name, as_json=as_json)


@wrappers.command()
def reject(context: typer.Context, name: WrapperName, as_json: Json = False) -> None:
    """Keep a wrapper out; one in use is used no more.

    Example: forager products wrappers reject <wrapper>
    """
    _decide(context, "reject", name, as_json=as_json)


def _show(row: Any) -> None:
    columns = ("score", "same", "changed", "lost", "found")
    table = render.table("field", "state", *columns, "path", right=columns, fold=("path",))
    for each in row["fields"]:
        counts = (render.count(each[name]) for name in columns[1:])
        score = f"{each['score']:.0%} of {each['pages']}"
        table.add_row(each["field"], each["state"], score, *counts, render.plain(each["path"]))
    console = render.out()
    console.print(table)
    for each in row["fields"]:
        for line in each["examples"]:
            console.print(f"{each['field']}  {line}", markup=False, highlight=False)
    by = "markup" if row["mode"] == "teach" else "last good values"
    note = f"{row['name']} is {row['state']}; template {row['template']}, taught by {by}."
    if row["state"] == "proposed":
        note += f" Use it with: forager products wrappers adopt {row['name']}"
    render.notes().print(note, markup=False, soft_wrap=True)


def _decide(context: typer.Context, how: str, name: str, *, as_json: bool) -> None:
    async def work(at: Reached) -> Any:
        decided = (await at.api.ask("POST", f"/admin/wrappers/{how}", query={"name": name})).data
        if how == "adopt" and at.engine is not None:  # nothing else would read the stored pages again
            told = await at.api.post("/products/reparse", {"domain": decided["domain"], "apply": True})
            await see_through(at, told["job_id"], words=words, quiet=True)
        return decided

    decided = with_api(context, work)
    if as_json:
        render.show_json(decided)
    else:
        render.notes().print(f"{name} is {decided['state']}.", markup=False)
