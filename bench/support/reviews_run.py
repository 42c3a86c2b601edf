"""Reviews jobs through the whole engine in a process of its own: `python -m bench.support.reviews_run REQUEST`.

The request is a JSON object; the answer is one JSON line: seconds until the jobs have ended, seconds until everything
was published (if a broker is named), records, and the most memory that the process ever had.
"""

import asyncio
import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import uvloop

from bench.support.engine_run import peak_mb
from bench.support.reviews import all_ended, reviews_app
from bench.support.stores import Store
from forager.app.application import App
from forager.cli.process import SWITCH_INTERVAL
from forager.core.secret import Secret
from forager.pipelines.reviews.wiring import submit_token


@dataclass(frozen=True, slots=True)
class ReviewsRun:
    seconds: float
    published: float | None
    records: int
    peak_mb: float
    enqueued: float
    """Seconds that creating the jobs took, all at once."""

    @property
    def per_s(self) -> float:
        return self.records / self.seconds


async def run(store: Store, request: dict[str, Any]) -> ReviewsRun:
    async with reviews_app(store, request["hosts"], **request["settings"]) as app:
        before = time.perf_counter()
        tokens = [Secret(f"sandbox-bench.{number}") for number in range(request["jobs"])]
        jobs = [made.job for made in await asyncio.gather(*(submit_token(app, token) for token in tokens))]
        enqueued = time.perf_counter() - before
        async with app.engine(schedules=False):
            started = time.perf_counter()
            await all_ended(app, jobs)
            seconds = time.perf_counter() - started
            published = None
            if request["settings"].get("kafka_brokers"):
                await _delivered(app)
                published = time.perf_counter() - started
        (row,) = await app.database.fetch("SELECT sum(records) AS n FROM jobs")
    return ReviewsRun(seconds, published, int(row["n"] or 0), peak_mb(), enqueued)


async def _delivered(app: App) -> None:
    """Wait until the sink has passed the last change."""
    while (at := await app.sinks.position("kafka")).cursor < at.last:
        await asyncio.sleep(0.005)


def main(request: dict[str, Any]) -> None:
    sys.setswitchinterval(SWITCH_INTERVAL)  # as `forager up` does
    store = Store(request["kind"], Path(request["home"]), request["url"])
    print(json.dumps(asdict(uvloop.run(run(store, request)))), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
