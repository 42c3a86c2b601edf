"""`forager schedules …`: jobs that are created repeatedly while `up` or `worker` runs."""

import re
import shlex
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from forager.core.clock import seconds_with_unit
from forager.core.errors import FieldError, Rejected
from forager.core.ids import checked_name
from forager.sdk.cli.invocation import Json, Reached, post, with_api

app = typer.Typer(help="Jobs that are created repeatedly.", no_args_is_help=True)

LAST_RUNS, TASKS_OF_A_RUN = 10, 1_000
LONGEST_NAME = 24
"""Characters of a name that a list shows on one line."""
Name = Annotated[str, typer.Argument(metavar="NAME", help="The schedule's name.")]


@app.command("list")
def list_schedules(context: typer.Context, as_json: Json = False) -> None:
    """List the schedules: when each fires next, and which job it created last.

    Example: forager schedules list
    """
    from forager.sdk.cli import render

    schedules = with_api(context, lambda at: at.api.get("/schedules"))
    if as_json:
        render.show_json(schedules)
        return
    if not schedules:
        render.notes().print(
            "No schedules. Add one: forager schedules add bars-in-az --cron '0 6 * * *' -p keyword=bars -p state=AZ"
            " -p max_credits=1000",
            soft_wrap=True,
        )
        return
    rows = render.table("name", "when", "next (UTC)", "a month", "last (UTC), job", fold=("when", "last (UTC), job"))
    rows.columns[0].min_width = min(LONGEST_NAME, max(len(each["name"]) for each in schedules))
    for each in schedules:
        following = "paused" if each["paused"] else render.moment(each["next_at"])
        cost = each["per_month"]
        money = "-" if cost is None else render.money(float(cost["expected_usd"]))
        rows.add_row(render.plain(each["name"]), rhythm(each), following, money, _last(each))
    render.out().print(rows)


@app.command()
def show(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """Show a schedule and its last ten runs: what each did and how long it took.

    Example: forager schedules show weekly
    """
    from forager.sdk.cli import render
    from forager.sdk.cli.client import part

    async def work(at: Reached) -> dict[str, Any]:
        schedule = await at.api.get(f"/schedules/{part(checked_name(name))}")
        jobs = await at.api.get("/jobs", schedule=name, limit=LAST_RUNS)
        return {**schedule, "runs": [await _run(at, job) for job in jobs]}

    schedule = with_api(context, work)
    if as_json:
        render.show_json(schedule)
        return
    following = "paused" if schedule["paused"] else render.moment(schedule["next_at"])
    facts = [
        ("schedule", render.plain(name)),
        ("when", rhythm(schedule)),
        ("next", following),
        ("a month", _cost(schedule)),
    ]
    render.out().print(render.facts([*facts, ("last error", render.plain(schedule["last_error"]))]))
    rows = render.table("run (UTC)", "state", "took", "what it did", fold=("what it did",))
    for run in schedule["runs"]:
        did = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in run["did"].items()) or run["error"]
        rows.add_row(
            render.moment(run["at"]), render.state(run["state"]), render.duration(run["seconds"]), render.plain(did)
        )
    render.out().print(rows)


async def _run(at: Reached, job: dict[str, Any]) -> dict[str, Any]:
    """Return a job of a schedule, with the sums of its tasks' results."""
    from forager.sdk.cli.run_job import seconds_of

    tasks = await at.api.get(f"/jobs/{job['id']}/tasks", limit=TASKS_OF_A_RUN)
    did: dict[str, Any] = {}
    for task in tasks:
        for key, value in task["facts"].items():
            if isinstance(value, int) and not key.startswith("api_"):
                did[key] = did.get(key, 0) + value
    error = next((task["error"] for task in tasks if task["error"]), None)
    took = seconds_of(job)
    return {
        "job": job["id"],
        "at": job["created_at"],
        "state": job["state"],
        "seconds": took,
        "did": did,
        "error": error,
    }


