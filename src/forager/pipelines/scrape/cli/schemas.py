"""`forager schemas …`: fields of your own."""

from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from forager.core.errors import FieldError, Rejected
from forager.core.ids import checked_name
from forager.pipelines.scrape.cli.pages import MaxUsd, budget_of, one_page
from forager.sdk.cli import render
from forager.sdk.cli.client import JobNotDone, part
from forager.sdk.cli.invocation import Json, Reached, with_api

commands = typer.Typer(help="Fields of your own: add, test and learn them.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="Name of the schema.")]


@commands.command()
def add(
    context: typer.Context,
    name: Name,
    file: Annotated[Path, typer.Argument(help="JSON file with the schema.")],
    as_json: Json = False,
) -> None:
    """Store a schema under a name; one of this name is replaced.

    Example: forager schemas add prices price.json
    """
    checked_name(name)
    body = _read(file)
    stored = with_api(context, lambda at: at.api.put(f"/schemas/{part(name)}", body), store="created")
    _show(stored, as_json=as_json)


@commands.command("list")
def list_schemas(context: typer.Context, as_json: Json = False) -> None:
    """List the stored schemas.

    Example: forager schemas list
    """
    rows = with_api(context, lambda at: at.api.get("/schemas"))
    if as_json:
        render.show_json(rows)
        return
    shown = render.table("name", "fields", "base")
    for row in rows:
        body = row["body"]
        names = [*body.get("fields", {}), *(["items"] if body.get("items") else [])]
        shown.add_row(render.plain(row["name"]), render.plain(", ".join(names)), render.plain(body.get("base") or ""))
    render.out().print(shown)


@commands.command()
def show(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """Print a schema as JSON; with --json, with its name and how it was learnt.

    Example: forager schemas show prices
    """
    stored = with_api(context, lambda at: at.api.get(f"/schemas/{part(name)}"))
    render.show_json(stored if as_json else stored["body"])


@commands.command()
def remove(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """Remove a schema.

    Example: forager schemas remove prices
    """
    removed = with_api(context, lambda at: at.api.delete(f"/schemas/{part(name)}"))
    if as_json:
        render.show_json(removed)
        return
    render.notes().print(f"Removed {name}.", markup=False)


@commands.command("test")
def read_by_schema(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of a stored schema, or a JSON file.")],
    url: Annotated[str, typer.Argument(help="The page to read.")],
    max_usd: MaxUsd = None,
    as_json: Json = False,
) -> None:
    """Read one page by a schema and print each value with its source and confidence.

    Example: forager schemas test prices https://shop.example/product/1
    """
    schema: Any = _read(Path(name)) if name.endswith(".json") else name

    async def work(at: Reached) -> Any:
        budget = {} if max_usd is None else {"max_usd": budget_of(max_usd)}
        return await one_page(at, {"target_url": url, "page_schema": schema, **budget}, quiet=as_json)

    named = {"target_url": "url", "schema": "name", "page_schema": "name"}
    asked = with_api(context, work, fields=named, store="created")
    if not asked.is_read:
        raise JobNotDone(f"{url} {asked.problem}")
    found, sources = asked.task["result"], asked.meta.get("provenance") or {}
    if as_json:
        render.show_json({"result": found, "provenance": sources, "cost_usd": asked.task["cost_usd"]})
        return
    shown = render.table("field", "value", "source", "confidence", fold=("value", "source"))
    for field, value in found.items():
        told = sources.get(field, {})
        text = "" if value is None else value if isinstance(value, str) else orjson.dumps(value).decode()
        sure = f"{told['confidence']:.2f}" if told else ""
        shown.add_row(field, render.plain(text[:300]), render.plain(told.get("source", "not found")), sure)
    render.out().print(shown)
    if float(asked.task["cost_usd"]):
        render.notes().print(f"Cost: {render.money(float(asked.task['cost_usd']))}", markup=False)


@commands.command()
def learn(
    context: typer.Context,
    name: Name,
    file: Annotated[Path, typer.Argument(help='JSON file: [{"url": …, "values": {"title": …}}, …], 2 or 3 pages.')],
    as_json: Json = False,
) -> None:
    """Learn a schema from pages with the wanted values, check it by leave-one-out, and store it.

    Example: forager schemas learn tables examples.json
    """
    checked_name(name)
    examples = _read(file)
    if not isinstance(examples, list) or not all(isinstance(each, dict) and "values" in each for each in examples):
        problem = 'should be a list of {"url": …, "values": {…}}'
        raise Rejected(f"{file} {problem}.", fields=[FieldError("file", problem)])

    async def work(at: Reached) -> Any:
        pages = [await _fetched(at, each, quiet=as_json) for each in examples]
        learnt = await at.api.post("/schemas/learn", {"examples": pages})
        if learnt["body"] is not None:
            await at.api.put(f"/schemas/{part(name)}", learnt["body"])
        return learnt

    learnt = with_api(context, work, store="created")
    if as_json:
        render.show_json(learnt)
    else:
        _show_learnt(name, learnt)
    if learnt["body"] is None:
        raise JobNotDone("No field was found on all examples; nothing was stored.")


async def _fetched(at: Reached, given: dict[str, Any], *, quiet: bool) -> dict[str, Any]:
    """Return an example with its HTML, which is fetched unless the file has it."""
    if "html" in given:
        return given
    target = {"target_url": given.get("url"), "formats": ["html"]}
    asked = await one_page(at, target, quiet=quiet)
    if not asked.is_read:
        raise JobNotDone(f"{given.get('url')} {asked.problem}")
    return {**given, "html": asked.task["result"]["html"]}


def _show_learnt(name: str, learnt: Any) -> None:
    fields = (learnt["body"] or {}).get("fields", {})
    shown = render.table("field", "path", "checked", "confidence", "unsure", fold=("path", "unsure"))
    for field in dict.fromkeys([*fields, *learnt["unsure"]]):
        spec = fields.get(field, {})
        path = next((f"{way}: {spec[way]}" for way in ("json", "meta", "css") if way in spec), "none")
        sure = f"{spec['confidence']:.2f}" if "confidence" in spec else ""
        unsure = learnt["unsure"].get(field, "")
        shown.add_row(field, render.plain(path), learnt["checked"].get(field, ""), sure, render.plain(unsure))
    render.out().print(shown)
    if fields:
        render.notes().print(f"Stored as {name}. Try it: forager schemas test {name} URL", markup=False)


def _show(stored: Any, *, as_json: bool) -> None:
    if as_json:
        render.show_json(stored)
    else:
        render.notes().print(f"Stored {stored['name']}.", markup=False)


def _read(file: Path) -> Any:
    try:
        return orjson.loads(file.read_bytes())
    except OSError as error:
        raise Rejected(
            f"{file} cannot be read: {error.strerror}.", fields=[FieldError("file", "cannot be read")]
        ) from error
    except ValueError as error:
        raise Rejected(f"{file} is not valid JSON: {error}.") from error
