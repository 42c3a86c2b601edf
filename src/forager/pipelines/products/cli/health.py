"""`forager products health`, `forager products quarantine …` and `forager reparse`: the upkeep of parsers."""

from typing import Annotated, Any

import typer

from forager.core.errors import FieldError, Rejected
from forager.pipelines.products.cli import words
from forager.sdk.cli import render
from forager.sdk.cli.invocation import Json, Reached, invocation, with_api
from forager.sdk.cli.run_job import see_through

quarantine = typer.Typer(help="Fields of shops whose new values are held back.", no_args_is_help=True)
reparse_command = typer.Typer(help="Parse stored pages again, without fetching them.")
CANDIDATES = "FORAGER_PRODUCT_PARSER_CANDIDATES"
QuarantineName = Annotated[str, typer.Argument(help="Its name, as `forager products quarantine list` shows it.")]


def health(
    context: typer.Context,
    domain: Annotated[str | None, typer.Option(help="Only this shop, such as shop.example.")] = None,
    days: Annotated[int, typer.Option(help="The newest days.")] = 7,
    as_json: Json = False,
) -> None:
    """Show how well parsers read each shop: success and fill rates.

    Example: forager products health --days 30
    """
    rows = with_api(context, lambda at: at.api.get("/admin/parser-health", domain=domain, days=days))
    if as_json:
        render.show_json(rows)
        return
    if not rows:
        render.notes().print("No pages were parsed in these days.", markup=False)
        return
    table = render.table("day", "shop", "parser", "pages", "products", "price", "weakest", right=("pages",))
    for row in rows:
        weakest = min(row["fill"], key=lambda name: row["fill"][name], default="-")
        table.add_row(
            row["day"],
            render.plain(row["domain"]),
            f"{row['parser']}/{row['parser_version']}",
            render.count(row["pages"]),
            f"{row['success']:.0%}",
            f"{row['fill'].get('price', 0):.0%}",
            f"{weakest} {row['fill'].get(weakest, 0):.0%}",
        )
    render.out().print(table)


def audit(
    context: typer.Context,
    run: Annotated[bool, typer.Option("--run", help="Audit now instead of showing the newest audit.")] = False,
    as_json: Json = False,
) -> None:
    """Show the newest weekly audit: references, required fields, fill rates, stale pages.

    Example: forager products audit --run
    """

    async def work(at: Reached) -> Any:
        if run:
            return await at.api.post("/admin/audits")
        done = await at.api.get("/admin/audits")
        return done[0] if done else None

    newest = with_api(context, work)
    if as_json:
        render.show_json(newest)
    elif newest is None:
        render.notes().print("The catalogue has not been audited yet. Run one with --run.", markup=False)
    else:
        findings = newest["findings"]
        rows = [(name.replace("_", " "), render.count(number)) for name, number in findings.get("checks", {}).items()]
        shares = [(f"with {name}", f"{share:.1%}") for name, share in findings.get("fill", {}).items()]
        when = f"{newest['week']}, audited {render.moment(newest['finished_at'])} UTC"
        products = render.count(findings.get("products", 0))
        render.out().print(render.facts([("week", when), ("products", products), *rows, *shares]))


@quarantine.command("list")
def list_quarantines(
    context: typer.Context,
    every: Annotated[bool, typer.Option("--all", help="Include those that were decided.")] = False,
    as_json: Json = False,
) -> None:
    """List fields whose new values are held back.

    Example: forager products quarantine list --all
    """
    query = {} if every else {"state": "open"}
    rows = with_api(context, lambda at: at.api.get("/admin/quarantines", **query))
    if as_json:
        render.show_json(rows)
        return
    if not rows:
        render.notes().print("No values are held back.", markup=False)
        return
    columns = ("name", "state", "now", "before", "pages", "since")
    table = render.table(*columns, right=("now", "before", "pages"), fold=("name",))
    for row in rows:
        name = f"{row['domain']}/{row['parser']}/{row['parser_version']}/{row['field']}"
        shares = f"{row['rate']:.0%}", f"{row['mean']:.0%}"
        table.add_row(render.plain(name), row["state"], *shares, str(row["pages"]), render.moment(row["since"])[:16])
    render.out().print(table)


@quarantine.command()
def accept(context: typer.Context, name: QuarantineName, as_json: Json = False) -> None:
    """Let the new values in: the shop's stored pages are parsed again.

    Example: forager products quarantine accept shop.example
    """
    _decide(context, "accept", name, as_json=as_json)


@quarantine.command()
def reject(context: typer.Context, name: QuarantineName, as_json: Json = False) -> None:
    """Keep the new values out; the last good ones stay.

    Example: forager products quarantine reject shop.example
    """
    _decide(context, "reject", name, as_json=as_json)


