"""The URLs of a file, one per line. A long list is read line by line and sent in parts, so that it needs no more memory
than a short one."""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from forager.core.errors import FieldError, Rejected
from forager.kit.cli.activity import Show, activity
from forager.kit.cli.invocation import Reached
from forager.kit.cli.run_job import follow_created
from forager.kit.cli.send_list import (
    ListPart,
    ListSender,
    Paths,
    at_line,
    by_line,
    changed_meanwhile,
    rereadable,
    with_last,
)
from forager.pipelines.products.cli_words import words

PATHS = Paths("/admin/crawl-jobs/in-parts", "/admin/crawl-jobs/{job}/urls", "urls", "total")
PLAN = "/jobs/plan"
FEW = 1_000
"""Up to so many URLs are sent in one request, and listed with the job."""
MOST_URLS = 2_000
"""URLs of one part. The API takes more, but a part of 10,000 needs 60 MB more memory and is not received faster."""
MOST_BYTES = 1_800_000
"""Bytes of one part: a request to the API has at most two megabytes."""
MOST_TOLD = 20


class Line(NamedTuple):
    number: int
    url: str


class Checked(NamedTuple):
    """A file whose lines are all valid."""

    pages: int
    digest: str
    """Equal for equal URLs in equal order."""


@dataclass(frozen=True, slots=True)
class UrlFile:
    """A file with one URL per line; blank lines and lines that begin with # are left out."""

    path: Path
    name: str
    url: str | None = None
    """The URL of the command line: the first of the list, as its line 0."""

    def lines(self) -> Iterator[Line]:
        """Yield the URLs in their order. Raises `Rejected` if the file cannot be read."""
        if self.url is not None:
            yield Line(0, self.url)
        try:
            with self.path.open(encoding="utf-8-sig") as file:
                for number, line in enumerate(file, 1):
                    url = line.strip()
                    if url and not url.startswith("#"):
                        yield Line(number, url)
        except UnicodeError as error:
            raise Rejected(f"{self.name} cannot be read: it is not UTF-8 text.") from error
        except OSError as error:
            raise Rejected(f"{self.name} cannot be read: {error.strerror}.") from error

    def few(self) -> list[str] | None:
        """Return all URLs if one request can hold them, else None."""
        urls = [line.url for line in islice(self.lines(), FEW + 1)]
        return urls if len(urls) <= FEW and sum(map(len, urls)) < MOST_BYTES // 2 else None

    def check(self, show: Show) -> Checked:
        """Look through the whole file. Raises `Rejected` with the first lines that are wrong."""
        from forager.extract.canonical import canonical_url

        wrong: list[FieldError] = []
        pages, digest = 0, hashlib.sha256()
        for line in self.lines():
            pages += 1
            digest.update(f"{line.url}\n".encode())
            if pages % FEW == 0:
                show(f"Checking {self.name}: {words.tasks(pages)}")
            try:
                canonical_url(line.url)
            except ValueError as error:
                wrong.append(FieldError(at_line(line.number) if line.number else "url", str(error)))
                if len(wrong) >= MOST_TOLD:
                    break
        if wrong:
            raise Rejected("The list is not valid; nothing was requested.", fields=wrong)
        return Checked(pages, digest.hexdigest())

    def parts(self, checked: Checked) -> Iterator[ListPart]:
        """Yield the file in parts that fit into a request. Raises `Rejected`, before the last part, if it has changed
        since it was checked."""
        digest = hashlib.sha256()
        for part, is_last in with_last(_parts_of(self.lines())):
            for line in part:
                digest.update(f"{line.url}\n".encode())
            if is_last and digest.hexdigest() != checked.digest:
                raise changed_meanwhile(self.name)
            yield ListPart([line.url for line in part], [line.number for line in part], is_last)


@contextmanager
def url_file(path: Path, url: str | None = None) -> Iterator[UrlFile]:
    """Yield the file, with this URL ahead of its own; a pipe is copied first."""
    with rereadable(path) as file:
        yield UrlFile(file, path.name, url)


async def crawl_list(at: Reached, file: UrlFile, options: Mapping[str, Any], *, watch: bool, as_json: bool) -> None:
    """Send a long list as one job, and follow it as any other."""
    with activity(quiet=as_json) as show:
        checked = file.check(show)
        about = {**options, "source": file.name[:200]}
        key = hashlib.sha256(orjson.dumps([about, checked.digest], option=orjson.OPT_SORT_KEYS)).hexdigest()
        sender = ListSender(
            api=at.api,
            paths=PATHS,
            parts=lambda: file.parts(checked),
            about=about,
            key=f"crawl-list-{key}",
            name=file.name,
            size=checked.pages,
            words=words,
            show=show,
            quiet=as_json,
        )
        job = await sender.send()
    created = {"job_id": job, "status": "queued", "total": sender.received}
    await follow_created(at, created, words=words, total="total", watch=watch, as_json=as_json)


async def plan_list(at: Reached, file: UrlFile, options: Mapping[str, Any], *, as_json: bool) -> dict[str, Any]:
    """Return the plan of a long list: the sum of the plans of its parts, so that a page that stands in several parts
    counts in each. Raises `Rejected`, naming the lines, for a file that `crawl_list` would refuse."""
    with activity(quiet=as_json) as show:
        checked = file.check(show)
    most, shops = options.get("max_pages"), dict[str, dict[str, Any]]()
    more = False
    for part in file.parts(checked):
        params = {**options, "urls": part.entries}
        params.pop("max_pages", None)
        try:
            planned = await at.api.post(PLAN, {"pipeline": "products", "params": params})
        except Rejected as wrong:
            raise by_line(wrong, part, "urls") from None
        more = more or planned["more"]
        for shop in planned["shops"]:
            known = shops.setdefault(shop["domain"], {**shop, "pages": 0})
            known["pages"] += shop["pages"]
    for shop in shops.values():
        shop["pages"] = shop["pages"] if most is None else min(shop["pages"], most)
        shop["seconds"] = round(shop["pages"] * shop["seconds_per_page"], 1)
    total = sum(shop["pages"] for shop in shops.values())
    return {
        "pages": total if most is None else min(total, most),
        "more": more,
        "at_most": most,
        "seconds": max((shop["seconds"] for shop in shops.values()), default=0.0),
        "shops": [shops[domain] for domain in sorted(shops)],
    }


def _parts_of(lines: Iterator[Line]) -> Iterator[list[Line]]:
    part: list[Line] = []
    size = 0
    for line in lines:
        more = len(orjson.dumps(line.url)) + 1
        if part and (len(part) == MOST_URLS or size + more > MOST_BYTES):
            yield part
            part, size = [], 0
        part.append(line)
        size += more
    if part:
        yield part
