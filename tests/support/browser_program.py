"""A program in the middle of a visit, to be killed: `python -m tests.support.browser_program PIDS URL`."""

import asyncio
import sys
from pathlib import Path
from urllib.parse import urlsplit

from tests.support.visits import Watched, browsing, visit


async def main(pids: Path, url: str) -> None:
    launcher = Watched(pids=pids)
    async with browsing([urlsplit(url).netloc], launcher=launcher, navigation_timeout=60) as fetch:
        going = asyncio.create_task(fetch(visit(url)))
        while not launcher.started:
            await asyncio.sleep(0.01)
        sys.stdout.write(f"{launcher.started[0].pid}\n")
        sys.stdout.flush()
        await going


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
