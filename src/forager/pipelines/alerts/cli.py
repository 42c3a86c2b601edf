"""`forager channels`, `forager rules` and `forager alerts`: notifications about changes."""

from typing import Annotated, Any

import typer

from forager.sdk.cli import render
from forager.sdk.cli.client import part
from forager.sdk.cli.invocation import Json, with_api

channels = typer.Typer(help="Channels that receive alerts: Slack, e-mail, ntfy …", no_args_is_help=True)
rules = typer.Typer(help="Rules that turn changes into alerts.", no_args_is_help=True)
alerts = typer.Typer(help="Alerts that have fired.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Its name.")]
Kind = Annotated[str, typer.Option("--on", help="Kind of the records: product, listing, review, watched_page, job …")]
When = Annotated[str | None, typer.Option("--when", help="Condition, as 'price < old.price * 0.95'.")]
Repeats = Annotated[bool, typer.Option("--repeats", help="Fire on every change that meets it.")]
OnlyKey = Annotated[str | None, typer.Option("--key", help="Only the record with this key.")]


@channels.command("add")
def add_channel(
    context: typer.Context,
    name: Name,
    url: Annotated[
        str | None,
        typer.Option(help="Address, as slack://…, mailto://…, ntfy://topic; the command prompts for it if omitted."),
    ] = None,
    digest: Annotated[str | None, typer.Option(help="Join the alerts of this time, as 1h.")] = None,
    quiet: Annotated[str | None, typer.Option(help="Send nothing in these hours, as 22-7.")] = None,
    timezone: Annotated[str | None, typer.Option(help="Time zone of the quiet hours (default UTC).")] = None,
    per_hour: Annotated[int | None, typer.Option(help="Join what exceeds this number of messages per hour.")] = None,
    title: Annotated[str | None, typer.Option(help="Template of the title, as '{rule}: {title}'.")] = None,
    body: Annotated[str | None, typer.Option(help="Template of the text, as '{title} {price} {url}'.")] = None,
    as_json: Json = False,
) -> None:
    """Add a channel; its address is sealed and never shown again. Send a message with `forager channels test`.

    Example: forager channels add me --url ntfy://ntfy.example/me --per-hour 20
    """
    address = url if url is not None else typer.prompt("Address of the channel", hide_input=True)
    given = {
        "name": name,
        "url": address,
        "digest": digest,
        "quiet": quiet,
        "timezone": timezone,
        "per_hour": per_hour,
        "title": title,
        "body": body,
    }
    sent = {key: value for key, value in given.items() if value is not None}
    added = with_api(context, lambda at: at.api.post("/channels", sent), store="created")
    if as_json:
        render.show_json(added)
        return
    render.notes().print(f"Channel {name} added. Try it: forager channels test {name}", markup=False)


@channels.command("list")
def list_channels(context: typer.Context, as_json: Json = False) -> None:
    """List channels with what became of their messages.

    Example: forager channels list
    """
    rows = with_api(context, lambda at: at.api.get("/channels"))
    if as_json:
        render.show_json(rows)
        return
    shown = render.table("name", "service", "state", "accepted", "waiting", "rules", "error", right=("accepted",))
    for row in rows:
        shown.add_row(
            render.plain(row["name"]),
            row["service"],
            row["state"],
            render.count(row["accepted"]),
            render.count(row["waiting"]),
            render.plain(", ".join(row["rules"])),
            render.plain(row["error"] or "" if row["failures"] else ""),
        )
    render.out().print(shown)


