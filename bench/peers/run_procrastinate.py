"""`run_procrastinate.py URL COUNT`: no-op jobs through procrastinate, defer → run → done. Prints one JSON line.

Tuned as its documentation advises: jobs deferred in batches, an asynchronous worker, a pool of connections. More than
one job at a time only helps jobs that wait: for these, on two cores, concurrency 5 is a third slower and 20 a half.
"""

# mypy: ignore-errors
# (what it imports is installed in an environment of its own, not here)

import json
import logging
import sys
import time

import procrastinate
import uvloop

CONCURRENCY = 1
DEFERRED_TOGETHER = 1_000  # as our own jobs: 1,000 tasks each


async def main(url: str, count: int, concurrency: int = CONCURRENCY) -> None:
    connector = procrastinate.PsycopgConnector(conninfo=url, min_size=concurrency, max_size=concurrency + 2)
    app = procrastinate.App(connector=connector)
    ran = 0

    @app.task(name="noop")
    async def noop(n: int) -> None:
        nonlocal ran
        ran += 1

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        started = time.perf_counter()
        for first in range(0, count, DEFERRED_TOGETHER):
            await noop.batch_defer_async(*({"n": n} for n in range(first, min(first + DEFERRED_TOGETHER, count))))
        submitted = time.perf_counter()
        await app.run_worker_async(wait=False, concurrency=concurrency, install_signal_handlers=False)
        ended = time.perf_counter()
        done = sum([job.status == "succeeded" for job in await app.job_manager.list_jobs_async(task="noop")])
    assert ran == done == count, f"{ran} of {count} jobs ran, {done} are done"
    print(json.dumps({"submit": submitted - started, "work": ended - submitted}), flush=True)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    uvloop.run(main(sys.argv[1], int(sys.argv[2]), *(int(argument) for argument in sys.argv[3:])))
