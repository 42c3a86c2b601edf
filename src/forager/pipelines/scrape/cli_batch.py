"""`forager scrape batch`: the pages of a file as one job, worked on by a running Forager or by this process.

The file is sent in parts, and the job starts after the last one. The job's idempotency key is made from the file's
content: a command that was interrupted and is run again continues the same job, whether it was being sent or running.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from forager.core.errors import Conflict, NotFound, Rejected
from forager.kit.cli import render
from forager.kit.cli.activity import Show, activity
from forager.kit.cli.invocation import Reached
from forager.kit.cli.run_job import see_through
from forager.pipelines.scrape.cli_file import Checked, Digest, Line, TargetFile, by_line, parts_of
from forager.pipelines.scrape.cli_words import words

T = TypeVar("T")

TRIES = 3

PAGES_AT_ONCE = 100
"""Pages of one answer: the text of a page may be long."""


async def many_pages(at: Reached, file: TargetFile, checked: Checked, *, quiet: bool) -> AsyncIterator[dict[str, Any]]:
    """Yield every page of the file with its result or its error, in their order, when all have ended."""
    with activity(quiet=quiet) as show:
        job = await _Sender(at, file, checked, show, quiet=quiet).send()
    if not quiet:
        _note(f"Job {job}: {words.tasks(checked.pages)}")
    await see_through(at, job, words=words, quiet=quiet)
    async for pages in at.api.pages(f"/scrape/jobs/{job}/pages", limit=PAGES_AT_ONCE):
        for page in pages:
            yield _shown(page)


def with_last(items: Iterable[T]) -> Iterator[tuple[T, bool]]:
    """Yield each item, and whether it is the last one."""
    rest = iter(items)
    for item in rest:
        for following in rest:
            yield item, False
            item = following
        yield item, True


@dataclass(slots=True)
class _Sender:
    """Sends a file in parts. `received` is how many pages Forager has."""

    at: Reached
    file: TargetFile
    checked: Checked
    show: Show
    quiet: bool
    job: str = ""
    received: int = 0
    is_whole: bool = False

    async def send(self) -> str:
        """Return the job's id when all parts are stored. Raises `Rejected`, naming the line, for a page that Forager
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
        digest, first = Digest(), 0
        for part, is_last in with_last(parts_of(self.file.lines())):
            for line in part:
                digest.add(line)
            if is_last and digest.value != self.checked.digest:
                raise Rejected(f"{self.file.name} changed while it was read. Nothing was requested; run it again.")
            if not self.job:
                await self._create(part, is_last=is_last)
            if self.is_whole:
                return
            if first + len(part) > self.received or is_last:
                await self._add(part, first, is_last=is_last)
            first += len(part)
            self.show(f"Sending {self.file.name}: {self.received:,} of {words.tasks(self.checked.pages)}")

    async def _create(self, part: list[Line], *, is_last: bool) -> None:
        body = {"targets": [line.target for line in part], "source": self.file.name, "more": not is_last}
        key = hashlib.sha256(f"{self.file.name}\n{self.checked.digest}".encode()).hexdigest()
        try:
            answered = await self.at.api.create("/scrape/jobs", body, idempotency_key=f"scrape-batch-{key}")
        except Rejected as wrong:
            raise by_line(wrong, part) from None
        self._note_received(answered.data)
        if answered.is_repeated and not self.quiet:
            state = "is being sent" if not self.is_whole else "has not ended"
            _note(f"A job of the same pages {state}: continuing with it. No second job was created.")
        elif not self.is_whole and not self.quiet:
            _note(f"Job {self.job} is being sent; it starts after its last page.")

    async def _add(self, part: list[Line], first: int, *, is_last: bool) -> None:
        body = {"targets": [line.target for line in part], "first": first, "more": not is_last}
        try:
            self._note_received(await self.at.api.post(f"/scrape/jobs/{self.job}/targets", body))
        except Rejected as wrong:
            raise by_line(wrong, part) from None

    def _note_received(self, answer: dict[str, Any]) -> None:
        self.job, self.received = str(answer["job_id"]), int(answer["total_tasks"])
        self.is_whole = answer["status"] != "receiving"

    def _say_how_to_continue(self) -> None:
        if self.job and not self.is_whole:
            _note(
                f"Interrupted: {self.received:,} of {words.tasks(self.checked.pages)} were sent; none was requested."
                "\nRun the same command again to send the rest. After a minute, what was sent is removed."
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
