"""`forager scrape batch`: the pages of a file, as one job, worked on by a running Forager or by this process."""

import csv
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from forager.core.errors import FieldError, Rejected
from forager.kit.cli import render
from forager.kit.cli.invocation import Reached
from forager.kit.cli.run_job import see_through
from forager.pipelines.scrape.cli_words import words
from forager.pipelines.scrape.words import shown_reason

if TYPE_CHECKING:
    from rich.table import Table

MOST_TARGETS = 10_000
MOST_BYTES = 1_800_000
"""Pages of one job, and bytes of the request that creates it: the API takes two megabytes."""
MOST_TOLD = 20
CUT = 60


@dataclass(frozen=True, slots=True)
class Line:
    """One page that a file asks for, and where it does."""

    number: int
    target: Mapping[str, Any]


async def many_pages(at: Reached, lines: Sequence[Line], *, quiet: bool) -> AsyncIterator[dict[str, Any]]:
    """Every page with its result or its error, in the order of the file, which is one job.

    A file of more than 10,000 pages, or of very long URLs, is several jobs, one after the other.
    """
    _check_all(lines)
    for part in parts_of(lines):
        job = await _created(at, part)
        if not quiet:
            render.notes().print(f"Job {job}: {words.tasks(len(part))}", markup=False)
        await see_through(at, job, words=words, quiet=quiet)
        async for page in _pages_of(at, job, [line.target for line in part]):
            yield page


def parts_of(lines: Sequence[Line]) -> Iterator[Sequence[Line]]:
    """Split the lines of a file into jobs that the API takes."""
    start = size = 0
    for number, line in enumerate(lines):
        more = len(orjson.dumps(dict(line.target))) + 1
        if number - start == MOST_TARGETS or (size + more > MOST_BYTES and number > start):
            yield lines[start:number]
            start, size = number, 0
        size += more
    yield lines[start:]


async def noted(pages: AsyncIterator[dict[str, Any]], status: list[dict[str, Any]]) -> AsyncIterator[list[Any]]:
    """Pass pages on one by one, and keep of each only how it ended: a file of them may be long."""
    async for page in pages:
        status.append({"status": page["status"]})
        yield [page]


async def _created(at: Reached, lines: Sequence[Line]) -> str:
    body = {"pipeline": "scrape", "params": {"targets": [line.target for line in lines]}}
    try:
        return str((await at.api.post("/jobs", body))["id"])
    except Rejected as wrong:
        raise _by_line(wrong, lines) from None


def _check_all(lines: Sequence[Line]) -> None:
    """Before anything is asked for: every line that is wrong, and not only those of the first job."""
    from pydantic import ValidationError

    from forager.core.invalid import field_errors
    from forager.pipelines.scrape.job import BatchTarget

    wrong: list[FieldError] = []
    for number, line in enumerate(lines):
        try:
            BatchTarget.model_validate(dict(line.target))
        except ValidationError as error:
            problems = field_errors(error)
            wrong += [
                FieldError(f"targets.{number}.{each.field}".removesuffix(".body"), each.message) for each in problems
            ]
    if wrong:
        raise _by_line(Rejected("The file is not valid; nothing was asked for.", fields=wrong[:MOST_TOLD]), lines)


def _by_line(wrong: Rejected, lines: Sequence[Line]) -> Rejected:
    """Map errors of a request's targets to lines of the file."""
    fields = []
    for each in wrong.fields:
        where, _, field = each.field.removeprefix("targets.").partition(".")
        known = each.field.startswith("targets.") and where.isdigit() and int(where) < len(lines)
        name = f"line {lines[int(where)].number}{', ' if field else ''}{field}" if known else each.field
        fields.append(FieldError(name, each.message))
    wrong.fields = tuple(fields)
    return wrong


