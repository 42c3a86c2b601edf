"""`forager lanes …`: rates and limits per site or API, their state, and the rules that operators set."""

import math
import re
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from forager.sdk.cli.invocation import Json, with_api

app = typer.Typer(help="Rates and limits per site or API: show, pause, set your own rules.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="LANE", help="A domain such as example.com, or an API such as serper.")]
New = Annotated[
    bool, typer.Option("--new", help="Name a site that no job has used yet; otherwise an unknown lane is refused.")
]
FIELDS = {
    "tokens_per_interval": "tokens",
    "interval_seconds": "interval",
    "min_delay_ms": "min_delay",
    "max_delay_ms": "max_delay",
    "allowed_hours": "hours",
    "respect_robots_txt": "robots",
    "max_concurrent_requests": "concurrency",
    "crawl_delay_seconds": "crawl_delay",
    "use_proxies": "proxies",
    "proxy_cooldown_seconds": "proxy_cooldown",
    "block_resources": "block",
    "via": "via",
}
"""Options of `lanes set` by the rules that they set."""
_UNITS = {"_ms": "ms", "_seconds": "s"}
_SECONDS = {"s": 1, "m": 60, "h": 3600}
USUAL_SECONDS = 2.0
"""Assumed seconds of a request: --rate allows as many requests at once as the rate then needs."""
MOST_AT_ONCE = 100


@app.command("list")
def list_lanes(
    context: typer.Context,
    overrides: Annotated[bool, typer.Option("--overrides", help="List the rules that operators have set.")] = False,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=1000, help="Maximum number of lanes, by name.")
    ] = 100,
    as_json: Json = False,
) -> None:
    """List the lanes that jobs have used, or with --overrides the rules that operators set.

    Example: forager lanes list
    """
    from forager.sdk.cli import render

    path = "/overrides" if overrides else "/lanes"
    listed = with_api(context, lambda at: at.api.get(path, limit=limit))
    if as_json:
        render.show_json(listed)
    elif overrides:
        _show_overrides(listed)
    else:
        _show_lanes(listed)


@app.command()
def show(context: typer.Context, lane: Name, as_json: Json = False) -> None:
    """Show the rules in force for a lane, their sources, and its state. Also works before the first job.

    Example: forager lanes show shop.example
    """
    _shown(with_api(context, lambda at: at.api.get(path_of(lane))), as_json=as_json)


@app.command()
def pause(context: typer.Context, lane: Name, new: New = False, as_json: Json = False) -> None:
    """Send nothing new to a site or API until it is resumed. In-flight requests finish; its tasks stay queued.

    Example: forager lanes pause shop.example
    """
    _act(context, lane, f"pause{_query(new=new)}", "Paused", as_json=as_json)


@app.command()
def resume(context: typer.Context, lane: Name, as_json: Json = False) -> None:
    """Resume a site or API that was paused.

    Example: forager lanes resume shop.example
    """
    _act(context, lane, "resume", "Resumed", as_json=as_json)


