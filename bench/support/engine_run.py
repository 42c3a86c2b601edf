"""One places job through the whole engine in a process of its own: `python -m bench.support.engine_run REQUEST`.

The request is a JSON object; the answer is one JSON line. CPU time is that of this process with all its threads, from
the end of the submission to the commit of the last task; memory is the most that it ever had, start and plan included.
"""

import json
import resource
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import uvloop

from bench.support.places import completed, ended, places_app, zip_codes
from bench.support.stores import Store
from bench.support.upstream import Upstream

IN_FLIGHT = 64
NO_DELAY = {"serper_rate": 100_000, "serper_burst": 100_000, "serper_concurrency": IN_FLIGHT}
POLICY = f"no delay (100,000/s at once), {IN_FLIGHT} in flight"


@dataclass(frozen=True, slots=True)
class EngineRun:
    tasks: int
    seconds: float
    cpu: float
    peak_mb: float
    sightings: int

    @property
    def per_s(self) -> float:
        return self.tasks / self.seconds

    @property
    def cpu_ms(self) -> float:
        return self.cpu * 1000 / self.tasks


async def run(store: Store, serper: Upstream, tasks: int, pages: int, settings: Mapping[str, Any]) -> EngineRun:
    async with places_app(store, serper, **NO_DELAY, **settings) as app:
        job = {"keyword": "bars", "zips": zip_codes(tasks // pages), "pages": pages, "batch_size": 10_000}
        submitted = await app.submit("places", job)
        async with app.engine():
            started, used = time.perf_counter(), _cpu()
            await ended(app, submitted.total)
            seconds, used = time.perf_counter() - started, _cpu() - used
        report = await completed(app, submitted.job)
    return EngineRun(submitted.total, seconds, used, peak_mb(), report.records)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def peak_mb() -> float:
    """The most memory that this process ever had."""
    # Not ru_maxrss: that begins with what the parent had when it started this process.
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")) / 1024


def main(request: dict[str, Any]) -> None:
    store = Store(request["kind"], Path(request["home"]), request["url"])
    serper, settings = Upstream(request["upstream"]), request.get("settings", {})
    answer = uvloop.run(run(store, serper, request["tasks"], request["pages"], settings))
    print(json.dumps(asdict(answer)), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