class _WithFields(TyperCommand):
    """A command whose help ends with the fields of each pipeline's jobs; they are read only for the help."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self.epilog = fields_of_pipelines()
        super().format_help(ctx, formatter)


@app.command(cls=_WithFields)
def add(
    context: typer.Context,
    name: Name,
    cron: Annotated[str | None, typer.Option(help="Cron expression, such as '0 6 * * *'.")] = None,
    timezone: Annotated[
        str | None, typer.Option("--timezone", "--tz", help="Time zone of --cron, such as America/New_York [UTC].")
    ] = None,
    every: Annotated[str | None, typer.Option(help="Interval instead of --cron, such as 30m, 6h or 1d.")] = None,
    pipeline: Annotated[str, typer.Option(help="Pipeline of the jobs.")] = "places",
    param: Annotated[
        list[str] | None,
        typer.Option("--param", "-p", metavar="NAME=VALUE", help="Job parameter; value as JSON or text (repeatable)."),
    ] = None,
    no_budget: Annotated[
        bool, typer.Option("--no-budget", help="Let jobs that cost money run without a budget.")
    ] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace the schedule of this name, if there is one.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Add a schedule. Job parameters are validated now.

    Jobs that cost money need a budget or --no-budget; what a month costs is shown.

    Example: forager schedules add weekly --cron '0 6 * * 1' -p keyword=bars -p state=AZ -p max_credits=700
    """
    from forager.sdk.cli import render
    from forager.sdk.cli.client import part

    body: dict[str, Any] = {"pipeline": pipeline, "params": read_params(param or [])}
    body |= {"cron": cron, "every": seconds(every) if every is not None else None, "no_budget": no_budget}
    body |= {} if timezone is None else {"timezone": timezone}
    path = f"/schedules/{part(checked_name(name))}?replace={'true' if replace else 'false'}"
    try:
        kept = with_api(context, lambda at: at.api.put(path, body), store="created")
    except Rejected as wrong:
        wrong.fields = tuple(hinted(each, param or []) for each in wrong.fields)
        raise
    if as_json:
        render.show_json(kept)
    else:
        render.out().print(f"Saved. It fires next at {render.moment(kept['next_at'])} UTC.", markup=False)
        if kept["per_month"] is not None:
            render.out().print(f"It costs {_cost(kept)}.", markup=False, soft_wrap=True)
            if warning := kept["per_month"]["warning"]:
                render.notes().print(f"Warning: {warning}", markup=False, soft_wrap=True)


