"""`forager scrape batch`: the pages of a file as one job, worked on by a running Forager or by this process."""

import hashlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

from forager.kit.cli import render
from forager.kit.cli.activity import Show, activity
from forager.kit.cli.invocation import Reached
from forager.kit.cli.run_job import see_through
from forager.kit.cli.send_list import ListPart, ListSender, Paths, changed_meanwhile, with_last
from forager.pipelines.scrape.cli_file import Checked, Digest, TargetFile, parts_of
from forager.pipelines.scrape.cli_words import words

PATHS = Paths("/scrape/jobs", "/scrape/jobs/{job}/targets", "targets", "total_tasks")
PAGES_AT_ONCE = 100
"""Pages of one answer: the text of a page may be long."""


async def many_pages(at: Reached, file: TargetFile, checked: Checked, *, quiet: bool) -> AsyncIterator[dict[str, Any]]:
    """Yield every page of the file with its result or its error, in their order, when all have ended."""
    with activity(quiet=quiet) as show:
        job = await _sender(at, file, checked, show, quiet=quiet).send()
    if not quiet:
        _note(f"Job {job}: {words.tasks(checked.pages)}")
    await see_through(at, job, words=words, quiet=quiet)
    async for pages in at.api.pages(f"/scrape/jobs/{job}/pages", limit=PAGES_AT_ONCE):
        for page in pages:
            yield _shown(page)


def _sender(at: Reached, file: TargetFile, checked: Checked, show: Show, *, quiet: bool) -> ListSender:
    def parts() -> Iterator[ListPart]:
        digest = Digest()
        for part, is_last in with_last(parts_of(file.lines())):
            for line in part:
                digest.add(line)
            if is_last and digest.value != checked.digest:
                raise changed_meanwhile(file.name)
            yield ListPart([line.target for line in part], [line.number for line in part], is_last)

    key = hashlib.sha256(f"{file.name}\n{checked.digest}".encode()).hexdigest()
    return ListSender(
        api=at.api,
        paths=PATHS,
        parts=parts,
        about={"source": file.name},
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