@channels.command("show")
def show_channel(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """Show a channel.

    Example: forager channels show me
    """
    _show(with_api(context, lambda at: at.api.get(f"/channels/{part(name)}")), as_json=as_json)


@channels.command("test")
def try_channel(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """Send a message now, and print the error of the service if it is not accepted.

    Example: forager channels test me
    """
    done = with_api(context, lambda at: at.api.post(f"/channels/{part(name)}/test", {}))
    render.show_json(done) if as_json else render.notes().print(
        f"The service accepted a message for {name}.", markup=False
    )


@channels.command("remove")
def remove_channel(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """Remove a channel and its address.

    Example: forager channels remove me
    """
    done = with_api(context, lambda at: at.api.delete(f"/channels/{part(name)}"))
    render.show_json(done) if as_json else render.notes().print(f"Channel {name} removed.", markup=False)


@rules.command("add")
def add_rule(
    context: typer.Context,
    name: Name,
    kind: Kind,
    notify: Annotated[list[str], typer.Option("--notify", help="A channel; repeat it for several.")],
    when: When = None,
    key: OnlyKey = None,
    repeats: Repeats = False,
    as_json: Json = False,
) -> None:
    """Add a rule, checked now, with what it would have done in the last week.

    Example: forager rules add cheap --on product --when 'price < 100' --notify me
    """
    body = {"name": name, "kind": kind, "when": when, "key": key, "repeats": repeats, "notify": notify}
    added = with_api(context, lambda at: at.api.post("/rules", body), fields={"kind": "on"}, store="created")
    if as_json:
        render.show_json(added)
        return
    render.notes().print(f"Rule {name} added; it {added['preview']['text']}.", markup=False)


@rules.command("preview")
def preview_rule(
    context: typer.Context,
    kind: Kind,
    when: When = None,
    key: OnlyKey = None,
    repeats: Repeats = False,
    days: Annotated[float, typer.Option(help="Number of days whose changes are checked (default 7, at most 31).")] = 7,
    as_json: Json = False,
) -> None:
    """Print how often a rule would have fired; store nothing.

    Example: forager rules preview --on product --when 'price < 100' --days 14
    """
    body = {"kind": kind, "when": when, "key": key, "repeats": repeats, "days": days}
    found = with_api(context, lambda at: at.api.post("/rules/preview", body), fields={"kind": "on"})
    if as_json:
        render.show_json(found)
        return
    render.out().print(f"It {found['text']} ({render.some(found['changes'], 'change')} looked at).", markup=False)
    for each in found["first"]:
        render.out().print(f"  {each['at']}  {each['op']}  {each['title']}", markup=False)


@rules.command("list")
def list_rules(context: typer.Context, as_json: Json = False) -> None:
    """List rules with how often each has fired.

    Example: forager rules list
    """
    rows = with_api(context, lambda at: at.api.get("/rules"))
    if as_json:
        render.show_json(rows)
        return
    shown = render.table("name", "on", "when", "notify", "fired", "last", right=("fired",))
    for row in rows:
        shown.add_row(
            render.plain(row["name"]) + (" (paused)" if row["paused"] else ""),
            render.plain(row["kind"]),
            render.plain(row["when"] or "any change"),
            render.plain(", ".join(row["notify"])),
            render.count(row["fired"]),
            render.relative(row["last_fired_at"]) if row["last_fired_at"] else "",
        )
    render.out().print(shown)


@rules.command("show")
def show_rule(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """Show a rule.

    Example: forager rules show cheap
    """
    _show(with_api(context, lambda at: at.api.get(f"/rules/{part(name)}")), as_json=as_json)


@rules.command("pause")
def pause_rule(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """Let a rule fire no more until it is resumed.

    Example: forager rules pause cheap
    """
    done = with_api(context, lambda at: at.api.post(f"/rules/{part(name)}/pause", {}))
    render.show_json(done) if as_json else render.notes().print(f"Rule {name} is paused.", markup=False)


@rules.command("resume")
def resume_rule(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """Let a rule look at changes again, from now on.

    Example: forager rules resume cheap
    """
    done = with_api(context, lambda at: at.api.post(f"/rules/{part(name)}/resume", {}))
    render.show_json(done) if as_json else render.notes().print(f"Rule {name} looks at changes again.", markup=False)


@rules.command("remove")
def remove_rule(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """Remove a rule; alerts that have fired are sent.

    Example: forager rules remove cheap
    """
    done = with_api(context, lambda at: at.api.delete(f"/rules/{part(name)}"))
    render.show_json(done) if as_json else render.notes().print(f"Rule {name} removed.", markup=False)


@alerts.callback()
def _group() -> None:
    """Alerts that have fired."""


@alerts.command("list")
def list_alerts(
    context: typer.Context,
    rule: Annotated[str | None, typer.Option(help="Only alerts of this rule.")] = None,
    channel: Annotated[str | None, typer.Option(help="Only alerts for this channel.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", help="Alerts to print (default 50).", min=1, max=1_000)] = 50,
    as_json: Json = False,
) -> None:
    """List alerts of the last 90 days, newest first.

    Example: forager alerts list --limit 20
    """
    query = {name: value for name, value in (("rule", rule), ("channel", channel), ("limit", limit)) if value}
    rows = with_api(context, lambda at: at.api.get("/alerts", **query))
    if as_json:
        render.show_json(rows)
        return
    shown = render.table("at", "rule", "channel", "title", "delivered")
    for row in rows:
        delivered = render.relative(row["delivered_at"]) if row["delivered_at"] else "waits"
        shown.add_row(
            render.relative(row["at"]),
            render.plain(row["rule"]),
            render.plain(row["channel"]),
            render.plain(row["title"]),
            delivered,
        )
    render.out().print(shown)


def _show(found: Any, *, as_json: bool) -> None:
    if as_json:
        render.show_json(found)
        return
    pairs = [(name, None if value in (None, []) else str(value)) for name, value in found.items()]
    render.out().print(render.facts(pairs))