@app.command()
def remove(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """Remove a schedule. Jobs that it created stay.

    Example: forager schedules remove weekly
    """
    from forager.sdk.cli import render
    from forager.sdk.cli.client import part

    removed = with_api(context, lambda at: at.api.delete(f"/schedules/{part(checked_name(name))}"))
    render.show_json(removed) if as_json else render.out().print("Removed.")


@app.command()
def pause(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """Pause a schedule: it creates no jobs until it is resumed.

    Example: forager schedules pause weekly
    """
    _act(context, name, "pause", "Paused.", as_json=as_json)


@app.command()
def resume(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """Resume a schedule. Missed runs are not caught up.

    Example: forager schedules resume weekly
    """
    _act(context, name, "resume", "Resumed.", as_json=as_json)


@app.command()
def run(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """Create its job now, in addition to the scheduled ones.

    Example: forager schedules run weekly
    """
    _act(context, name, "run", "Created its job.", as_json=as_json)


def _last(schedule: dict[str, Any]) -> Any:
    """Render the time of the last firing, the last job, and the error if the last firing created none."""
    from rich.text import Text

    from forager.sdk.cli import render
    from forager.sdk.cli.invocation import short_job

    job = schedule["last_job"]
    below = [short_job(job) if job else None, schedule["last_error"]]
    lines = [render.moment(schedule["last_at"]), *(line for line in below if line)]
    return Text("\n").join(render.plain(line) for line in lines)


def rhythm(schedule: dict[str, Any]) -> str:
    from forager.sdk.cli import render

    if schedule["cron"] is None:
        return f"every {render.duration(schedule['every'])}"
    zone = schedule["timezone"]
    return schedule["cron"] if zone == "UTC" else f"{schedule['cron']} {zone}"


def _cost(schedule: dict[str, Any]) -> str | None:
    from forager.sdk.cli import render

    cost = schedule["per_month"]
    if cost is None:
        return None
    expected, worst = (render.money(float(cost[name])) for name in ("expected_usd", "worst_usd"))
    budget = "" if cost["has_budget"] else ", without a budget"
    return f"about {expected} a month for {render.some(cost['jobs'], 'job')}, at most {worst}{budget}"


def fields_of_pipelines() -> str:
    """Return the fields that the jobs of each pipeline take, as the end of a help text. A field whose values are given
    shows them, so the actions of a pipeline are in it."""
    from forager.app.config import new_settings
    from forager.app.features import all_features

    settings = new_settings()
    parts = ["Fields of the jobs, by pipeline (* is required):"]
    for feature in all_features():
        pipeline = feature.build.load()(settings)
        if pipeline.internal:
            continue
        schema = pipeline.params.model_json_schema()
        fields = (_field(name, about, schema) for name, about in schema.get("properties", {}).items())
        parts.append(f"{feature.name}: {', '.join(fields) or 'no fields'}")
    return "\n\n".join(parts)


def _field(name: str, about: dict[str, Any], schema: dict[str, Any]) -> str:
    values = [value for each in (about, *about.get("anyOf", ())) for value in _values(each, schema)]
    star = "*" if name in schema.get("required", ()) else ""
    return f"{name}{star}" + (f" ({', '.join(map(str, values))})" if values else "")


def _values(about: dict[str, Any], schema: dict[str, Any]) -> list[Any]:
    if "$ref" in about:
        about = schema.get("$defs", {}).get(about["$ref"].rpartition("/")[2], {})
    return [about["const"]] if "const" in about else list(about.get("enum", ()))


def seconds(text: str) -> float:
    """Parse `90s`, `30m`, `6h` or `1d` into seconds. Raises `BadParameter` for a time without a unit."""
    try:
        return seconds_with_unit(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--every") from None


def read_params(given: list[str]) -> dict[str, Any]:
    """Parse NAME=VALUE pairs. A value is JSON if it can be read as such, else text: `pages=2`, `state=AZ`,
    `zips=["02139"]`."""
    import orjson

    read: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise typer.BadParameter(f"{text!r} is not NAME=VALUE, such as keyword=bars", param_hint="--param")
        try:
            read[name.strip()] = orjson.loads(value)
        except ValueError:
            read[name.strip()] = value
    return read


def hinted(wrong: FieldError, given: list[str]) -> FieldError:
    """Return the error with a hint if a parameter was read as the wrong type: how to write it as text or as a list."""
    import orjson

    name, _, inside = wrong.field.partition(".")
    text = next((text.partition("=")[2] for text in reversed(given) if text.partition("=")[0].strip() == name), "")
    needs_text = wrong.message == "must be text"
    needs_list = wrong.message == "must be a list" or (needs_text and inside.isdigit())
    if not text or "{" in text or not (needs_list or (needs_text and not inside)):
        return wrong
    meant = [part.strip("\"'") for part in re.split(r"[\s,]+", text.strip("[]() "))] if needs_list else text
    return FieldError(wrong.field, f"{wrong.message}; write -p {name}={shlex.quote(orjson.dumps(meant).decode())}")


def _act(context: typer.Context, name: str, verb: str, message: str, *, as_json: bool) -> None:
    from forager.sdk.cli import render
    from forager.sdk.cli.client import part

    answered, but = post(context, f"/schedules/{part(checked_name(name))}/{verb}")
    if as_json:
        render.show_json(answered)
        return
    job = answered.get("job_id") if isinstance(answered, dict) else None
    follow = but or f" Follow it: forager jobs watch {job}"
    render.out().print(f"{message}{follow}" if job else message, markup=False, soft_wrap=True)
    if verb == "resume" and isinstance(answered, dict) and answered.get("per_month") is not None:
        render.out().print(f"It costs {_cost(answered)}.", markup=False, soft_wrap=True)
