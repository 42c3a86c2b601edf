"""`forager scrape batch`: the pages of a file as one job, worked on by a running Forager or by this process."""

import csv
import hashlib
import io
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import orjson

from forager.core.errors import FieldError, Rejected
from forager.pipelines.scrape.cli.job_words import words
from forager.sdk.cli import render
from forager.sdk.cli.invocation import Reached
from forager.sdk.cli.render import Show, activity
from forager.sdk.cli.run_job import see_through
from forager.sdk.cli.send_list import ListPart, ListSender, Paths, at_line, changed_meanwhile, rereadable, with_last

# The pages that a file names, read line by line, so that a long file needs no more memory than a short one.
#
# A file is read twice: once to check every line, and once to send it. Nothing is requested if a line is wrong.


MOST_TARGETS = 10_000
MOST_BYTES = 1_800_000
"""Pages and bytes of one part of a file: a request to the API has at most two megabytes."""
MOST_TOLD = 20
SHOW_EVERY = 1_000
"""Lines between two reads of the clock."""


@dataclass(frozen=True, slots=True)
class TargetLine:
    """One page that a file requests, and its line."""

    number: int
    target: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CheckedTargets:
    """A file whose lines are all valid."""

    pages: int
    digest: str
    """Equal for equal targets in equal order."""


@dataclass(frozen=True, slots=True)
class TargetFile:
    """A file of pages: JSON lines or plain URLs, or CSV if its name ends so. Values that a line lacks are taken from
    `otherwise`."""

    path: Path
    name: str
    otherwise: Mapping[str, Any]

    def lines(self, show: Show | None = None) -> Iterator[TargetLine]:
        """Yield the pages in their order. `show` gets the share of the file that was read, from time to time.

        Raises `Rejected`, naming the line, for one that cannot be read.
        """
        try:
            with self.path.open("rb") as raw, io.TextIOWrapper(raw, "utf-8-sig", newline="") as file:
                size = max(1, self.path.stat().st_size)
                rows = _csv(file, self.name) if self.name.lower().endswith(".csv") else _json_lines(file, self.name)
                for count, (number, target) in enumerate(rows):
                    if show is not None and count % SHOW_EVERY == 0:
                        show(f"{100 * raw.tell() / size:.0f} %")
                    yield TargetLine(number, {**self.otherwise, **target})
        except UnicodeError as error:
            raise Rejected(f"{self.name} cannot be read: it is not UTF-8 text.") from error
        except OSError as error:
            raise Rejected(f"{self.name or self.path} cannot be read: {error.strerror}.") from error

    def check(self, show: Show) -> CheckedTargets:
        """Look through the whole file. Raises `Rejected` with the first lines that are wrong."""
        from pydantic import ValidationError

        from forager.core.invalid import field_errors
        from forager.pipelines.scrape.job import BatchTarget

        wrong: list[FieldError] = []
        pages, digest = 0, Digest()
        for line in self.lines(lambda share: show(f"Checking {self.name}: {share}")):
            pages += 1
            digest.add(line)
            if "target_url" not in line.target:
                problem = FieldError("target_url", f"line {line.number} names no page")
                raise Rejected(f"{self.name}: {problem.message}.", fields=[problem])
            try:
                BatchTarget.model_validate(dict(line.target))
            except ValidationError as error:
                wrong += [FieldError(at_line(line.number, each.field), each.message) for each in field_errors(error)]
                if len(wrong) >= MOST_TOLD:
                    break
        if wrong:
            raise Rejected("The file is not valid; nothing was requested.", fields=wrong[:MOST_TOLD])
        if not pages:
            raise Rejected(f"{self.name} names no page. Write one per line: a URL, or an object with target_url.")
        return CheckedTargets(pages, digest.value)


