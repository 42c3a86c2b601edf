"""`forager regions …`: which lanes only workers of a region take, and what each region has and does."""

from typing import Annotated, Any

import typer

from forager.sdk.cli.invocation import Json, with_api

app = typer.Typer(help="Lanes that only workers of one region take (PostgreSQL).", no_args_is_help=True)

Lane = Annotated[str, typer.Argument(metavar="LANE", help="A domain such as example.com, or an API such as serper.")]


@app.command("list")
def list_regions(context: typer.Context, as_json: Json = False) -> None:
    """List the regions with their workers, lanes and pins.

    Example: forager regions list
    """
    from forager.sdk.cli import render

    regions = with_api(context, lambda at: at.api.get("/regions"))
    if as_json:
        render.show_json(regions)
        return
    if not regions:
        render.notes().print("No regions. Start a worker in one: forager worker --region eu", soft_wrap=True)
        return
    columns = ("region", "workers", "last seen (UTC)", "lanes", "owned", "waiting", "pinned")
    rows = render.table(*columns, right=("workers", "lanes", "owned", "waiting"), fold=("pinned",))
    for each in regions:
        counts = [render.count(each[name]) for name in ("lanes", "owned", "waiting")]
        pins = ", ".join(_described(pin, each) for pin in each["pins"]) or "-"
        rows.add_row(each["name"], render.count(each["workers"]), render.moment(each["seen_at"]), *counts, pins)
    render.out().print(rows)


@app.command()
def pin(
    context: typer.Context,
    lane: Lane,
    region: Annotated[str, typer.Argument(help="The region, such as eu, as workers name it with --region.")],
    fail_over: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Let other workers take it when the region has had no worker for this time, such as 10m (default:"
            " never).",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Let only workers of a region send to a site or API. The pin of example.com also holds for its sub-domains.

    Example: forager regions pin shop.example eu
    """
    from forager.sdk.cli import render

    body: dict[str, Any] = {"lane": lane, "region": region}
    if fail_over is not None:
        body["fail_over"] = fail_over
    kept = with_api(context, lambda at: at.api.post("/regions/pins", body))
    if as_json:
        render.show_json(kept)
    else:
        after = "" if kept["fail_over_seconds"] is None else f"; others take it after {kept['fail_over_seconds']:g} s"
        render.out().print(f"Pinned {kept['lane']} to {kept['region']}{after}.", markup=False, soft_wrap=True)


@app.command()
def unpin(context: typer.Context, lane: Lane, as_json: Json = False) -> None:
    """Let every worker send to a site or API again.

    Example: forager regions unpin shop.example
    """
    from forager.sdk.cli import render

    gone = with_api(context, lambda at: at.api.delete(f"/regions/pins/{lane}"))
    render.show_json(gone) if as_json else render.out().print(f"Unpinned {gone['unpinned']}.", markup=False)


def _described(pin: dict[str, Any], region: dict[str, Any]) -> str:
    after = pin["fail_over_seconds"]
    if pin["lane"] in region["failed_over"]:
        return f"{pin['lane']} (failed over)"
    return pin["lane"] if after is None else f"{pin['lane']} ({after:g} s)"
