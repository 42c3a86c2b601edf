"""Asking for pages and seeing them through: by a running Forager, or by the engine in this very process."""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from forager.cli import progress, render
from forager.cli.local_run import work_on
from forager.core.errors import FieldError, Rejected

if TYPE_CHECKING:
    from rich.table import Table

    from forager.cli.connect import Reached
    from forager.cli.progress import View

AT_ONCE = 100
"""Pages of one job: a longer file is several jobs, one after the other."""
CUT = 60


@dataclass(frozen=True, slots=True)
class Asked:
    task: Mapping[str, Any]
    provenance: Mapping[str, Any] | None


async def one_page(at: "Reached", target: Mapping[str, Any]) -> Asked:
    made = await at.api.post("/scrape", target)
    await _see_through(at, made["job_id"], progress.NoView())
    seen = await at.api.ask("GET", f"/scrape/{made['task_id']}")
    return Asked(seen.data, seen.meta.get("provenance"))


async def many_pages(at: "Reached", targets: Sequence[Mapping[str, Any]], *, quiet: bool) -> list[dict[str, Any]]:
    """Every page with its result or its error, in the order of the file."""
    pages: list[dict[str, Any]] = []
    for start in range(0, len(targets), AT_ONCE):
        part = targets[start : start + AT_ONCE]
        made = await at.api.post("/scrape/batch", {"targets": part})
        await _see_through(at, made["job_id"], progress.choose_view(render.notes(), quiet=quiet))
        pages += await _pages_of(at, made["job_id"], part)
    return pages


async def _see_through(at: "Reached", job: str, view: "View") -> None:
    if at.app is not None:
        await work_on(at.api, at.app, job, view)
    else:
        await progress.follow(at.api, job, view)


async def _pages_of(at: "Reached", job: str, targets: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    found = {each["task_id"]: each for each in await at.api.get(f"/scrape/jobs/{job}/results")}
    pages = []
    for task in await at.api.get(f"/jobs/{job}/tasks", limit=AT_ONCE):
        target = targets[int(task["key"])]
        result = found.get(task["id"])
        pages.append(
            {
                "task_id": task["id"],
                "target_url": target["target_url"],
                "target_type": target["target_type"],
                "status": task["state"],
                "result": result["result"] if result else None,
                "provenance": result["meta"]["provenance"] if result else None,
                "error": None if result else task["error"],
            }
        )
    return pages


def figures(result: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Field by field; one that was not found is a dash."""
    for name, value in result.items():
        yield name, render.plain(_short(value))


def listed(pages: Iterable[Mapping[str, Any]]) -> "Table":
    table = render.table("page", "state", "found", fold=("page", "found"))
    for each in pages:
        said = each["error"]
        if each["result"] is not None:
            said = ", ".join(f"{name}: {_short(v)}" for name, v in each["result"].items() if v is not None)
        table.add_row(render.plain(each["target_url"]), render.state(each["status"]), render.plain(said))
    return table


def read_targets(file: Path, otherwise: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What a file asks for; what a line does not say is taken from `otherwise`."""
    try:
        text = file.read_text("utf-8-sig")
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise Rejected(f"{file} cannot be read: {why}.") from error
    lines = _csv(text) if file.suffix.lower() == ".csv" else _json_lines(text, file.name)
    targets = [{**otherwise, **line} for line in lines]
    if not targets:
        raise Rejected(f"{file.name} names no page. Write one per line: a URL, or an object with target_url.")
    missing = [n for n, target in enumerate(targets, 1) if "target_type" not in target]
    if missing:
        problem = FieldError("target_type", f"line {missing[0]} does not say what kind of page it is; add it, or --as")
        raise Rejected(f"{file.name}: {problem.message}.", fields=[problem])
    return targets


def _json_lines(text: str, name: str) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(text.splitlines(), 1):
        if not (said := line.strip()):
            continue
        if said.startswith(("http://", "https://")):
            yield {"target_url": said}
            continue
        try:
            target = orjson.loads(said)
            if not isinstance(target, dict):
                raise ValueError("it is no object")
        except ValueError as error:
            raise Rejected(f"{name}, line {number} is neither a URL nor a JSON object: {error}") from None
        yield target


def _csv(text: str) -> Iterator[dict[str, Any]]:
    for row in csv.DictReader(text.splitlines()):
        target: dict[str, Any] = {
            name: value.strip() for name, value in row.items() if name and value and value.strip()
        }
        if names := target.get("requested_fields"):
            target["requested_fields"] = [part for part in names.replace(";", " ").replace(",", " ").split() if part]
        yield target


def _short(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, Mapping):
        value = value.get("raw") or ", ".join(str(part) for part in value.values() if part)
    text = " ".join(str(value).split())
    return text if len(text) <= CUT * 4 else f"{text[: CUT * 4]}…"
