"""Real pages of the shared data set in a process of its own: `python -m bench.support.real_site`. Prints its URL.

A page has its own path, below its number. It is sent as shops send it: compressed, and prepared before the run.
"""

import asyncio
import gzip
import sys
from collections.abc import Iterator
from urllib.parse import urlsplit

from bench.support.kind_pages import KnownPage, known_pages
from tests.support.origin import Answer, Origin, Seen, reply

OF_KINDS = 4
"""One page in this number of pages of `kinds` is used, and all of `products-2021`."""


def chosen(every: int = 1) -> Iterator[tuple[str, KnownPage]]:
    """Path and page, one of `every`; the same in each process."""
    pages = [*known_pages("products-2021"), *list(known_pages("kinds"))[::OF_KINDS]]
    for number, page in list(enumerate(pages))[::every]:
        yield f"/{number}{urlsplit(page.url).path or '/'}", page


async def main() -> None:
    answers = {path.split("/")[1]: _answer(page.body) for path, page in chosen()}

    def answer(seen: Seen) -> Answer:
        return answers.get(seen.target.split("/")[1]) or reply(404)

    async with Origin(answer) as origin:
        sys.stdout.write(f"{origin.url('/')}\n")
        sys.stdout.flush()
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


def _answer(body: bytes) -> bytes:
    headers = {"Content_Type": "text/html", "Content_Encoding": "gzip"}
    return reply(200, gzip.compress(body, 6, mtime=0), **headers)


if __name__ == "__main__":
    asyncio.run(main())