@reparse_command.command()
def reparse(
    context: typer.Context,
    domain: Annotated[
        str | None, typer.Option(help="The shop, such as shop.example (with --parser: default all shops).")
    ] = None,
    parser_version: Annotated[int | None, typer.Option(help="Only products that this version has read.")] = None,
    parser: Annotated[
        str | None, typer.Option(help="Compare this parser: new (the candidate), NAME or NAME/VERSION.")
    ] = None,
    against: Annotated[
        str, typer.Option(help="With --parser: compare with current (in force), NAME or NAME/VERSION.")
    ] = "current",
    shadow: Annotated[
        bool, typer.Option("--shadow", help="Report the candidate's shadow run on the pages crawled in production.")
    ] = False,
    days: Annotated[int, typer.Option(help="With --shadow: the newest days.")] = 7,
    sample: Annotated[
        int | None, typer.Option(help="Maximum pages, the newest first (1000; with --parser 500).")
    ] = None,
    write: Annotated[bool, typer.Option("--apply", help="Write what is found; without it only compare.")] = False,
    as_json: Json = False,
) -> None:
    """Parse a shop's stored pages again; show by field what stays, changes, is lost and is found.

    With --parser, two parsers read the same pages: agreement by field, whose evidence is stronger, and the winner.

    Example: forager reparse --domain shop.example
    """
    if parser is not None or shadow:
        if write or parser_version is not None:
            raise Rejected(
                "--parser and --shadow only compare: --apply and --parser-version go with --domain alone.",
                fields=[FieldError("--apply" if write else "--parser-version", "cannot be combined with --parser")],
            )
        _compare_parsers(
            context,
            {
                "parser": parser or "new",
                "against": against,
                "shadow": shadow,
                "days": days,
                **({"domain": domain} if domain else {}),
                **({"sample": sample} if sample is not None else {}),
            },
            as_json=as_json,
        )
        return
    if domain is None:
        raise Rejected(
            "Name the shop with --domain, or two parsers with --parser and --against.",
            fields=[FieldError("--domain", "is missing")],
        )
    body: dict[str, Any] = {"domain": domain, "apply": write}
    if sample is not None:
        body["sample"] = sample
    if parser_version is not None:
        body["parser_version"] = parser_version

    async def work(at: Reached) -> Any:
        told = await at.api.post("/products/reparse", body)
        if write and at.engine is not None:
            await see_through(at, told["job_id"], words=words, quiet=as_json)
        return told

    told = with_api(context, work)
    if as_json:
        render.show_json(told)
    elif write:
        render.notes().print(f"{render.some(told['pages'], 'stored page')}, job {told['job_id']}", markup=False)
    else:
        _show(told)


def own_candidates(context: typer.Context) -> str:
    """Return the candidates of this command's own settings."""
    from forager.pipelines.products.settings import ProductsSettings

    return ", ".join(invocation(context).settings().of(ProductsSettings).product_parser_candidates)


async def unused_candidates(at: Reached, own: str) -> str | None:
    """Return a message if this command's settings name candidates that the running Forager, which does the work, does
    not have; else None."""
    if at.engine is not None or not own:
        return None
    settings = (await at.api.get("/system"))["settings"]
    theirs = next((each["value"] for each in settings if each["name"] == CANDIDATES), None)
    if theirs == own:
        return None
    return (
        f"{CANDIDATES} is {own} for this command, but a running Forager does the work, and there it is"
        f" {theirs or 'not set'}. Restart `forager up` with the same value, or stop it and run this command again."
    )


def _compare_parsers(context: typer.Context, body: dict[str, Any], *, as_json: bool) -> None:
    own = own_candidates(context)

    async def work(at: Reached) -> Any:
        if (message := await unused_candidates(at, own)) is not None:
            raise Rejected(message, fields=[FieldError(CANDIDATES, "does not reach a Forager that is running")])
        return await at.api.post("/products/parsers/compare", body)

    told = with_api(context, work)
    if as_json:
        render.show_json(told)
        return
    columns = ("agree", "stronger", "weaker", "even", "added", "missing")
    table = render.table("field", "agreement", *columns, "verdict", right=("agreement", *columns))
    for row in told["fields"]:
        share = "-" if row["agreement"] is None else f"{row['agreement']:.1%}"
        table.add_row(row["field"], share, *(render.count(row[name]) for name in columns), row["verdict"])
    console = render.out()
    console.print(table)
    for row in told["fields"]:
        for each in row["examples"]:
            console.print(f"{row['field']}  {each}", markup=False, highlight=False)
    tried, other = ", ".join(told["parsers"]), ", ".join(told["against"])
    winner = {"candidate": tried, "current": other}.get(told["winner"], f"none; {other} stays")
    notes = [f"{tried} against {other} on {render.some(told['pages'], 'page')} ({told['source']})."]
    if told["broken"] or told["broken_before"]:
        notes.append(f"Pages with errors: {told['broken']} and {told['broken_before']}.")
    if told["added_pages"] or told["missing_pages"]:
        notes.append(f"Pages with a product: {told['added_pages']} only in the first,")
        notes.append(f"{told['missing_pages']} only in the second.")
    notes.append(f"Winner: {winner} ({'; '.join(told['reasons'])}). Nothing was written.")
    render.notes().print(" ".join(notes), markup=False, soft_wrap=True)


def _show(told: Any) -> None:
    table = render.table("field", "same", "changed", "lost", "found", right=("same", "changed", "lost", "found"))
    for row in told["fields"]:
        table.add_row(row["field"], *(render.count(row[name]) for name in ("same", "changed", "lost", "found")))
    console = render.out()
    console.print(table)
    for row in told["fields"]:
        for each in row["examples"]:
            console.print(f"{row['field']}  {each}", markup=False, highlight=False)
    remark = f"{render.some(told['pages'], 'page')}{' (there are more)' if told['more'] else ''}"
    if told["unreadable"]:
        remark += f", {render.count(told['unreadable'])} of them unreadable"
    render.notes().print(f"{remark}; nothing was written. Write it with --apply.", markup=False)


def _decide(context: typer.Context, how: str, name: str, *, as_json: bool) -> None:
    async def work(at: Reached) -> Any:
        return (await at.api.ask("POST", f"/admin/quarantines/{how}", query={"name": name})).data

    decided = with_api(context, work)
    if as_json:
        render.show_json(decided)
    else:
        render.notes().print(f"{name} is {decided['state']}.", markup=False)