@app.command("set")
def set_rules(
    context: typer.Context,
    lane: Name,
    rate: Annotated[
        str | None,
        typer.Option(
            metavar="N/s",
            help="Send that many requests per s, min or h, such as 30/s: sets the rate, and takes pauses and"
            " crawl-delay away.",
        ),
    ] = None,
    tokens: Annotated[float | None, typer.Option(help="Maximum requests in any interval.")] = None,
    interval: Annotated[float | None, typer.Option(help="Length of the interval, in seconds.")] = None,
    min_delay: Annotated[int | None, typer.Option(help="Minimum pause between two requests, in ms.")] = None,
    max_delay: Annotated[int | None, typer.Option(help="Maximum random pause between two requests, in ms.")] = None,
    hours: Annotated[str | None, typer.Option(metavar="START-END", help="UTC hours, such as 22-6; 0-24: all.")] = None,
    robots: Annotated[bool | None, typer.Option("--robots/--no-robots", help="Obey robots.txt.")] = None,
    concurrency: Annotated[int | None, typer.Option(help="Maximum requests in flight.")] = None,
    crawl_delay: Annotated[float | None, typer.Option(help="Minimum time between two requests, in seconds.")] = None,
    proxies: Annotated[bool | None, typer.Option("--proxies/--no-proxies", help="Use proxies.")] = None,
    proxy_cooldown: Annotated[float | None, typer.Option(help="Pause of a proxy after a request, in seconds.")] = None,
    block: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Types that browsers do not load: image,font,media,stylesheet or none."),
    ] = None,
    via: Annotated[
        bool | None,
        typer.Option("--via/--no-via", help="Send requests through the unblocking service, which costs money."),
    ] = None,
    unset: Annotated[
        list[str] | None,
        typer.Option(metavar="RULE", help="Remove one rule, such as min_delay_ms (repeatable)."),
    ] = None,
    clear: Annotated[bool, typer.Option("--clear", help="First remove all your rules for it.")] = False,
    new: New = False,
    as_json: Json = False,
) -> None:
    """Set your own rules for a site or API. They override the policy file and the crawl-delay of robots.txt at once.

    The slowest of several limits holds: --tokens and --interval change nothing while a pause is longer. The answer
    names the one that holds; --rate sets all of them.

    Example: forager lanes set shop.example --rate 2/s --new
    """
    if rate is not None and (tokens is not None or interval is not None):
        raise typer.BadParameter("--rate sets --tokens and --interval: give one of them", param_hint="--rate")
    rules: dict[str, Any] = {
        "tokens_per_interval": tokens,
        "interval_seconds": interval,
        "min_delay_ms": min_delay,
        "max_delay_ms": max_delay,
        "allowed_hours": None if hours is None else read_hours(hours),
        "respect_robots_txt": robots,
        "max_concurrent_requests": concurrency,
        "crawl_delay_seconds": crawl_delay,
        "use_proxies": proxies,
        "proxy_cooldown_seconds": proxy_cooldown,
        "block_resources": None if block is None else read_names(block),
        "via": via,
    }
    changes = {key: value for key, value in rules.items() if value is not None}
    taken_back = {_rule(key): None for key in unset or ()}
    asked = None if rate is None else read_rate(rate)
    if not clear and not changes and not taken_back and asked is None:
        raise typer.BadParameter("Give at least one rule, such as --rate 1/s, or --clear")
    path = f"{path_of(lane)}/rules{_query(new=new)}"

    async def work(at: Any) -> Any:
        given = changes if asked is None else {**rate_rules(asked, await at.api.get(path_of(lane))), **changes}
        return await (at.api.put(path, given) if clear else at.api.patch(path, {**taken_back, **given}))

    detail = with_api(context, work, fields=FIELDS, store="created")
    _shown(detail, as_json=as_json)
    if (
        not as_json
        and (tokens or interval)
        and not {"tokens_per_interval", "interval_seconds"} & {*detail["pace"]["rules"]}
    ):
        _note_slower_rule(detail, tokens)


def path_of(lane: str) -> str:
    """Return the API path of a lane. A URL stands for its host."""
    from forager.core.hosts import host_of
    from forager.sdk.cli.client import part

    name = host_of(lane) if "://" in lane else lane
    if not name or "/" in name:
        raise typer.BadParameter(f"invalid host name {lane!r}; write one such as example.com", param_hint="LANE")
    return f"/lanes/{part(name)}"


