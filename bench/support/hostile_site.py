"""A site of hostile pages in a process of its own: `python -m bench.support.hostile_site`. Prints its URL.

`/3/17/65536` is the page that has pump 17 in context 3, repeated up to 65,536 characters; `/ordinary/1` a page like
others; a page's address with `/sitemap.xml` behind it has the pump inside of a sitemap.
"""

import asyncio
import sys

from tests.support.hostile import CONTEXTS, PUMPS, repeated
from tests.support.origin import Answer, Origin, Seen, reply

PIECES = PUMPS[::2]
"""Every second piece of the search for slow expressions (S6): 76 of them."""
PLACES = (
    "raw", "title", "paragraph", "label", "price", "attributes", "links", "data in a script", "json-ld, broken",
)  # fmt: skip
SIZES = (64 * 1_024, 250 * 1_024, 1_024 * 1_024)
ORDINARY = "<html><title>Kettle</title><h1>Kettle</h1><p>$ 20.00</p><button>Add to cart</button>" + "<p>words</p>" * 900


def answer(seen: Seen) -> Answer:
    match seen.target.strip("/").split("/"):
        case ["robots.txt"]:
            return reply(404)
        case ["ordinary", _]:
            return _page(ORDINARY)
        case [_, pump, size, "sitemap.xml"]:
            text = f"<urlset>{repeated(PIECES[int(pump)], int(size))}"
            return reply(200, text.encode("utf-8", "replace"), Content_Type="application/xml")
        case [context, pump, size]:
            return _page(CONTEXTS[PLACES[int(context)]](repeated(PIECES[int(pump)], int(size))))
    return reply(404)


def _page(html: str) -> bytes:
    return reply(200, html.encode("utf-8", "replace"), Content_Type="text/html; charset=utf-8")


async def main() -> None:
    async with Origin(answer) as origin:
        sys.stdout.write(f"{origin.url('/')}\n")
        sys.stdout.flush()
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