class Digest:
    """The digest of a file's targets, line by line."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, line: TargetLine) -> None:
        self._hash.update(orjson.dumps(dict(line.target), option=orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE))

    @property
    def value(self) -> str:
        return self._hash.hexdigest()


@contextmanager
def target_file(path: Path, otherwise: Mapping[str, Any]) -> Iterator[TargetFile]:
    """Yield the file; a pipe is copied first."""
    with rereadable(path) as file:
        yield TargetFile(file, path.name, otherwise)


def parts_of(lines: Iterable[TargetLine]) -> Iterator[list[TargetLine]]:
    """Split the lines of a file into parts that fit into a request."""
    part: list[TargetLine] = []
    size = 0
    for line in lines:
        more = len(orjson.dumps(dict(line.target))) + 1
        if part and (len(part) == MOST_TARGETS or size + more > MOST_BYTES):
            yield part
            part, size = [], 0
        part.append(line)
        size += more
    if part:
        yield part


def _json_lines(file: TextIO, name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(file, 1):
        if not (content := line.strip()):
            continue
        if content.startswith(("http://", "https://")):
            yield number, {"target_url": content}
            continue
        try:
            target = orjson.loads(content)
            if not isinstance(target, dict):
                raise ValueError("it is not a JSON object")
        except ValueError as error:
            raise Rejected(f"{name}, line {number} is neither a URL nor a JSON object: {error}") from None
        yield number, target


def _csv(file: TextIO, name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    rows = csv.DictReader(file)
    columns = _columns(list(rows.fieldnames or ()), name)
    for row in rows:
        target: dict[str, Any] = {
            columns[column]: value.strip()
            for column, value in row.items()
            if column in columns and value and value.strip()
        }
        if names := target.get("requested_fields"):
            target["requested_fields"] = [part for part in names.replace(";", " ").replace(",", " ").split() if part]
        if target:
            yield rows.line_num, target


def _columns(header: list[str], name: str) -> dict[str, str]:
    """Map the columns of a file to fields of a target. In a table with a column `url`, as other programs write it,
    unknown columns are ignored."""
    from forager.pipelines.scrape.job import BatchTarget

    if not header or "target_url" in header:
        return {column: column for column in header if column}
    address = next((column for column in header if column.strip().lower() == "url"), None)
    if address is None:
        told = ", ".join(column[:40] for column in header[:10])
        raise Rejected(f"{name} has no column url or target_url. Its first line, which names the columns, is: {told}")
    return {address: "target_url", **{column: column for column in header if column in BatchTarget.model_fields}}


PATHS = Paths("/scrape/jobs", "/scrape/jobs/{job}/targets", "targets", "total_tasks")
PAGES_AT_ONCE = 100
"""Pages of one answer: the text of a page may be long."""


async def many_pages(
    at: Reached, file: TargetFile, checked: CheckedTargets, *, max_usd: str | None = None, quiet: bool
) -> AsyncIterator[dict[str, Any]]:
    """Yield every page of the file with its result or its error, in their order, when all have ended."""
    with activity(quiet=quiet) as show:
        job = await _sender(at, file, checked, show, max_usd, quiet=quiet).send()
    if not quiet:
        _note(f"Job {job}: {words.tasks(checked.pages)}")
    await see_through(at, job, words=words, quiet=quiet)
    async for pages in at.api.pages(f"/scrape/jobs/{job}/pages", limit=PAGES_AT_ONCE):
        for page in pages:
            yield _shown(page)


def _sender(
    at: Reached, file: TargetFile, checked: CheckedTargets, show: Show, max_usd: str | None, *, quiet: bool
) -> ListSender:
    def parts() -> Iterator[ListPart]:
        digest = Digest()
        for part, is_last in with_last(parts_of(file.lines())):
            for line in part:
                digest.add(line)
            if is_last and digest.value != checked.digest:
                raise changed_meanwhile(file.name)
            yield ListPart([line.target for line in part], [line.number for line in part], is_last)

    budget = f"\n{max_usd}" if max_usd else ""
    key = hashlib.sha256(f"{file.name}\n{checked.digest}{budget}".encode()).hexdigest()
    return ListSender(
        api=at.api,
        paths=PATHS,
        parts=parts,
        about={"source": file.name, **({"max_usd": max_usd} if max_usd else {})},
        key=f"scrape-batch-{key}",
        name=file.name,
        size=checked.pages,
        words=words,
        show=show,
        quiet=quiet,
    )


def _shown(page: dict[str, Any]) -> dict[str, Any]:
    meta = page["meta"] or {}
    names = ("task_id", "target_url", "target_type", "status", "result")
    return {
        **{name: page[name] for name in names},
        "page_url": meta.get("page_url"),
        "provenance": meta.get("provenance"),
        "error": page["error"],
        "reason": page["reason"],
    }


def _note(text: str) -> None:
    render.notes().print(text, markup=False, soft_wrap=True)
