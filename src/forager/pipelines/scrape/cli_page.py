"""`forager scrape URL`: one page, with all of its fields or in one format."""

import sys
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from forager.core.errors import FieldError, Rejected
from forager.kit.cli import render
from forager.kit.cli.invocation import Reached
from forager.kit.cli.row_files import opened
from forager.kit.cli.run_job import see_through
from forager.pipelines.scrape.cli_words import words
from forager.pipelines.scrape.words import NOT_AN_ITEM

SCREENSHOT = "screenshot"


@dataclass(frozen=True, slots=True)
class Asked:
    """A page that was asked for: its task with its result, and where that was found."""

    task: Mapping[str, Any]
    meta: Mapping[str, Any]

    @property
    def is_read(self) -> bool:
        return bool(self.task["status"] == "completed")

    @property
    def problem(self) -> str:
        """What went wrong, to be read after the URL: the page could not be fetched, or it is not what was asked for."""
        why = str(self.task["error"] or self.task["status"]).removeprefix(f"{self.task['target_url']}: ")
        if self.task.get("reason") in NOT_AN_ITEM:
            return f"is not a page of the type {self.task['target_type']}: it {why.partition(' ')[2]}"
        return f"could not be fetched: {why}"

    @property
    def shown(self) -> dict[str, Any]:
        """For programs. `provenance` stands beside `meta`, too, where earlier versions had it."""
        about = {name: self.meta.get(name) for name in ("page_url", "pages", "rendered", "provenance")}
        return {**self.task, "provenance": self.meta.get("provenance"), "meta": about if self.is_read else {}}


async def one_page(at: Reached, target: Mapping[str, Any], *, quiet: bool) -> Asked:
    made = await at.api.post("/scrape", target)
    await see_through(at, made["job_id"], words=words, quiet=quiet, single=True)
    seen = await at.api.ask("GET", f"/scrape/{made['task_id']}")
    return Asked(seen.data, seen.meta)


def type_of(extractor: Path) -> str:
    """The target type of an extractor that a file holds. Raises `Rejected` unless there is exactly one."""
    from forager.pipelines.scrape.extractor_files import load_extractors

    try:
        names = [each.name for each in load_extractors([str(extractor)])]
    except Rejected as wrong:
        raise _not_usable(wrong.fields[0].message) from wrong
    if len(names) > 1:
        raise _not_usable(f"{extractor} has several extractors ({', '.join(names)}); keep one in it")
    return names[0]


def runs_elsewhere() -> Rejected:
    """The error for a file that the Forager which would do the work has not loaded."""
    message = (
        "a Forager is running, and it loads extractors when it starts: stop it, or start it with "
        "FORAGER_EXTRACTOR_FILES and name the extractor's type with --as"
    )
    return _not_usable(message)


def _not_usable(message: str) -> Rejected:
    return Rejected(f"--extractor: {message}.", fields=[FieldError("extractor", message)])


def show_format(form: str, value: Any, output: Path | None) -> None:
    """Print one format of a page, and nothing else. Raises `Rejected` for a picture that would go to a terminal."""
    if value is None:
        raise Rejected(f"The page has no {form}.")
    if form == SCREENSHOT and output is None and sys.stdout.isatty():
        raise Rejected("A screenshot is a PNG file. Name one with --output page.png, or redirect the output.")
    with opened(output) as file:
        file.write(_bytes(form, value))
        file.flush()
    if output is not None:
        render.notes().print(f"{form} in {output}", markup=False, soft_wrap=True)


def show_all(asked: Asked, output: Path | None) -> None:
    """Write the page as JSON, to a file or to standard output."""
    with opened(output) as file:
        file.write(orjson.dumps(asked.shown, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
        file.flush()


def _bytes(form: str, value: Any) -> bytes:
    if form == SCREENSHOT:
        return b64decode(value)
    if form == "links":
        return "".join(f"{link['url']}\n" for link in value).encode()
    return f"{value}\n".encode()
