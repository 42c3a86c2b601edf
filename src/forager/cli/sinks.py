"""`forager sinks …`: add, show, pause, replay and remove sinks, and decide about refused changes."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from forager.sdk.cli.invocation import NO_WORKER, Json, post, with_api

app = typer.Typer(help="Sinks receive changes: add, show, pause, replay, remove.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="SINK", help="The sink's name, such as webhook.")]
MaybeChange = Annotated[int | None, typer.Argument(metavar="CHANGE", min=1, help="Only this change (default: all).")]


@app.command("list")
def list_sinks(context: typer.Context, as_json: Json = False) -> None:
    """List the sinks: state, backlog, deliveries and current errors.

    Example: forager sinks list
    """
    from forager.sdk.cli import render

    sinks = with_api(context, lambda at: at.api.get("/sinks"))
    if as_json:
        render.show_json(sinks)
        return
    figures = ("behind", "lag", "waiting", "delivered", "refused")
    rows = render.table("sink", "type", "state", *figures, right=figures)
    for each in sinks:
        rows.add_row(
            render.plain(each["name"]),
            render.plain(each["type"] or "–"),
            state_of(each),
            render.count(each["behind"]),
            render.duration(each["lag_seconds"]),
            render.count(each["waiting"]),
            render.count(each["delivered"]),
            render.count(each["set_aside"]),
        )
    render.out().print(rows)
    for each in sinks:
        if wrong := each["problem"] or (_failing(each) if each["failures"] else None):
            render.out().print(render.plain(f"{each['name']}: {wrong}"), soft_wrap=True)


@app.command()
def types(context: typer.Context, as_json: Json = False) -> None:
    """List the types of sinks, and the options of each.

    Example: forager sinks types
    """
    from forager.sdk.cli import render

    found = with_api(context, lambda at: at.api.get("/sink-types"), store="optional")
    if as_json:
        render.show_json(found)
        return
    rows = render.table("type", "delivers", "added by", "options", fold=("delivers", "options"))
    for each in found:
        options = ", ".join((each["options"] or {}).get("properties", {}))
        way = "sinks add" if each["addable"] else "settings"
        rows.add_row(*(render.plain(text) for text in (each["name"], each["summary"], way, options or "–")))
    render.out().print(rows)


@app.command()
def add(
    context: typer.Context,
    sink: Annotated[str, typer.Argument(metavar="NAME", help="A name for the sink.")],
    type_: Annotated[str, typer.Option("--type", "-t", help="Its type; `forager sinks types` lists them.")],
    kinds: Annotated[list[str] | None, typer.Option("--kind", "-k", help="Kind of changes (default: all).")] = None,
    pipelines: Annotated[
        list[str] | None, typer.Option("--pipeline", help="Only changes of this pipeline's jobs (default: all).")
    ] = None,
    where: Annotated[
        str | None,
        typer.Option("--where", metavar="CONDITION", help="Only records that meet it: 'old.price > price'."),
    ] = None,
    changed: Annotated[
        list[str] | None, typer.Option("--changed", metavar="FIELD", help="Only changes of this field.")
    ] = None,
    options: Annotated[
        list[str] | None, typer.Option("--option", "-o", metavar="NAME=VALUE", help="Option of its type.")
    ] = None,
    from_now: Annotated[bool, typer.Option("--from-now", help="Deliver new changes only (default: all).")] = False,
    as_json: Json = False,
) -> None:
    """Add a sink. Addresses and credentials are settings; see docs/sinks.md.

    A sink that cannot work is refused: a package or a file of credentials is missing, a folder cannot be written, a URL
    is malformed. A server that does not answer now is a warning.

    Example: forager sinks add hook --type webhook --kind product -o url=https://hooks.example/forager
    """
    from forager.sdk.cli import render

    body = {
        "name": sink,
        "type": type_,
        "kinds": kinds or None,
        "pipelines": pipelines or None,
        "where": _condition(where, changed or ()),
        "options": dict(_option(text) for text in options or ()),
        "after": "now" if from_now else 0,
    }

    async def work(at: Any) -> tuple[Any, str]:
        return await at.api.post("/sinks", body), f" {NO_WORKER}" if at.is_alone else ""

    status, but = with_api(
        context, work, fields={"name": "sink", "type": "type_", "after": "from_now"}, store="created"
    )
    if as_json:
        render.show_json(status)
    else:
        waiting = render.some(status["behind"], "change")
        render.out().print(f"Added {sink}. {waiting} to deliver.{but}", markup=False, soft_wrap=True)
        for warning in status["warnings"]:
            render.notes().print(f"Warning: {warning}", markup=False, soft_wrap=True)


@app.command()
def show(context: typer.Context, sink: Name, as_json: Json = False) -> None:
    """Show one sink: its position in the log, backlog, rate and failures.

    Example: forager sinks show hook
    """
    from forager.sdk.cli import render

    status = with_api(context, lambda at: at.api.get(_path(sink)))
    if as_json:
        render.show_json(status)
        return
    failing = status["failures"] > 0
    render.out().print(
        render.facts(
            [
                ("sink", render.plain(status["name"])),
                ("type", render.plain(status["type"]) if status["type"] else None),
                ("kinds", render.plain(", ".join(status["kinds"])) if status["kinds"] else None),
                ("where", render.plain(status["where"]) if status["where"] else None),
                ("pipelines", render.plain(", ".join(status["pipelines"])) if status["pipelines"] else None),
                ("options", render.plain(_options(status["options"])) if status["options"] else None),
                ("state", state_of(status)),
                ("problem", render.plain(status["problem"]) if status["problem"] else None),
                ("delivered by", render.plain(status["owner"]) if status["owner"] else None),
                ("position in the log", f"change {render.count(status['cursor'])}"),
                ("behind", f"{render.some(status['behind'], 'change')}, {render.duration(status['lag_seconds'])}"),
                ("delivered", f"{render.some(status['delivered'], 'change')}, {status['rate']:,.1f} per second"),
                (
                    "waiting",
                    f"{render.some(status['waiting'], 'message')} not yet accepted" if status["waiting"] else None,
                ),
                ("refused", render.count(status["set_aside"]) if status["set_aside"] else None),
                ("failures in a row", render.count(status["failures"]) if failing else None),
                ("failing since", render.moment(status["failing_since"]) if status["failing_since"] else None),
                ("last error", render.plain(status["error"]) if status["error"] else None),
                ("at", render.moment(status["error_at"]) if status["error"] else None),
                ("next try", render.moment(status["retry_at"]) if status["retry_at"] else None),
            ]
        )
    )


@app.command()
def pause(context: typer.Context, sink: Name, as_json: Json = False) -> None:
    """Deliver nothing to a sink until it is resumed. Its position in the log is kept.

    Example: forager sinks pause hook
    """
    _act(context, sink, "pause", f"Paused {sink}.", as_json=as_json)


@app.command()
def resume(context: typer.Context, sink: Name, as_json: Json = False) -> None:
    """Resume delivery to a sink from its position in the log.

    Example: forager sinks resume hook
    """
    _act(context, sink, "resume", f"Resumed {sink}.", as_json=as_json)


@app.command()
def replay(
    context: typer.Context,
    sink: Name,
    after: Annotated[int, typer.Option(min=0, help="Begin after this change number (default: 0, the whole log).")] = 0,
    as_json: Json = False,
) -> None:
    """Deliver changes to a sink again. Changes that it already has are not duplicated.

    Example: forager sinks replay hook --after 976
    """
    from forager.sdk.cli import render

    async def work(at: Any) -> tuple[Any, str]:
        return await at.api.post(f"{_path(sink)}/replay", {"after": after}), f" {NO_WORKER}" if at.is_alone else ""

    status, but = with_api(context, work)
    if as_json:
        render.show_json(status)
    else:
        waiting = render.some(status["behind"], "change")
        render.out().print(
            f"{sink} continues after change {after}: {waiting} to deliver.{but}", markup=False, soft_wrap=True
        )


@app.command()
def refused(
    context: typer.Context,
    sink: Name,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=1000, help="Maximum number of changes, oldest first.")
    ] = 20,
    as_json: Json = False,
) -> None:
    """List the changes that a sink refused, and why.

    Example: forager sinks refused hook
    """
    from forager.sdk.cli import render

    changes = with_api(context, lambda at: at.api.get(f"{_path(sink)}/refused", limit=limit))
    if as_json:
        render.show_json(changes)
        return
    if not changes:
        render.notes().print(f"{sink} has no refused changes.", markup=False)
        return
    console = render.out()
    for each in changes:
        tries = "to be retried" if each["retry"] else render.some(each["tries"], "try", "tries")
        words = (str(each["change"]), each["kind"], each["key"], each["op"], tries)
        console.print("  ".join(words), markup=False)
        console.print(render.indented(each["error"]))


@app.command()
def retry(context: typer.Context, sink: Name, change: MaybeChange = None, as_json: Json = False) -> None:
    """Deliver refused changes again: one, or all.

    Example: forager sinks retry hook
    """
    _decide(context, sink, "retry", change, "will be delivered again.", as_json=as_json)


@app.command()
def discard(
    context: typer.Context,
    sink: Name,
    change: Annotated[int | None, typer.Argument(metavar="CHANGE", min=1, help="Number of the change.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Discard every refused change of the sink.")] = False,
    as_json: Json = False,
) -> None:
    """Discard refused changes of a sink: one, or all. The log keeps them.

    Example: forager sinks discard hook 977
    """
    if (change is None) is not every:
        raise typer.BadParameter("Name one change, or use --all.", param_hint="CHANGE")
    _decide(context, sink, "discard", change, "discarded.", as_json=as_json)


@app.command()
def remove(context: typer.Context, sink: Name, as_json: Json = False) -> None:
    """Remove a sink: its row, its position and its refused changes.

    Example: forager sinks remove hook
    """
    from forager.sdk.cli import render

    removed = with_api(context, lambda at: at.api.delete(_path(sink)))
    render.show_json(removed) if as_json else render.out().print(f"Removed {sink}.", markup=False)


def state_of(sink: Mapping[str, Any]) -> Any:
    """Return its state in one or two words."""
    from rich.text import Text

    if not sink["configured"]:
        return Text("not configured", style="dim")
    styles = {"delivering": "green", "failing": "red", "paused": "yellow", "idle": "dim"}
    return Text(sink["state"], style=styles[sink["state"]])


def _failing(sink: dict[str, Any]) -> str:
    """Return the last error, since when the sink fails, and what happens next."""
    from forager.sdk.cli import render

    parts = [f"failing since {render.moment(sink['failing_since'])}"] if sink["failing_since"] else []
    if sink["waiting"]:
        parts.append(f"{render.some(sink['waiting'], 'message waits', 'messages wait')}")
    if sink["retry_at"]:
        parts.append(f"next try {render.moment(sink['retry_at'])}")
    return f"{sink['error']} ({', '.join(parts)})" if parts else str(sink["error"])


def _condition(where: str | None, changed: Sequence[str]) -> str | None:
    """Return the condition of `--where` and `--changed` together. The given text comes first, so that positions in an
    error are those of what was typed."""
    of_fields = " or ".join(f"changed({name})" for name in changed)
    if where is None or not of_fields:
        return where or of_fields or None
    return f"({where}) and ({of_fields})"


def _option(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise typer.BadParameter(f"{text!r} should be NAME=VALUE.", param_hint="--option")
    return name, value


def _options(options: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in options.items() if value is not None)


def _path(sink: str) -> str:
    from forager.sdk.cli.client import part

    return f"/sinks/{part(sink)}"


def _act(context: typer.Context, sink: str, verb: str, message: str, *, as_json: bool) -> None:
    from forager.sdk.cli import render

    status = with_api(context, lambda at: at.api.post(f"{_path(sink)}/{verb}"))
    render.show_json(status) if as_json else render.out().print(message, markup=False)


def _decide(context: typer.Context, sink: str, verb: str, change: int | None, message: str, *, as_json: bool) -> None:
    from forager.sdk.cli import render

    which = "" if change is None else f"?change={change}"
    decided, but = post(context, f"{_path(sink)}/refused/{verb}{which}")
    if as_json:
        render.show_json(decided)
        return
    remark = but if verb == "retry" else ""
    render.out().print(f"{render.some(decided['changes'], 'change')} {message}{remark}", markup=False, soft_wrap=True)