async def _pages_of(at: Reached, job: str, targets: Sequence[Mapping[str, Any]]) -> AsyncIterator[dict[str, Any]]:
    """In the order of the targets; a page of tasks and one of results at a time would come in another."""
    tasks = {int(task["key"]): task async for page in at.api.pages(f"/jobs/{job}/tasks") for task in page}
    results = {row["task_key"]: row async for page in at.api.pages("/records/scrape_result", job=job) for row in page}
    for number, target in enumerate(targets):
        task = tasks[number]
        result = results.get(task["key"]) if task["state"] == "completed" else None
        yield {
            "task_id": task["id"],
            "target_url": target["target_url"],
            "target_type": target.get("target_type", "page"),
            "status": task["state"],
            "result": result["result"] if result else None,
            "provenance": result["provenance"] if result else None,
            "error": None if result else task["error"],
            "reason": None if result else shown_reason(task["reason"]),
        }


def figures(result: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Field by field; one that was not found is a dash."""
    for name, value in result.items():
        yield name, render.plain(_short(value))


def listed(pages: Iterable[Mapping[str, Any]]) -> "Table":
    table = render.table("page", "state", "found", fold=("page", "found"))
    for each in pages:
        error = each["error"]
        if each["result"] is not None:
            error = ", ".join(f"{name}: {_short(v)}" for name, v in each["result"].items() if v is not None)
        table.add_row(render.plain(each["target_url"]), render.state(each["status"]), render.plain(error))
    return table


def read_targets(file: Path, otherwise: Mapping[str, Any]) -> list[Line]:
    """What a file asks for; what a line does not say is taken from `otherwise`."""
    try:
        text = file.read_text("utf-8-sig")
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise Rejected(f"{file} cannot be read: {why}.") from error
    rows = _csv(text, file.name) if file.suffix.lower() == ".csv" else _json_lines(text, file.name)
    lines = [Line(number, {**otherwise, **target}) for number, target in rows]
    if not lines:
        raise Rejected(f"{file.name} names no page. Write one per line: a URL, or an object with target_url.")
    missing = next((line.number for line in lines if "target_url" not in line.target), None)
    if missing is not None:
        problem = FieldError("target_url", f"line {missing} does not say which page")
        raise Rejected(f"{file.name}: {problem.message}.", fields=[problem])
    return lines


def _json_lines(text: str, name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(text.splitlines(), 1):
        if not (content := line.strip()):
            continue
        if content.startswith(("http://", "https://")):
            yield number, {"target_url": content}
            continue
        try:
            target = orjson.loads(content)
            if not isinstance(target, dict):
                raise ValueError("it is no object")
        except ValueError as error:
            raise Rejected(f"{name}, line {number} is neither a URL nor a JSON object: {error}") from None
        yield number, target


def _csv(text: str, name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    rows = csv.DictReader(text.splitlines())
    if rows.fieldnames and "target_url" not in rows.fieldnames:
        told = ", ".join(column[:40] for column in rows.fieldnames[:10])
        raise Rejected(f"{name} has no column target_url. Its first line, which names the columns, is: {told}")
    for row in rows:
        target: dict[str, Any] = {
            column: value.strip() for column, value in row.items() if column and value and value.strip()
        }
        if names := target.get("requested_fields"):
            target["requested_fields"] = [part for part in names.replace(";", " ").replace(",", " ").split() if part]
        if target:
            yield rows.line_num, target


def _short(value: Any) -> str | None:
    if isinstance(value, list):
        value = ", ".join(map(_entry, value))
    if value is None or value == "":
        return None
    if isinstance(value, Mapping):
        value = value.get("raw") or ", ".join(str(part) for part in value.values() if part)
    text = " ".join(str(value).split())
    return text if len(text) <= CUT * 4 else f"{text[: CUT * 4]}…"


def _entry(value: Any) -> str:
    """One of several values: a link as its URL, structured data as JSON."""
    if not isinstance(value, Mapping):
        return str(value)
    return str(value["url"]) if {"url", "text"} == value.keys() else orjson.dumps(value).decode()