def read_rate(text: str) -> tuple[float, float]:
    """Parse a rate such as `30/s`, `10/min` or `2/10s` into requests and seconds."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*/\s*(\d+)?\s*(s|sec|m|min|h|hour)\s*", text)
    if found is None or not float(found[1]) or found[2] == "0":
        raise typer.BadParameter(f"invalid rate {text!r}; write one such as 30/s, 10/min or 2/10s", param_hint="--rate")
    return float(found[1]), float(found[2] or 1) * _SECONDS[found[3][0]]


def rate_rules(rate: tuple[float, float], lane: dict[str, Any]) -> dict[str, Any]:
    """Return the rules that make a lane as fast as this: the rate, no pauses, and enough requests at once."""
    tokens, interval = rate
    rules: dict[str, Any] = {"tokens_per_interval": tokens, "interval_seconds": interval}
    if lane["kind"] == "site":
        rules |= {"min_delay_ms": 0, "max_delay_ms": 0, "crawl_delay_seconds": 0}
    at_once = lane["rules"]["max_concurrent_requests"]["value"]
    if at_once < (needed := min(MOST_AT_ONCE, math.ceil(tokens / interval * USUAL_SECONDS))):
        rules["max_concurrent_requests"] = needed
    return rules


def _note_slower_rule(lane: dict[str, Any], tokens: float | None) -> None:
    from forager.sdk.cli import render

    rate = (
        f"{tokens or lane['rules']['tokens_per_interval']['value']:g}/{lane['rules']['interval_seconds']['value']:g}s"
    )
    render.notes().print(
        f"Your rate changes nothing: {lane['pace']['message']}."
        f" To be faster: forager lanes set {lane['name']} --rate {rate}",
        markup=False,
        soft_wrap=True,
    )


def _query(*, new: bool) -> str:
    return "?new=true" if new else ""


def read_hours(text: str) -> dict[str, int]:
    """Parse hours such as `22-6` into start and end."""
    start, dash, end = text.replace(":00", "").partition("-")
    if not dash or not start.strip().isdigit() or not end.strip().isdigit():
        raise typer.BadParameter(f"invalid hours {text!r}; write START-END in UTC, such as 22-6", param_hint="--hours")
    return {"start": int(start), "end": int(end)}


def read_names(text: str) -> list[str]:
    names = [name.strip().lower() for name in text.split(",") if name.strip()]
    return [] if names == ["none"] else names


def _rule(text: str) -> str:
    """Return the rule of this name, or the one that this option sets."""
    name = text.strip().removeprefix("--").replace("-", "_")
    if name in FIELDS:
        return name
    for rule, option in FIELDS.items():
        if option == name:
            return rule
    raise typer.BadParameter(f"unknown rule {text!r}; choose from {', '.join(FIELDS)}", param_hint="--unset")


def _act(context: typer.Context, lane: str, verb: str, message: str, *, as_json: bool) -> None:
    from forager.sdk.cli import render

    detail = with_api(context, lambda at: at.api.post(f"{path_of(lane)}/{verb}"), store="created")
    render.show_json(detail) if as_json else render.out().print(f"{message} {detail['name']}.", markup=False)


def _show_lanes(lanes: list[dict[str, Any]]) -> None:
    from forager.sdk.cli import render

    if not lanes:
        render.notes().print(
            "No lanes yet: one appears with the first job that uses it."
            " To see what would hold for a site: forager lanes show example.com",
            soft_wrap=True,
        )
        return
    rows = render.table("lane", "state", "run by", "next (UTC)", fold=("lane",))
    for lane in lanes:
        name, owner = render.plain(lane["name"]), render.plain(lane["owner"])
        rows.add_row(name, standing(lane), owner, render.moment(lane["wake_at"]))
    render.out().print(rows)


def _show_overrides(listed: list[dict[str, Any]]) -> None:
    from forager.sdk.cli import render

    if not listed:
        render.notes().print("No operator has set a rule. Set one: forager lanes set example.com --tokens 1")
        return
    rows = render.table("lane", "rules", "changed (UTC)", fold=("lane", "rules"))
    for each in listed:
        rules = ", ".join(f"{key} {amount(key, value)}" for key, value in each["rules"].items())
        rows.add_row(render.plain(each["name"]), render.plain(rules), render.moment(each["updated_at"]))
    render.out().print(rows)


def _shown(lane: dict[str, Any], *, as_json: bool) -> None:
    from forager.engine.lanes.rules.precedence import SOURCES
    from forager.sdk.cli import render

    if as_json:
        render.show_json(lane)
        return
    breaker = lane["breaker"]
    delay = lane["crawl_delay_seconds"]
    figures = [
        ("lane", f"{lane['name']} ({lane['kind']})"),
        ("state", "paused" if lane["paused"] else "used" if lane["seen"] else "not used yet"),
        ("run by", lane["owner"]),
        ("used by", ", ".join(lane["used_by"]) or None),
        ("closed until", render.moment(lane["opens_at"]) if lane["opens_at"] else None),
        ("slower until", render.moment(lane["slow_until"]) if lane["slow_until"] else None),
        ("waits until", render.moment(lane["hold_until"]) if lane["hold_until"] else None),
        ("breaker", _breaker(breaker) if breaker else None),
        ("pace", lane["pace"]["message"]),
        ("robots.txt asks", _asked(delay, lane["rules"]) if delay is not None else None),
        ("cap", "reached" if lane["capped"] else None),
    ]
    render.out().print(render.facts(figures))
    rows = render.table("rule", "value", "source", fold=("source",))
    for key, rule in lane["rules"].items():
        rows.add_row(key, amount(key, rule["value"]), render.plain(SOURCES[rule["by"]].format(rule["where"])))
    render.out().print(rows)


def _asked(delay: float, rules: dict[str, Any]) -> str:
    """Return the crawl-delay of robots.txt, and whether it is in force."""
    asked = f"{delay:g} s between requests"
    own = rules["crawl_delay_seconds"]
    if own["by"] == "robots":
        return f"{asked}, which is obeyed"
    return f"{asked}; your rules override it" if (own["value"] or 0) < delay else asked


def _breaker(breaker: dict[str, Any]) -> str:
    from forager.sdk.cli import render

    known = f"{breaker['state'].replace('_', ' ')}, {breaker['failures']} of {breaker['calls']} calls failed"
    return known if breaker["state"] != "open" else f"{known}, next try {render.moment(breaker['probe_at'])}"


def standing(lane: Mapping[str, Any]) -> str:
    """Summarise a lane's state in one word."""
    if lane["paused"]:
        return "paused"
    breaker = lane["state"].get("breaker")
    if isinstance(breaker, dict) and breaker.get("state") in ("open", "half_open"):
        return "breaker open"
    return "running" if lane["owner"] else "idle"


def amount(key: str, value: Any) -> str:
    """Format a rule's value for display."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return f"{value['start']:02}-{value['end']:02} UTC"
    if isinstance(value, list):
        return ", ".join(value) or "nothing"
    unit = next((unit for ending, unit in _UNITS.items() if key.endswith(ending)), "")
    return f"{value:g} {unit}".strip()
