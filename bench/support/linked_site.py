"""A linked site in a process of its own: `python -m bench.support.linked_site PAGES`. Prints its URL and serves until
its input ends. `GET /_sandbox/log` returns every request in its order."""

import asyncio
import sys

from forager.sandbox.linked import LinkedConfig, LinkedSandbox


async def main(pages: int) -> None:
    config = LinkedConfig(pages=pages, sitemap=False, words=400, log_limit=500_000)
    async with LinkedSandbox(config) as site:
        sys.stdout.write(f"{site.url('/')}\n")
        sys.stdout.flush()
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
