"""Sends a list that is too long for one request in parts. The parts become one job, which starts after the last part.

The job's idempotency key is made from the list's content. A command that was interrupted and is run again continues the
same job, whether it was being sent or running.
"""

import asyncio
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, NamedTuple, TypeVar

from forager.core.errors import Conflict, FieldError, NotFound, Rejected
from forager.sdk.cli import render
from forager.sdk.cli.client import Api
from forager.sdk.cli.render import Show, Words

T = TypeVar("T")

TRIES = 3


class ListPart(NamedTuple):
    """Consecutive entries of a list."""

    entries: list[Any]
    """As the API takes them."""
    lines: Sequence[int]
    """Line number of each item in the file."""
    is_last: bool


class Paths(NamedTuple):
    """The routes of a pipeline's API for such a list."""

    create: str
    add: str
    """With `{job}` for the job's id."""
    entries: str
    """The field of a request that holds the entries."""
    total: str
    """The field of an answer that counts the received tasks."""


@dataclass(slots=True)
class ListSender:
    """Sends one list. `parts` reads it, from the beginning whenever it is called."""

    api: Api
    paths: Paths
    parts: Callable[[], Iterable[ListPart]]
    about: Mapping[str, Any]
    """The parameters of the job itself."""
    key: str
    """The job's idempotency key."""
    name: str
    """Name of the list in messages."""
    size: int
    words: Words
    show: Show
    quiet: bool
    job: str = ""
    received: int = 0
    """Tasks that Forager has. Entries that are equal become one task."""
    is_whole: bool = False

    async def send(self) -> str:
        """Return the job's id when all parts are stored. Raises `Rejected`, naming the line, for an entry that Forager
        refuses; then nothing is requested."""
        for is_last_try in (*[False] * (TRIES - 1), True):
            try:
                await self._send_parts()
                break
            except asyncio.CancelledError:
                self._say_how_to_continue()
                raise
            except (Conflict, NotFound):
                # A Forager that was restarted meanwhile has given the job up: nothing of it was requested.
                if is_last_try or not self.job:
                    raise
                self.job, self.received, self.is_whole = "", 0, False
        return self.job

    async def _send_parts(self) -> None:
        position = 0
        for part in self.parts():
            is_new = not self.job and await self._create(part)
            if self.is_whole:
                return
            if not is_new and (position + len(part.entries) > self.received or part.is_last):
                await self._add(part, min(position, self.received))
            position += len(part.entries)
            self.show(f"Sending {self.name}: {min(position, self.size):,} of {self.words.tasks(self.size)}")

    async def _create(self, part: ListPart) -> bool:
        """Create the job with its first part. Returns False if there is one already, which may lack this part."""
        body = {**self.about, self.paths.entries: part.entries, "more": not part.is_last}
        try:
            answered = await self.api.create(self.paths.create, body, idempotency_key=self.key)
        except Rejected as wrong:
            raise by_line(wrong, part, self.paths.entries) from None
        self._note_received(answered.data)
        if answered.is_repeated and not self.quiet:
            state = "is being sent" if not self.is_whole else "has not ended"
            _note(f"A job of the same pages {state}: continuing with it. No second job was created.")
        elif not self.is_whole and not self.quiet:
            _note(f"Job {self.job} is being sent; it starts after its last page.")
        return not answered.is_repeated

    async def _add(self, part: ListPart, first: int) -> None:
        body = {self.paths.entries: part.entries, "first": first, "more": not part.is_last}
        try:
            self._note_received(await self.api.post(self.paths.add.format(job=self.job), body))
        except Rejected as wrong:
            raise by_line(wrong, part, self.paths.entries) from None

    def _note_received(self, answer: dict[str, Any]) -> None:
        self.job, self.received = str(answer["job_id"]), int(answer[self.paths.total])
        self.is_whole = answer["status"] != "receiving"

    def _say_how_to_continue(self) -> None:
        if self.job and not self.is_whole:
            _note(
                f"Interrupted: {self.received:,} of {self.words.tasks(self.size)} were sent; none was requested."
                "\nRun the same command again to send the rest. After a minute, what was sent is removed."
            )


def by_line(wrong: Rejected, part: ListPart, entries: str) -> Rejected:
    """Return the error with lines of the file in place of positions in the request. `entries`: the field of the request
    that holds the part."""
    prefix = f"{entries}."
    fields = []
    for each in wrong.fields:
        where, _, field = each.field.removeprefix(prefix).partition(".")
        known = each.field.startswith(prefix) and where.isdigit() and int(where) < len(part.lines)
        fields.append(FieldError(at_line(part.lines[int(where)], field), each.message) if known else each)
    wrong.fields = tuple(fields)
    return wrong


def at_line(number: int, field: str = "") -> str:
    """Name a field of a line of a file, for an error."""
    field = field.removesuffix("body").rstrip(".")
    return f"line {number}{', ' if field else ''}{field}"


@contextmanager
def rereadable(path: Path) -> Iterator[Path]:
    """Yield a file that can be read twice: the given one, or a copy of a pipe (`<(…)`, /dev/stdin).

    Raises `Rejected` if the pipe cannot be read. A file that cannot be read is reported when it is opened.
    """
    if not _is_pipe(path):
        yield path
        return
    with NamedTemporaryFile() as copy:
        try:
            with path.open("rb") as pipe:
                shutil.copyfileobj(pipe, copy)
        except OSError as error:
            raise Rejected(f"{path} cannot be read: {error.strerror}.") from error
        copy.flush()
        yield Path(copy.name)


def _is_pipe(path: Path) -> bool:
    try:
        return path.is_fifo() or path.is_char_device() or path.is_socket()
    except OSError:  # such as a name that is too long; opening the file reports it
        return False


def with_last(items: Iterable[T]) -> Iterator[tuple[T, bool]]:
    """Yield each item, and whether it is the last one."""
    rest = iter(items)
    for item in rest:
        for following in rest:
            yield item, False
            item = following
        yield item, True


def changed_meanwhile(name: str) -> Rejected:
    """Return the error for a file that was not the same when it was sent as when it was checked."""
    return Rejected(f"{name} changed while it was read. Nothing was requested; run it again.")


def _note(text: str) -> None:
    render.notes().print(text, markup=False, soft_wrap=True)
