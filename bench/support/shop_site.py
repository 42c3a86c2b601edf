"""A shop in a process of its own: `python -m bench.support.shop_site`. Prints its URL and serves until its input ends.

Its own requests are not logged, so that its memory stays as it is.
"""

import asyncio
import sys

from forager.sandbox.shop import ShopConfig, ShopSandbox

PAGES = 1_000_000
PAGE_BYTES = 20_000


async def main() -> None:
    config = ShopConfig(pages=PAGES, page_bytes=PAGE_BYTES, change_days=(0, 0), log_limit=100)
    async with ShopSandbox(config) as shop:
        sys.stdout.write(f"{shop.url('/')}\n")
        sys.stdout.flush()
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
