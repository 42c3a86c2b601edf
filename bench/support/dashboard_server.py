"""Forager with a simulated upstream on a free port: `python -m bench.support.dashboard_server HOME ZIPS`.

Prints its URL, then works until its input ends.
"""

import asyncio
import sys
from pathlib import Path

import uvloop

from forager.api.serve import running
from forager.cli.process import SWITCH_INTERVAL
from tests.support.api import open_front


async def main(home: Path, zips: int) -> None:
    table = "zip,state,city\n" + "".join(f"{10_000 + n},AZ,Phoenix\n" for n in range(zips))
    async with (
        open_front(home, table=table, latency_ms=100) as front,
        running(front.api, host="127.0.0.1", port=0) as url,
        front.app.engine(),
    ):
        print(url, flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    sys.setswitchinterval(SWITCH_INTERVAL)
    uvloop.run(main(Path(sys.argv[1]), int(sys.argv[2])))
