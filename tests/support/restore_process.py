"""A Forager with a BigQuery sink and one places job, in a process of its own, to be killed: `python -m … ZIP,ZIP,…`.

It adds the sink, creates the job, prints the job's id, and works until it is killed. Settings are in the environment.
"""

import asyncio
import sys

from forager.app.compose import open_app
from forager.app.config import load_settings
from forager.core.sink import SinkRow

EVERY = 0.3
SINK = SinkRow("warehouse", "bigquery", options={"every_seconds": EVERY})


async def main(zips: str) -> None:
    async with open_app(load_settings()) as app:
        await app.roster.add(SINK)
        submitted = await app.submit("places", {"keyword": "bars", "zips": zips.split(","), "pages": 3})
        print(submitted.job, flush=True)  # noqa: T201
        async with app.engine():
            await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
